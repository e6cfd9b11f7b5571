// The fabrics that tests run over, by name: "sim", "shm", "verbs".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/fabric/fault/fault.h"
#include "common/fabric/sim/sim.h"

namespace loch::support {

// What cannot fail in a test that is right: aborts with the error's line.
template <typename R>
void check(const R& result) {
  LOCH_CHECK(result.has_value(), "{}", result.has_value() ? std::string() : result.error().message);
}

struct FabricOptions {
  std::uint32_t nodes = 3;
  std::uint64_t seed = 7;
  fabric::sim::SimFaults faults = {};  // sim alone
  Nanos deadline = fabric::forever;    // sim alone: the run is ended
  fabric::FaultConfig losses = {};     // any fabric
  std::string hardware = "connectx3-10gbe";
  bool is_plain = false;  // the bare fabric: without the decorators that drop or count requests
};

// Counts its requests, unless it is plain. Aborts when it cannot be opened.
[[nodiscard]] std::unique_ptr<fabric::Fabric> make_fabric(const std::string& name,
                                                          const FabricOptions& options);

// A simulation without faults; what make_sim takes.
[[nodiscard]] fabric::sim::SimConfig sim_config(std::uint32_t nodes = 2,
                                                const std::string& hardware = "connectx3-10gbe",
                                                std::uint64_t seed = 1);

// The fabrics that run on every machine: sim and shm.
[[nodiscard]] std::vector<std::string> local_fabrics();
// local_fabrics(), or, with LOCH_TEST_VERBS in the environment, verbs over this machine's RDMA device alone.
[[nodiscard]] std::vector<std::string> fabrics();

}  // namespace loch::support
