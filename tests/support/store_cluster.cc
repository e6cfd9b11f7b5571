// Deploys a protocol on a fabric for a test, starts its servers and the clients' main coroutines, and runs
// them.
#include "tests/support/store_cluster.h"

#include "common/coro/scope.h"

namespace loch::support {
namespace {

constexpr Nanos exchange_deadline = 10'000'000'000;

coro::Task<void> end_with(std::function<coro::Task<void>()>* make, bool* is_done) {
  co_await (*make)();
  *is_done = true;
}

}  // namespace

std::unique_ptr<kv::Module> first_module(void (*add)(std::vector<std::unique_ptr<kv::Module>>&)) {
  std::vector<std::unique_ptr<kv::Module>> made;
  add(made);
  return std::move(made.front());
}

StoreCluster::StoreCluster(std::unique_ptr<fabric::Fabric> fabric, const kv::Module& module,
                           const Shape& shape)
    : fabric_(std::move(fabric)), config_(shape.config) {
  kv::Options options(module.options());
  for (const auto& [key, value] : shape.options) check(options.set(key, value));
  check(fabric::check(module.requirements(options), fabric_->capabilities()));
  auto deployed = module.deploy(config_, options, shape.mutant);
  check(deployed);
  store_ = std::move(*deployed);
  if (shape.prepare) shape.prepare(*store_);
  for (std::uint32_t i = 0; i < config_.nodes; ++i) {
    const auto node = static_cast<fabric::NodeId>(i);
    check(store_->setup_node(*fabric_, node));
    for (std::uint32_t w = 0; config_.drives(node) && w < config_.client_workers; ++w)
      workers_.push_back(add(node, fabric::Role::client, w));
    for (std::uint32_t w = 0; config_.serves(node) && w < config_.server_workers; ++w)
      servers_.push_back(add(node, fabric::Role::server, config_.server_index(w)));
  }
  check(fabric_->exchange(exchange_deadline));
  check(store_->connect(*fabric_));
  check(store_->preload(*fabric_, PatternData(config_.keys, config_.key_size)));
}

StoreCluster::~StoreCluster() { clients_.clear(); }

fabric::Worker* StoreCluster::add(fabric::NodeId node, fabric::Role role, std::uint32_t index) {
  auto worker = fabric_->add_worker({.node = node,
                                     .role = role,
                                     .index = static_cast<std::uint16_t>(index),
                                     .core = -1,
                                     .name = role == fabric::Role::client ? "client" : "server"});
  check(worker);
  return *worker;
}

kv::Client& StoreCluster::client(std::size_t w, std::uint32_t slot) {
  auto& made = clients_[{w, slot}];
  if (made == nullptr) made = store_->client(*workers_[w], slot);
  return *made;
}

void StoreCluster::start(std::size_t w, std::function<coro::Task<void>()> make) {
  for (std::uint32_t slot = 0; slot < config_.window; ++slot) static_cast<void>(client(w, slot));
  fabric_->start(*workers_[w], main_of(this, w, std::move(make)));
}

void StoreCluster::start(std::size_t w, std::function<coro::Task<void>(Lane*)> make) {
  start(w, std::function<coro::Task<void>()>(
               [this, w, make = std::move(make)] { return lane_of(this, w, make); }));
}

coro::Task<void> StoreCluster::lane_of(StoreCluster* self, std::size_t w,
                                       std::function<coro::Task<void>(Lane*)> make) {
  Lane lane(self->client(w), *self->workers_[w], self->config_);
  co_await make(&lane);
}

coro::Task<void> StoreCluster::main_of(StoreCluster* self, std::size_t w,
                                       std::function<coro::Task<void>()> make) {
  if (!self->store_->has_background()) {
    co_await make();
    co_return;
  }
  fabric::Worker& worker = *self->workers_[w];
  bool is_done = false;
  coro::Scope scope(worker.run_queue());
  scope.spawn(end_with(&make, &is_done));
  scope.spawn(self->store_->background(worker, &is_done));
  co_await scope.join();
}

fabric::RunEnd StoreCluster::run() {
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    const auto index = static_cast<std::uint32_t>(i % config_.server_workers);
    fabric_->start(*servers_[i], store_->serve(*servers_[i], index));
  }
  const auto end = fabric_->run();
  check(end);
  return *end;
}

}  // namespace loch::support
