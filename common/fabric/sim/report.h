// Builds the report of a simulated run (FabricReport).
#pragma once

#include "common/fabric/sim/simulation.h"

namespace loch::fabric::sim {

// When the counters were last reset, and the pools' allocations up to then.
struct Books {
  Nanos since = 0;
  std::uint64_t allocations = 0;
};

void reset_books(Simulation& sim, Books* books);
[[nodiscard]] FabricReport make_report(const Simulation& sim, const Books& books, double wall_s);

}  // namespace loch::fabric::sim
