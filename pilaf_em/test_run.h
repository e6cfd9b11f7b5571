// A StoreCluster (tests/support/) with Pilaf, on a disk for its logs that the test chooses.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "pilaf_em/module.h"
#include "pilaf_em/store.h"
#include "tests/support/store_cluster.h"

namespace loch::pilaf::testing {

using support::Hand, support::PatternData;

inline std::unique_ptr<fabric::Fabric> make_fabric(const std::string& name, std::uint32_t nodes,
                                                   std::uint64_t seed,
                                                   const fabric::sim::SimFaults& faults = {}) {
  return support::make_fabric(
      name, {.nodes = nodes, .seed = seed, .faults = faults, .hardware = "connectx2-20g-ib"});
}

class TestRun : public support::StoreCluster {
 public:
  struct Shape {
    std::string protocol = "pilaf";
    kv::DeployConfig config;
    std::map<std::string, std::string> options;
    std::string mutant;
    LogDisk* disk = nullptr;  // disk of the logs; null: this machine's file system
  };
  TestRun(std::unique_ptr<fabric::Fabric> fabric, const Shape& shape)
      : StoreCluster(std::move(fabric), *make_module(shape.protocol),
                     {.config = shape.config,
                      .options = shape.options,
                      .mutant = shape.mutant,
                      .prepare = [&shape](kv::Store& store) {
                        if (shape.disk != nullptr) static_cast<PilafStore&>(store).use_disk(*shape.disk);
                      }}) {}

  [[nodiscard]] PilafStore& store() { return static_cast<PilafStore&>(StoreCluster::store()); }
};

inline kv::DeployConfig shape_of(std::uint32_t nodes, std::uint32_t clients, std::uint64_t keys,
                                 std::uint32_t value_size = 600) {
  return support::small_deploy(nodes, clients, 1, keys, value_size);
}

}  // namespace loch::pilaf::testing
