// A worker's background work (2017, 4.2.5): marking DTEs that left the index, finding those of its own whose
// deadline has passed, and settling what operations had to leave unfinished, off their critical path.
#include <algorithm>

#include "nessie/session.h"

namespace loch::nessie {
namespace {

// Within it a worker notices that its clients have ended.
constexpr Nanos longest_pause = 4'000'000;

}  // namespace

coro::Task<void> Session::run_background(const bool* done) {
  constexpr std::size_t stamps_a_turn = 64;
  constexpr std::uint32_t entries_a_turn = 256;
  // No stamp lies before the first operation plus E, whatever the clocks' skew within the margin.
  own_.table.no_scan_before(worker_.node_clock() + settings_.expiry - settings_.clock_margin);
  while (!*done && !worker_.stopping()) {
    std::size_t marked = 0;
    look_at_members();
    if (!own_.unlinked.empty()) marked = co_await flush_stamps(stamps_a_turn);
    if (!own_.unfinished.empty()) co_await settle_unfinished();
    if (own_.table.has_doubts()) co_await settle_doubts();
    const Nanos node_now = worker_.node_clock();
    if (own_.table.is_short() && own_.table.is_scan_due(node_now)) {
      own_.table.scan(node_now, entries_a_turn);
      co_await charge_scan();
    }
    if (*done || (marked > 0 && !own_.unlinked.empty())) continue;
    const Nanos next = worker_.now() + settings_.recycle_interval;
    while (!*done && !worker_.stopping() && worker_.now() < next)
      co_await worker_.sleep_until(std::min(next, worker_.now() + longest_pause));
  }
  co_await end_background();
}

// The clients have ended; what is left behind goes on until it is settled, or for nessie.settle-timeout where
// a node does not come back.
coro::Task<void> Session::end_background() {
  const Nanos until = worker_.now() + settings_.settle_timeout;
  Nanos pause = std::min(settings_.recycle_interval, longest_pause);
  while (true) {
    co_await flush_stamps(own_.unlinked.size());
    if (!own_.unfinished.empty()) co_await settle_unfinished();
    if (own_.table.has_doubts()) co_await settle_doubts();
    const bool is_clean = own_.unlinked.empty() && own_.unfinished.empty() && !own_.table.has_doubts();
    if (is_clean || worker_.stopping() || worker_.now() >= until) co_return;
    co_await worker_.sleep_until(worker_.now() + pause);
    pause = std::min(2 * pause, longest_pause);
    look_at_members();
  }
}

}  // namespace loch::nessie
