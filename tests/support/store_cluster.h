// A cluster of N nodes on a fabric, with a protocol deployed, preloaded (records.h) and served:
//
//   StoreCluster cluster(make_fabric("sim", {.nodes = 3}), module, {.config = small_deploy(3, 2, 1, 24)});
//   for (std::size_t w = 0; w < cluster.workers(); ++w)
//     cluster.start(w, [](Lane* lane) { return some_operations(lane); });
//   ASSERT_EQ(cluster.run(), fabric::RunEnd::finished);
//
// A coroutine's captures must outlive run(). docs/testing.md says when to take what.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/kv/protocol.h"
#include "tests/support/fabrics.h"
#include "tests/support/hand.h"

namespace loch::support {

// What `add_modules` of a protocol's folder makes first.
[[nodiscard]] std::unique_ptr<kv::Module> first_module(
    void (*add)(std::vector<std::unique_ptr<kv::Module>>&));

class StoreCluster {
 public:
  struct Shape {
    kv::DeployConfig config;
    std::map<std::string, std::string> options = {};
    std::string mutant = {};
    std::function<void(kv::Store&)> prepare = {};  // called once, before a node is set up
  };
  // Aborts where something is refused.
  StoreCluster(std::unique_ptr<fabric::Fabric> fabric, const kv::Module& module, const Shape& shape);
  // Clients end before the store, and the store before the fabric that owns its memory.
  ~StoreCluster();
  StoreCluster(const StoreCluster&) = delete;
  StoreCluster& operator=(const StoreCluster&) = delete;

  // Client workers of all nodes that drive load, node by node.
  [[nodiscard]] std::size_t workers() const { return workers_.size(); }
  [[nodiscard]] fabric::Worker& worker(std::size_t w) { return *workers_[w]; }
  // Of a window slot of worker w; made at its first use, which has to come before run().
  [[nodiscard]] kv::Client& client(std::size_t w, std::uint32_t slot = 0);
  [[nodiscard]] Hand hand(std::size_t w, std::uint32_t slot = 0) { return {client(w, slot), config_}; }

  // What `make` returns is worker w's main, beside the store's background work. It is called on the worker's
  // own thread, where its frames belong.
  void start(std::size_t w, std::function<coro::Task<void>()> make);
  // start() with the lane of window slot 0.
  void start(std::size_t w, std::function<coro::Task<void>(Lane*)> make);
  // Starts the servers, and runs until every main has ended.
  [[nodiscard]] fabric::RunEnd run();

  [[nodiscard]] kv::Store& store() { return *store_; }
  [[nodiscard]] fabric::Fabric& fabric() { return *fabric_; }
  [[nodiscard]] const kv::DeployConfig& config() const { return config_; }
  [[nodiscard]] double counter(const std::string& name) const { return store_->counters().at(name); }

 private:
  [[nodiscard]] fabric::Worker* add(fabric::NodeId node, fabric::Role role, std::uint32_t index);
  static coro::Task<void> main_of(StoreCluster* self, std::size_t w, std::function<coro::Task<void>()> make);
  static coro::Task<void> lane_of(StoreCluster* self, std::size_t w,
                                  std::function<coro::Task<void>(Lane*)> make);

  std::unique_ptr<fabric::Fabric> fabric_;
  kv::DeployConfig config_;
  std::unique_ptr<kv::Store> store_;
  std::vector<fabric::Worker*> workers_, servers_;
  std::map<std::pair<std::size_t, std::uint32_t>, std::unique_ptr<kv::Client>> clients_;
};

}  // namespace loch::support
