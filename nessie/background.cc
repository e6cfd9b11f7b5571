// Runs a worker's background work in a loop, and completes it at the end of a run.
#include "nessie/background.h"

#include <algorithm>

#include "nessie/doubts.h"
#include "nessie/entry.h"
#include "nessie/reach.h"
#include "nessie/stamps.h"
#include "nessie/unfinished.h"

namespace loch::nessie {
namespace {

// Longest sleep of the background work, in ns. While the worker's clients run, each sleep is followed by a
// check whether they have ended.
constexpr Nanos longest_pause = 4'000'000;
// Longest pause between two turns that find nothing to do, in ns, unless nessie.recycle-interval is longer. A
// run ends that much later at most, with all cores idle.
constexpr Nanos longest_idle_pause = 1'000'000;

// Runs after the clients have ended: until all stamps (marks of entries that may be reused) are written, all
// unfinished operations completed, and all entries examined that may have left the index without a stamp; at
// most for nessie.settle-timeout, in case a node does not come back.
coro::Task<void> end_background(Lane* lane) {
  WorkerState& own = lane->own;
  fabric::Worker& worker = lane->worker;
  const Nanos until = worker.now() + lane->settings.settle_timeout;
  Nanos pause = std::min(lane->settings.recycle_interval, longest_pause);
  while (true) {
    co_await flush_stamps({.lane = *lane}, own.unlinked.size());
    if (!own.unfinished.empty()) co_await settle_unfinished(lane);
    if (own.table.has_doubts()) co_await settle_doubts(lane);
    const bool is_clean = own.unlinked.empty() && own.unfinished.empty() && !own.table.has_doubts();
    if (is_clean || worker.stopping() || worker.now() >= until) co_return;
    co_await worker.sleep_until(worker.now() + pause);
    pause = std::min(2 * pause, longest_pause);
    look_at_members(*lane);
  }
}

}  // namespace

coro::Task<void> run_background(Lane* lane, const bool* done) {
  WorkerState& own = lane->own;
  fabric::Worker& worker = lane->worker;
  constexpr std::size_t stamps_a_turn = 64;
  constexpr std::uint32_t entries_a_turn = 256;
  // No entry can expire earlier than one expiry period after the first operation, minus the allowed clock
  // skew, so do not scan before.
  own.table.no_scan_before(worker.node_clock() + lane->settings.expiry - lane->settings.clock_margin);
  const Nanos usual_pause = lane->settings.recycle_interval;
  Nanos pause = usual_pause;
  while (!*done && !worker.stopping()) {
    std::size_t marked = 0;
    look_at_members(*lane);
    if (!own.unlinked.empty()) marked = co_await flush_stamps({.lane = *lane}, stamps_a_turn);
    if (!own.unfinished.empty()) co_await settle_unfinished(lane);
    if (own.table.has_doubts()) co_await settle_doubts(lane);
    const Nanos node_now = worker.node_clock();
    if (own.table.is_short() && own.table.is_scan_due(node_now)) {
      own.table.scan(node_now, entries_a_turn);
      co_await charge_scan(lane);
    }
    if (*done || (marked > 0 && !own.unlinked.empty())) continue;
    // If operations write their stamps (marks that entries left the index) themselves, a turn of the
    // background work mostly finds nothing to do. The worker's core then sleeps longer and longer, instead of
    // waking for every turn.
    const bool is_idle = !lane->settings.stamps_lazily && own.unlinked.empty() && own.unfinished.empty() &&
                         !own.table.has_doubts() && !own.table.is_short();
    pause = is_idle ? std::min(2 * pause, std::max(usual_pause, longest_idle_pause)) : usual_pause;
    const Nanos next = worker.now() + pause;
    while (!*done && !worker.stopping() && worker.now() < next)
      co_await worker.sleep_until(std::min(next, worker.now() + longest_pause));
  }
  co_await end_background(lane);
}

}  // namespace loch::nessie
