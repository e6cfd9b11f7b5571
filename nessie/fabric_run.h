// Running Nessie on any fabric for tests and measurements: deploys, preloads, gives every client
// worker a main, runs.
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
#include "common/coro/scope.h"
#include "common/kv/testing.h"
#include "nessie/client.h"
#include "nessie/module.h"

namespace loch::nessie::testing {

using kv::testing::PatternData;

class FabricRun {
 public:
  FabricRun(std::unique_ptr<fabric::Fabric> fabric, const kv::DeployConfig& config,
            const std::map<std::string, std::string>& options, std::string_view mutant = {})
      : fabric_(std::move(fabric)), config_(config) {
    const auto module = make_module();
    kv::Options parsed(module->options());
    for (const auto& [key, value] : options) check(parsed.set(key, value));
    auto deployed = module->deploy(config, parsed, mutant);
    check(deployed);
    store_.reset(static_cast<NessieStore*>(deployed->release()));
    for (std::uint32_t node = 0; node < config.nodes; ++node) {
      check(store_->setup_node(*fabric_, static_cast<fabric::NodeId>(node)));
      for (std::uint32_t i = 0; i < config.client_workers; ++i) {
        auto worker = fabric_->add_worker({.node = static_cast<fabric::NodeId>(node),
                                           .role = fabric::Role::client,
                                           .index = static_cast<std::uint16_t>(i),
                                           .core = -1,
                                           .name = "client"});
        check(worker);
        workers_.push_back(*worker);
      }
    }
    check(fabric_->exchange(10'000'000'000));
    check(store_->connect(*fabric_));
    check(store_->preload(*fabric_, PatternData(config.keys, config.key_size)));
  }
  // Destroyed before the fabric that owns the memory.
  ~FabricRun() { clients_.clear(); }

  [[nodiscard]] NessieStore& store() { return *store_; }
  [[nodiscard]] fabric::Fabric& fabric() { return *fabric_; }
  [[nodiscard]] const kv::DeployConfig& config() const { return config_; }
  [[nodiscard]] std::size_t workers() const { return workers_.size(); }
  [[nodiscard]] fabric::Worker& worker(std::size_t w) { return *workers_[w]; }
  // The client of slot 0 of worker w; made on first use, which must be before run().
  [[nodiscard]] NessieClient& client(std::size_t w) {
    auto& made = clients_[w];
    if (made == nullptr) made = store_->client(*workers_[w], 0);
    return static_cast<NessieClient&>(*made);
  }

  // What `make` returns runs on worker w, beside its background work. It is called on the worker's
  // own thread, where its frames belong.
  void start(std::size_t w, std::function<coro::Task<void>()> make) {
    static_cast<void>(client(w));
    fabric_->start(*workers_[w], with_background(this, w, std::move(make)));
  }
  [[nodiscard]] fabric::RunEnd run() {
    const auto end = fabric_->run();
    check(end);
    return *end;
  }

 private:
  template <typename R>
  static void check(const R& result) {
    LOCH_CHECK(result.has_value(), "{}", result.has_value() ? std::string() : result.error().message);
  }
  static coro::Task<void> end_with(std::function<coro::Task<void>()>* make, bool* done) {
    co_await (*make)();
    *done = true;
  }
  static coro::Task<void> with_background(FabricRun* self, std::size_t w,
                                          std::function<coro::Task<void>()> make) {
    fabric::Worker& worker = *self->workers_[w];
    bool done = false;
    coro::Scope scope(worker.run_queue());
    scope.spawn(end_with(&make, &done));
    scope.spawn(self->store_->background(worker, &done));
    co_await scope.join();
  }

  std::unique_ptr<fabric::Fabric> fabric_;
  kv::DeployConfig config_;
  std::unique_ptr<NessieStore> store_;
  std::vector<fabric::Worker*> workers_;
  std::map<std::size_t, std::unique_ptr<kv::Client>> clients_;
};

}  // namespace loch::nessie::testing
