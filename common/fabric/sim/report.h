// Builds the report of a simulated run (FabricReport).
#pragma once

#include "common/fabric/sim/simulation.h"

namespace loch::fabric::sim {

// The time of the last reset of the counters, and the number of allocations that the object pools had made by
// then.
struct Books {
  Nanos since = 0;
  std::uint64_t allocations = 0;
};

void reset_books(Simulation& sim, Books* books);
[[nodiscard]] FabricReport make_report(const Simulation& sim, const Books& books, double wall_s);

}  // namespace loch::fabric::sim
