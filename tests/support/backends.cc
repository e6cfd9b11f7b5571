// All fabrics for conformance tests, plain and under decorators (which count requests or inject faults), and
// a cluster with raw memory on a fabric.
#include "tests/support/backends.h"

#include "common/fabric/count/count.h"
#include "common/fabric/fault/fault.h"
#include "common/fabric/memory.h"
#include "common/fabric/ofi/ofi.h"
#include "common/fabric/shm/shm.h"
#include "common/fabric/sim/sim.h"
#include "common/fabric/verbs/verbs.h"
#include "tests/support/fabrics.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace loch::fabric {
namespace {

using Made = Result<std::unique_ptr<Fabric>>;

Made make_threads(std::uint32_t nodes, std::uint64_t seed) {
  shm::ShmConfig config;
  config.nodes = nodes;
  config.seed = seed;
  return shm::make_shm(config);
}

Made make_counted(std::uint32_t nodes, std::uint64_t seed) {
  LOCH_ASSIGN(auto inner, make_threads(nodes, seed));
  return count_requests(std::move(inner), CountConfig{});
}

// The decorator that injects faults, with none configured: it must be indistinguishable from the plain
// fabric.
Made make_faultless(std::uint32_t nodes, std::uint64_t seed) {
  LOCH_ASSIGN(auto inner, make_threads(nodes, seed));
  return inject_faults(std::move(inner), FaultConfig{});
}

// The decorator that injects faults, with delays: completions may come late at any time.
Made make_delayed(std::uint32_t nodes, std::uint64_t seed) {
  LOCH_ASSIGN(auto inner, make_threads(nodes, seed));
  FaultConfig config;
  config.seed = seed;
  config.delay = 0.3;
  config.delay_ns_max = 20'000;
  return inject_faults(std::move(inner), config);
}

Made make_simulated(std::uint32_t nodes, std::uint64_t seed) {
  return sim::make_sim(support::sim_config(nodes, "connectx3-10gbe", seed));
}

Made make_counted_sim(std::uint32_t nodes, std::uint64_t seed) {
  LOCH_ASSIGN(auto inner, make_simulated(nodes, seed));
  return count_requests(std::move(inner), CountConfig{});
}

// A simulator with every weak behaviour (torn READs, late visibility, reordering …) that loses no message:
// conformance tests have to pass on it.
Made make_weak_sim(std::uint32_t nodes, std::uint64_t seed) {
  sim::SimConfig config = support::sim_config(nodes, "connectx3-10gbe", seed);
  config.random_tie_order = true;
  config.faults.torn_read = config.faults.torn_write = config.faults.torn_landing = 0.5;
  config.faults.split_atomics = true;
  config.faults.late_write = 0.5;
  config.faults.overtaking_write = 0.5;
  config.faults.jitter = 100;
  config.faults.slow_dma = 0.05;
  return sim::make_sim(config);
}

Made make_devices(std::uint32_t nodes, std::uint64_t seed) {
  verbs::VerbsConfig config;
  config.nodes = nodes;
  config.seed = seed;
  if (const char* device = std::getenv("LOCH_TEST_DEVICE"); device != nullptr) config.device = device;
  config.shares_cores = true;  // senders wait longer for a receiver that gets no core on a busy machine
  return verbs::make_verbs(config);
}

Made make_counted_devices(std::uint32_t nodes, std::uint64_t seed) {
  LOCH_ASSIGN(auto inner, make_devices(nodes, seed));
  return count_requests(std::move(inner), CountConfig{});
}

Made make_provider(std::uint32_t nodes, std::uint64_t seed, const std::string& provider) {
  ofi::OfiConfig config;
  config.nodes = nodes;
  config.seed = seed;
  config.provider = provider;
  return ofi::make_ofi(config);
}

// The providers of LOCH_TEST_OFI, names with commas between them: "tcp", "sockets", "shm".
std::vector<Backend> provider_backends(std::string_view names) {
  std::vector<Backend> all;
  while (!names.empty()) {
    const std::string provider(names.substr(0, names.find(',')));
    names.remove_prefix(std::min(names.size(), provider.size() + 1));
    all.push_back({"ofi_" + provider, [provider](std::uint32_t nodes, std::uint64_t seed) {
                     return make_provider(nodes, seed, provider);
                   }});
  }
  return all;
}

std::vector<Backend> embedded_backends() {
  return {
      {"shm", make_threads},         {"shm_counted", make_counted}, {"shm_faultless", make_faultless},
      {"shm_delayed", make_delayed}, {"sim", make_simulated},       {"sim_counted", make_counted_sim},
      {"sim_weak", make_weak_sim},
  };
}

// If LOCH_TEST_VERBS says that this machine has an RDMA device, suites run only on that device.
std::vector<Backend> device_backends() {
  return {{"verbs", make_devices}, {"verbs_counted", make_counted_devices}};
}

}  // namespace

