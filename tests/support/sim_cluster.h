// A small simulated cluster for tests of common/fabric/sim: one region and one client worker on each node.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "common/fabric/sim/sim.h"
#include "tests/support/fabrics.h"

namespace loch::fabric::sim {

struct TestCluster {
  explicit TestCluster(const SimConfig& config, std::uint32_t workers = 1) {
    auto made = make_sim(config);
    LOCH_CHECK(made.has_value(), "{}", made.error().message);
    fabric = std::move(*made);
    for (std::uint32_t i = 0; i < config.nodes; ++i) {
      const auto node = static_cast<NodeId>(i);
      memory.push_back(fabric->register_region(node, {"memory", 1 << 20, true, true, true, {}}).value());
      for (std::uint32_t w = 0; w < workers; ++w) {
        clients.push_back(
            fabric->add_worker({node, Role::client, static_cast<std::uint16_t>(w), -1, "client"}).value());
      }
    }
    LOCH_CHECK(fabric->exchange(1).has_value(), "no exchange");
    for (std::uint32_t i = 0; i < config.nodes; ++i)
      remote.push_back(fabric->lookup(static_cast<NodeId>(i), "memory").value());
  }
  [[nodiscard]] LocalSlice at(NodeId node, std::uint64_t offset) const { return {memory[node], offset}; }

  std::unique_ptr<Fabric> fabric;
  std::vector<Region*> memory;
  std::vector<Worker*> clients;
  std::vector<RemoteRegion> remote;
};

inline SimConfig small_config(std::uint32_t nodes = 2, const char* hardware = "connectx3-10gbe") {
  return support::sim_config(nodes, hardware);
}

}  // namespace loch::fabric::sim
