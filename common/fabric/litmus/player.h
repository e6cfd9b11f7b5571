// Runs the races of the litmus suite between node 0, which leads, and node 1, which follows. The two agree on
// when a race begins and ends by words in their memory, and wait for each other at most `patience`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/fabric.h"
#include "common/fabric/litmus/races.h"

namespace loch::fabric::litmus {

struct Plan {
  std::vector<Race> races;
  Nanos time = 1'000'000'000;    // a race ends after this many ns
  std::uint64_t tries = 10'000;  // or after so many tries
  Nanos patience = 10'000'000'000;
};

// One local node's part: its memory, its workers and what it counted.
class Player {
 public:
  // Registers memory and adds workers. To be called before the exchange.
  [[nodiscard]] static Result<std::unique_ptr<Player>> make(Fabric& fabric, NodeId node, const Plan& plan);
  virtual ~Player() = default;
  // Looks up the other node's memory, posts receive buffers and starts the workers; after the exchange.
  [[nodiscard]] virtual Result<> start(Fabric& fabric) = 0;
  // After the run. Why the races ended early; empty: they did not.
  [[nodiscard]] virtual const std::string& fault() const = 0;
  // After the run, of node 0: what both nodes counted, by race of the plan.
  [[nodiscard]] virtual const std::vector<Seen>& seen() const = 0;
};

}  // namespace loch::fabric::litmus
