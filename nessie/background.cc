// A worker's background work (2017, 4.2.5): marking DTEs that left the index, and finding those of
// its own whose deadline has passed, off the operations' critical path.
#include "nessie/session.h"

namespace loch::nessie {

coro::Task<void> Session::run_background(const bool* done) {
  constexpr std::size_t stamps_a_turn = 64;
  constexpr std::uint32_t entries_a_turn = 256;
  // No stamp lies before the first operation plus E, whatever the clocks' skew within the margin.
  own_.table.no_scan_before(worker_.node_clock() + settings_.expiry - settings_.clock_margin);
  while (!*done && !worker_.stopping()) {
    if (!own_.unlinked.empty()) co_await flush_stamps(stamps_a_turn);
    const Nanos node_now = worker_.node_clock();
    if (own_.table.is_short() && own_.table.is_scan_due(node_now)) {
      own_.table.scan(node_now, entries_a_turn);
      co_await charge_scan();
    }
    if (*done || !own_.unlinked.empty()) continue;
    co_await worker_.sleep_until(worker_.now() + settings_.recycle_interval);
  }
  co_await flush_stamps(own_.unlinked.size());
}

}  // namespace loch::nessie
