// The fabrics that the tests of stores run over.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/fabric/count/count.h"
#include "common/fabric/fault/fault.h"
#include "common/fabric/shm/shm.h"
#include "common/fabric/sim/sim.h"
#include "common/fabric/verbs/verbs.h"

namespace loch::fabric::testing {

struct FabricOptions {
  std::uint32_t nodes = 3;
  std::uint64_t seed = 7;
  sim::SimFaults faults = {};  // sim alone
  Nanos deadline = forever;    // sim alone: the run is ended
  FaultConfig losses = {};
  std::string hardware = "connectx3-10gbe";
};

// Counted; "sim", "shm" or "verbs".
inline std::unique_ptr<Fabric> make_fabric(const std::string& name, const FabricOptions& options) {
  Result<std::unique_ptr<Fabric>> made = fail(ErrorCode::internal, "no such fabric");
  if (name == "shm") {
    made = shm::make_shm({.nodes = options.nodes, .seed = options.seed});
  } else if (name == "verbs") {
    verbs::VerbsConfig config;
    config.nodes = options.nodes;
    config.seed = options.seed;
    made = verbs::make_verbs(config);
  } else {
    const auto hardware = sim::load_hardware(options.hardware);
    LOCH_CHECK(hardware.has_value(), "{}", hardware.error().message);
    sim::SimConfig config;
    config.nodes = options.nodes;
    config.hardware = *hardware;
    config.seed = options.seed;
    config.faults = options.faults;
    config.deadline = options.deadline;
    made = sim::make_sim(config);
  }
  LOCH_CHECK(made.has_value(), "{}", made.error().message);
  made = inject_faults(std::move(*made), options.losses);
  LOCH_CHECK(made.has_value(), "{}", made.error().message);
  return count_requests(std::move(*made), {});
}

// A machine with an RDMA device says so: then the suite runs over that device alone (tests/fabric/backend.h).
inline std::vector<std::string> fabrics() {
  if (std::getenv("LOCH_TEST_VERBS") != nullptr) return {"verbs"};
  return {"sim", "shm"};
}

}  // namespace loch::fabric::testing
