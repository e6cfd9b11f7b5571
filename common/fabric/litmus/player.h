// Runs the litmus suite (tests, called races, of one-sided requests beside other memory accesses) between
// node 0, which leads, and node 1, which follows. The nodes agree on when a race begins and ends by words in
// their memory, and each waits for the other at most `patience` ns.
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
  std::uint64_t tries = 10'000;  // or after this number of tries
  Nanos patience = 10'000'000'000;
};

// What one local node of the litmus suite has: its memory, its workers and what it counted.
class Player {
 public:
  // Registers memory and adds workers. To be called before Fabric::exchange().
  [[nodiscard]] static Result<std::unique_ptr<Player>> make(Fabric& fabric, NodeId node, const Plan& plan);
  virtual ~Player() = default;
  // Looks up the other node's memory, posts receive buffers and starts the workers. To be called after
  // Fabric::exchange().
  [[nodiscard]] virtual Result<> start(Fabric& fabric) = 0;
  // Why the litmus tests (races) ended early; empty if they did not. To be called after the run.
  [[nodiscard]] virtual const std::string& fault() const = 0;
  // What both nodes counted, one entry for each litmus test (race) of the plan. To be called for node 0,
  // after the run.
  [[nodiscard]] virtual const std::vector<Seen>& seen() const = 0;
};

}  // namespace loch::fabric::litmus
