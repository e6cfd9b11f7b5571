// Builds the report of a simulated run (FabricReport).
#pragma once

#include <memory>
#include <span>

#include "common/fabric/sim/simulation.h"

namespace loch::fabric::sim {

// The time of the last reset of the counters, and the number of allocations that the object pools had made by
// then.
struct Books {
  Nanos since = 0;
  std::uint64_t allocations = 0;
};

using Parts = std::span<const std::unique_ptr<Simulation>>;
[[nodiscard]] std::uint64_t allocations(Parts parts);
void reset_counters(SimNode& node);
void reset_books(Parts parts, Books* books);
[[nodiscard]] FabricReport make_report(Parts parts, const Books& books, double wall_s);

}  // namespace loch::fabric::sim