const std::vector<Backend>& backends() {
  static const std::vector<Backend> all = [] {
    if (std::getenv("LOCH_TEST_VERBS") != nullptr) return device_backends();
    const char* providers = std::getenv("LOCH_TEST_OFI");
    return providers != nullptr ? provider_backends(providers) : embedded_backends();
  }();
  return all;
}

std::string backend_name(const testing::TestParamInfo<Backend>& info) { return info.param.name; }

Cluster::Cluster(const Backend& backend, std::uint32_t nodes, bool with_servers, std::uint64_t seed) {
  auto made = backend.make(nodes, seed);
  LOCH_CHECK(made.has_value(), "{}", made.error().message);
  fabric = std::move(*made);
  for (std::uint32_t node = 0; node < nodes; ++node) {
    const auto id = static_cast<NodeId>(node);
    memory.push_back(fabric->register_region(id, {"memory", memory_bytes, true, true, true, {}}).value());
    readable_memory.push_back(
        fabric->register_region(id, {"readable", 4096, true, false, false, {}}).value());
    clients.push_back(fabric->add_worker({id, Role::client, 0, 0, "client", ud_lanes}).value());
    if (with_servers) servers.push_back(fabric->add_worker({id, Role::server, 1, 1, "server"}).value());
  }
  const auto exchanged = fabric->exchange(10 * second);
  LOCH_CHECK(exchanged.has_value(), "{}", exchanged.error().message);
  for (std::uint32_t node = 0; node < nodes; ++node) {
    remote.push_back(fabric->lookup(static_cast<NodeId>(node), "memory").value());
    readable.push_back(fabric->lookup(static_cast<NodeId>(node), "readable").value());
  }
}

void Cluster::run(RunEnd expected) {
  const auto end = fabric->run();
  ASSERT_TRUE(end.has_value()) << end.error().message;
  EXPECT_EQ(static_cast<int>(*end), static_cast<int>(expected));
}

void Cluster::fill(NodeId node, std::uint64_t offset, std::uint64_t bytes, unsigned first) const {
  std::vector<std::byte> pattern(bytes);
  for (std::size_t i = 0; i < bytes; ++i) pattern[i] = static_cast<std::byte>(first + i * 7 + i / 64);
  copy_to_shared(memory[node]->at(offset), pattern.data(), bytes);
}

bool Cluster::holds(NodeId node, std::uint64_t offset, std::uint64_t bytes, unsigned first) const {
  std::vector<std::byte> seen(bytes);
  copy_from_shared(seen.data(), memory[node]->at(offset), bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    if (seen[i] != static_cast<std::byte>(first + i * 7 + i / 64)) return false;
  }
  return true;
}

std::uint64_t Cluster::word(NodeId node, std::uint64_t offset) const {
  return load_word(memory[node]->at(offset));
}

void Cluster::set_word(NodeId node, std::uint64_t offset, std::uint64_t value) const {
  store_word_release(memory[node]->at(offset), value);
}

}  // namespace loch::fabric
