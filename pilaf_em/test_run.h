// Running Pilaf on any fabric for tests: deploys, preloads, starts servers, gives every client worker a
// main, runs.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/fabric/test_fabrics.h"
#include "common/kv/testing.h"
#include "pilaf_em/module.h"
#include "pilaf_em/store.h"

namespace loch::pilaf::testing {

using kv::testing::PatternData;

inline std::unique_ptr<fabric::Fabric> make_fabric(const std::string& name, std::uint32_t nodes,
                                                   std::uint64_t seed,
                                                   const fabric::sim::SimFaults& faults = {}) {
  return fabric::testing::make_fabric(
      name, {.nodes = nodes, .seed = seed, .faults = faults, .losses = {}, .hardware = "connectx2-20g-ib"});
}

class TestRun {
 public:
  struct Shape {
    std::string protocol = "pilaf";
    kv::DeployConfig config;
    std::map<std::string, std::string> options;
    std::string mutant;
    LogDisk* disk = nullptr;  // of the logs; null: this machine's
  };
  TestRun(std::unique_ptr<fabric::Fabric> fabric, const Shape& shape)
      : fabric_(std::move(fabric)), config_(shape.config) {
    const auto module = make_module(shape.protocol);
    kv::Options parsed(module->options());
    for (const auto& [key, value] : shape.options) check(parsed.set(key, value));
    auto deployed = module->deploy(config_, parsed, shape.mutant);
    check(deployed);
    store_.reset(static_cast<PilafStore*>(deployed->release()));
    if (shape.disk != nullptr) store_->use_disk(*shape.disk);
    for (std::uint32_t n = 0; n < config_.nodes; ++n) {
      const auto node = static_cast<fabric::NodeId>(n);
      check(store_->setup_node(*fabric_, node));
      for (std::uint32_t i = 0; config_.drives(node) && i < config_.client_workers; ++i)
        workers_.push_back(add(node, fabric::Role::client, i));
      for (std::uint32_t i = 0; config_.serves(node) && i < config_.server_workers; ++i)
        servers_.push_back(add(node, fabric::Role::server, config_.server_index(i)));
    }
    check(fabric_->exchange(10'000'000'000));
    check(store_->connect(*fabric_));
    check(store_->preload(*fabric_, PatternData(config_.keys, config_.key_size)));
  }
  // Destroyed before the fabric that owns the memory.
  ~TestRun() { clients_.clear(); }

  [[nodiscard]] PilafStore& store() { return *store_; }
  [[nodiscard]] fabric::Fabric& fabric() { return *fabric_; }
  [[nodiscard]] const kv::DeployConfig& config() const { return config_; }
  [[nodiscard]] std::size_t workers() const { return workers_.size(); }
  [[nodiscard]] fabric::Worker& worker(std::size_t w) { return *workers_[w]; }
  [[nodiscard]] double counter(const std::string& name) const { return store_->counters().at(name); }
  // The client of a window slot of worker w; made on first use, which must be before run().
  [[nodiscard]] kv::Client& client(std::size_t w, std::uint32_t slot = 0) {
    auto& made = clients_[{w, slot}];
    if (made == nullptr) made = store_->client(*workers_[w], slot);
    return *made;
  }

  // `make` is called on the worker's own thread, where its frames belong.
  void start(std::size_t w, std::function<coro::Task<void>()> make) {
    for (std::uint32_t slot = 0; slot < config_.window; ++slot) static_cast<void>(client(w, slot));
    fabric_->start(*workers_[w], call(std::move(make)));
  }
  [[nodiscard]] fabric::RunEnd run() {
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      const auto index = static_cast<std::uint32_t>(i % config_.server_workers);
      fabric_->start(*servers_[i], store_->serve(*servers_[i], index));
    }
    const auto end = fabric_->run();
    check(end);
    return *end;
  }

 private:
  template <typename R>
  static void check(const R& result) {
    LOCH_CHECK(result.has_value(), "{}", result.has_value() ? std::string() : result.error().message);
  }
  static coro::Task<void> call(std::function<coro::Task<void>()> make) { co_await make(); }
  fabric::Worker* add(fabric::NodeId node, fabric::Role role, std::uint32_t index) {
    auto worker = fabric_->add_worker({.node = node,
                                       .role = role,
                                       .index = static_cast<std::uint16_t>(index),
                                       .core = -1,
                                       .name = role == fabric::Role::client ? "client" : "server"});
    check(worker);
    return *worker;
  }

  std::unique_ptr<fabric::Fabric> fabric_;
  kv::DeployConfig config_;
  std::unique_ptr<PilafStore> store_;
  std::vector<fabric::Worker*> workers_, servers_;
  std::map<std::pair<std::size_t, std::uint32_t>, std::unique_ptr<kv::Client>> clients_;
};

inline kv::DeployConfig shape_of(std::uint32_t nodes, std::uint32_t clients, std::uint64_t keys,
                                 std::uint32_t value_size = 600) {
  kv::DeployConfig config;
  config.nodes = nodes;
  config.client_workers = clients;
  config.server_workers = 1;
  config.key_size = 32;
  config.value_size = config.kept_value_bytes = value_size;
  config.keys = keys;
  config.max_keys = keys + keys / 2;
  return config;
}

// What one client does, one operation after the other, key and value by number.
class Hand {
 public:
  Hand(TestRun& run, std::size_t w, std::uint32_t slot = 0)
      : run_(run),
        client_(run.client(w, slot)),
        key_(run.config().key_size),
        value_(run.config().value_size) {}

  [[nodiscard]] coro::Task<kv::OpResult> get(std::uint64_t number) {
    stats = {};
    const kv::OpResult result = co_await client_.get(key(number), &stats);
    is_whole = result.status == kv::OpStatus::ok && PatternData::read_value(result.value, &seen);
    co_return result;
  }
  [[nodiscard]] coro::Task<kv::OpResult> put(std::uint64_t number, std::uint64_t value) {
    stats = {};
    const kv::DeployConfig& config = run_.config();
    PatternData::write_value(value, value_.data(), config.value_size);
    const kv::ValueView view{value_.data(), config.value_size, config.kept_value_bytes};
    const kv::OpResult result = co_await client_.put(key(number), view, &stats);
    co_return result;
  }
  [[nodiscard]] coro::Task<kv::OpResult> remove(std::uint64_t number) {
    stats = {};
    const kv::OpResult result = co_await client_.remove(key(number), &stats);
    co_return result;
  }

  fabric::OpStats stats;   // of the last operation
  std::uint64_t seen = 0;  // the number of the value that the last GET returned
  bool is_whole = false;

 private:
  [[nodiscard]] kv::Key key(std::uint64_t number) {
    PatternData::write_key(number, key_.data(), run_.config().key_size);
    return {key_.data(), run_.config().key_size};
  }
  TestRun& run_;
  kv::Client& client_;
  std::vector<std::byte> key_, value_;
};

}  // namespace loch::pilaf::testing
