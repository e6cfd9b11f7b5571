#include "workloads/testing/fabrics.h"

#include "common/base/check.h"

#include "common/fabric/shm/shm.h"
#include "common/fabric/sim/sim.h"

namespace loch::workloads::testing {

std::vector<std::string> fabrics() {
  std::vector<std::string> names;
  names.emplace_back("sim");
  names.emplace_back("shm");
  return names;
}

std::unique_ptr<fabric::Fabric> open(const std::string& name, [[maybe_unused]] std::uint32_t nodes,
                                     [[maybe_unused]] std::uint64_t seed, [[maybe_unused]] bool is_torn) {
  if (name == "sim") {
    fabric::sim::SimConfig config;
    config.nodes = nodes;
    config.seed = seed;
    auto hardware = fabric::sim::load_hardware("connectx3-10gbe");
    LOCH_CHECK(hardware.has_value(), "{}", hardware.error().message);
    config.hardware = std::move(*hardware);
    if (is_torn) config.faults.torn_read = config.faults.torn_write = 0.5;
    auto fabric = fabric::sim::make_sim(config);
    LOCH_CHECK(fabric.has_value(), "{}", fabric.error().message);
    return std::move(*fabric);
  }
  if (name == "shm") {
    fabric::shm::ShmConfig config;
    config.nodes = nodes;
    config.seed = seed;
    auto fabric = fabric::shm::make_shm(config);
    LOCH_CHECK(fabric.has_value(), "{}", fabric.error().message);
    return std::move(*fabric);
  }
  check_failed(__FILE__, __LINE__, "a fabric of this build", name);
}

}  // namespace loch::workloads::testing
