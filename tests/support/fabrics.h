// The fabrics on which tests run, by name: "sim", "shm", "verbs", "ofi".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/fabric/fault/fault.h"
#include "common/fabric/sim/sim.h"

namespace loch::support {

// Aborts with the error's message if `result` is an error.
template <typename R>
void check(const R& result) {
  LOCH_CHECK(result.has_value(), "{}", result.has_value() ? std::string() : result.error().message);
}

struct FabricOptions {
  std::uint32_t nodes = 3;
  std::uint64_t seed = 7;
  fabric::sim::SimFaults faults = {};  // simulated faults; only for the simulator
  Nanos deadline = fabric::forever;    // only for the simulator: time at which the run is ended
  fabric::FaultConfig losses = {};     // for any fabric: faults that a decorator injects
  std::string hardware = "connectx3-10gbe";
  bool is_plain = false;  // true: not wrapped by the decorators that inject faults and count requests
};

// Opens the fabric, which counts its requests unless options.is_plain is set. Aborts if it cannot be opened.
[[nodiscard]] std::unique_ptr<fabric::Fabric> make_fabric(const std::string& name,
                                                          const FabricOptions& options);

// Configuration of a simulation without faults, for make_sim.
[[nodiscard]] fabric::sim::SimConfig sim_config(std::uint32_t nodes = 2,
                                                const std::string& hardware = "connectx3-10gbe",
                                                std::uint64_t seed = 1);

// The fabrics that every machine has: sim and shm.
[[nodiscard]] std::vector<std::string> local_fabrics();
// local_fabrics(); or, with LOCH_TEST_VERBS in the environment, only verbs on this machine's RDMA device,
// which LOCH_TEST_DEVICE may name as --device does, or with LOCH_TEST_OFI=PROVIDER only ofi on this provider.
[[nodiscard]] std::vector<std::string> fabrics();

}  // namespace loch::support
