// Lets threads ring doorbell registers; those that share one, one after another in the order of arrival.
#include "common/fabric/sim/doorbells.h"

#include <algorithm>
#include <utility>

#include "common/fabric/sim/stage_costs.h"

namespace loch::fabric::sim {

Nanos Doorbells::ring(const Timing& timing, std::uint16_t which, const void* thread, Nanos at) {
  if (which == unlocked) return at;
  if (which == one_thread) return at + doorbell_hold(timing, true, 1);
  Register& held = registers_[which];
  while (!held.gives_up.empty() && held.gives_up.front() <= at) held.gives_up.pop_front();
  const std::size_t threads = held.gives_up.size() + 1;
  const Nanos free_at = held.gives_up.empty() ? at : held.gives_up.back();
  const bool is_again = std::exchange(held.last, thread) == thread;
  held.gives_up.push_back(free_at + doorbell_hold(timing, is_again, threads));
  return held.gives_up.back();
}

}  // namespace loch::fabric::sim
