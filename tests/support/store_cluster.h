// A cluster of N nodes on a fabric, with a protocol that is deployed, preloaded (records.h) and served:
//
//   StoreCluster cluster(make_fabric("sim", {.nodes = 3}), module, {.config = small_deploy(3, 2, 1, 24)});
//   for (std::size_t w = 0; w < cluster.workers(); ++w)
//     cluster.start(w, [](Lane* lane) { return some_operations(lane); });
//   ASSERT_EQ(cluster.run(), fabric::RunEnd::finished);
//
// What a coroutine refers to has to outlive run(). docs/testing.md says which test helper to use when.
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

// The first module that a protocol folder's `add_modules` makes.
[[nodiscard]] std::unique_ptr<kv::Module> first_module(
    void (*add)(std::vector<std::unique_ptr<kv::Module>>&));

class StoreCluster {
 public:
  struct Shape {
    kv::DeployConfig config;
    std::map<std::string, std::string> options = {};
    std::string mutant = {};
    std::function<void(kv::Store&)> prepare = {};  // called once before the nodes are set up, with the store
  };
  // Deploys and preloads the protocol; aborts if anything is refused.
  StoreCluster(std::unique_ptr<fabric::Fabric> fabric, const kv::Module& module, const Shape& shape);
  // Destroys the clients before the store, and the store before the fabric, which owns the store's memory.
  ~StoreCluster();
  StoreCluster(const StoreCluster&) = delete;
  StoreCluster& operator=(const StoreCluster&) = delete;

  // Number of client workers of all nodes that drive load; they are ordered by node.
  [[nodiscard]] std::size_t workers() const { return workers_.size(); }
  [[nodiscard]] fabric::Worker& worker(std::size_t w) { return *workers_[w]; }
  // The client of slot `slot` in the window of worker w (each slot has one operation outstanding at a time).
  // The first call for a slot makes its client, and has to come before run().
  [[nodiscard]] kv::Client& client(std::size_t w, std::uint32_t slot = 0);
  [[nodiscard]] Hand hand(std::size_t w, std::uint32_t slot = 0) { return {client(w, slot), config_}; }

  // Runs the coroutine that `make` returns as worker w's main, beside the store's background coroutine.
  // `make` is called on the worker's thread, so that coroutine frames come from that thread's pool.
  void start(std::size_t w, std::function<coro::Task<void>()> make);
  // start() with a coroutine that gets the Lane of slot 0 of the worker's window.
  void start(std::size_t w, std::function<coro::Task<void>(Lane*)> make);
  // Starts the servers, and runs until every main coroutine has ended.
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
