// Opens the fabrics of this build for tests.
#include "tests/support/fabrics.h"

#include <cstdlib>

#include "common/fabric/count/count.h"
#include "common/fabric/ofi/ofi.h"
#include "common/fabric/shm/shm.h"
#include "common/fabric/verbs/verbs.h"

namespace loch::support {
namespace {

Result<std::unique_ptr<fabric::Fabric>> open(const std::string& name, const FabricOptions& options) {
  if (name == "shm") return fabric::shm::make_shm({.nodes = options.nodes, .seed = options.seed});
  if (name == "verbs") {
    fabric::verbs::VerbsConfig config;
    config.nodes = options.nodes;
    config.seed = options.seed;
    if (const char* device = std::getenv("LOCH_TEST_DEVICE"); device != nullptr) config.device = device;
    return fabric::verbs::make_verbs(config);
  }
  if (name == "ofi") {
    const char* provider = std::getenv("LOCH_TEST_OFI");
    fabric::ofi::OfiConfig config;
    config.nodes = options.nodes;
    config.seed = options.seed;
    config.provider = provider == nullptr ? "tcp" : provider;
    return fabric::ofi::make_ofi(config);
  }
  LOCH_CHECK(name == "sim", "no fabric is called {}", name);
  fabric::sim::SimConfig config = sim_config(options.nodes, options.hardware, options.seed);
  config.faults = options.faults;
  config.deadline = options.deadline;
  return fabric::sim::make_sim(config);
}

}  // namespace

std::unique_ptr<fabric::Fabric> make_fabric(const std::string& name, const FabricOptions& options) {
  auto made = open(name, options);
  check(made);
  if (options.is_plain) return std::move(*made);
  made = fabric::inject_faults(std::move(*made), options.losses);
  check(made);
  return fabric::count_requests(std::move(*made), {});
}

fabric::sim::SimConfig sim_config(std::uint32_t nodes, const std::string& hardware, std::uint64_t seed) {
  auto profile = fabric::sim::load_hardware(hardware);
  check(profile);
  fabric::sim::SimConfig config;
  config.nodes = nodes;
  config.seed = seed;
  config.hardware = std::move(*profile);
  return config;
}

std::vector<std::string> local_fabrics() { return {"sim", "shm"}; }

std::vector<std::string> fabrics() {
  if (std::getenv("LOCH_TEST_VERBS") != nullptr) return {"verbs"};
  if (std::getenv("LOCH_TEST_OFI") != nullptr) return {"ofi"};
  return local_fabrics();
}

}  // namespace loch::support
