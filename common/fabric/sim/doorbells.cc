// Lets threads ring the doorbell registers that they share, one after another in the order in which they
// come.
#include "common/fabric/sim/doorbells.h"

#include <algorithm>
#include <utility>

#include "common/fabric/sim/stage_costs.h"

namespace loch::fabric::sim {

Nanos Doorbells::ring(const Timing& timing, std::uint16_t which, const void* thread, Nanos at) {
  Register& own = registers_[which];
  while (!own.gives_up.empty() && own.gives_up.front() <= at) own.gives_up.pop_front();
  const std::size_t threads = own.gives_up.size() + 1;
  const Nanos free_at = own.gives_up.empty() ? at : own.gives_up.back();
  const bool is_again = std::exchange(own.last, thread) == thread;
  own.gives_up.push_back(free_at + doorbell_hold(timing, is_again, threads));
  return own.gives_up.back();
}

}  // namespace loch::fabric::sim
