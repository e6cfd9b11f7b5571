// The store of micro-verbs and micro-atomic: regions, receivers, and a client whose operation is one round of
// work requests.
#include "baselines/micro/store.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/coro/scope.h"
#include "common/fabric/memory.h"

namespace loch::micro {

using fabric::NodeId;
using fabric::Worker;

class TrafficClient final : public kv::Client {
 public:
  TrafficClient(TrafficStore& store, Worker& worker, std::uint32_t slot)
      : store_(store), worker_(worker), remote_(store.places_), traffic_(store.settings_.traffic) {
    const Settings& settings = store.settings_;
    const std::uint64_t number = std::uint64_t{worker.index()} * settings.shape.window + slot;
    landing_ = {store.nodes_.at(worker.node()).landing, number * settings.place_bytes()};
    turn_ = settings.shape.client_number(worker.node(), worker.index()) * settings.shape.window + slot;
    const bool fits = traffic_.bytes <= worker.capabilities().max_inline_bytes;
    traffic_.is_inline = settings.inlining != Inlining::never && fits;
    if (settings.signal_interval > 1) signals_ = store.signals_of(worker);
    epochs_.assign(remote_.size(), 0);
    for (std::size_t node = 0; node < epochs_.size(); ++node)
      epochs_[node] = worker.epoch(static_cast<NodeId>(node));
  }

  // GET issues the configured traffic; since nothing is stored, it returns not_found.
  coro::Task<kv::OpResult> get(kv::Key, fabric::OpStats* stats) override {
    return operate(kv::OpStatus::not_found, stats);
  }
  coro::Task<kv::OpResult> put(kv::Key, kv::ValueView, fabric::OpStats* stats) override {
    return operate(kv::OpStatus::ok, stats);
  }
  coro::Task<kv::OpResult> remove(kv::Key, fabric::OpStats* stats) override {
    return operate(kv::OpStatus::not_found, stats);
  }

 private:
  coro::Task<kv::OpResult> operate(kv::OpStatus done, fabric::OpStats* stats) {
    const Settings& settings = store_.settings_;
    bool is_ok = true;
    if (settings.round == 1) {
      is_ok = co_await one_turn(turn_++, stats);
    } else {
      coro::Scope scope(worker_.run_queue());
      for (std::uint32_t i = 0; i < settings.round; ++i) scope.spawn(of_round(turn_++, stats, &is_ok));
      co_await scope.join();
    }
    if (!is_ok) co_return failed();
    co_return kv::OpResult{.status = done};
  }

  coro::Task<void> of_round(std::uint32_t turn, fabric::OpStats* stats, bool* is_ok) {
    const bool done = co_await one_turn(turn, stats);
    *is_ok = *is_ok && done;
  }

  // Waits until the number of SENDs that are sent and not received is at most the number of credits. The wait
  // ends after 100 us, because a lost message is never counted as received.
  coro::Task<void> credit() {
    constexpr Nanos look = 100, patience = 100'000;
    const Nanos give_up = worker_.now() + patience;
    while (store_.on_their_way() > store_.settings_.credits && worker_.now() < give_up) {
      const Nanos next = worker_.now() + look;
      co_await worker_.spin_until(next);
    }
    if (store_.on_their_way() > store_.settings_.credits)
      store_.without_credit_.fetch_add(traffic_.per_turn(), std::memory_order_relaxed);
    store_.posted_.fetch_add(traffic_.per_turn(), std::memory_order_relaxed);
  }

  coro::Task<bool> one_turn(std::uint32_t turn, fabric::OpStats* stats) {
    const Settings& settings = store_.settings_;
    if (settings.credits > 0) co_await credit();
    fabric::Target target;
    target.node = static_cast<NodeId>(turn % settings.shape.serving_nodes());
    if (settings.draws_peers) target.node = other_node();
    // drawing a peer and an address takes about as many cycles as the fixed part of hashing a key
    if (settings.draws_peers) co_await worker_.compute(worker_.costs().hash(0));
    if (!is_reached(target.node)) [[unlikely]] {
      const bool is_there = co_await reach(target.node);
      if (!is_there) co_return false;
    }
    target.region = remote_[target.node];
    const std::uint32_t place = turn / settings.shape.serving_nodes() % Settings::places;
    if (settings.kind == Kind::verbs) target.offset = std::uint64_t{place} * settings.place_bytes();
    if (settings.buffer > 0) target.offset = worker_.rng().below(settings.buffer / 64) * 64;
    if (settings.sends()) target.worker = settings.shape.server_index(place % settings.shape.server_workers);
    if (settings.draws_peers) turn = static_cast<std::uint32_t>(worker_.rng().below(traffic_.lanes));
    if (signals_ != nullptr) co_return co_await signaled_at_times(target, turn, stats);
    if (traffic_.is_single()) {
      fabric::WorkRequest request = fabric::request_of(traffic_, worker_, target, landing_, turn);
      request.stats = stats;
      const fabric::Completion done = co_await worker_.execute(request);
      co_return done.ok();
    }
    const fabric::WcStatus status =
        co_await fabric::post_turn(&worker_, &traffic_, target, landing_, turn, stats);
    co_return status == fabric::WcStatus::success;
  }

  // Draws a serving node other than the worker's own, if there is one.
  [[nodiscard]] NodeId other_node() {
    const std::uint32_t serving = store_.settings_.shape.serving_nodes();
    const std::uint32_t own = worker_.node();
    if (own >= serving || serving == 1) return static_cast<NodeId>(worker_.rng().below(serving));
    const auto drawn = static_cast<std::uint32_t>(worker_.rng().below(serving - 1));
    return static_cast<NodeId>(drawn < own ? drawn : drawn + 1);
  }

  // Posts one work request with selective signaling. For an unsignaled READ, waits until the first word of
  // its data is in memory; an unsignaled WRITE is not waited for.
  coro::Task<bool> signaled_at_times(fabric::Target target, std::uint32_t turn, fabric::OpStats* stats) {
    const bool is_signaled = co_await signals_->admit();
    fabric::WorkRequest request = fabric::request_of(traffic_, worker_, target, landing_, turn);
    request.stats = stats;
    if (is_signaled) {
      const fabric::Completion done = co_await worker_.execute(request);
      signals_->completed();
      co_return done.ok();
    }
    if (traffic_.verb == fabric::Verb::read) {
      // Marks the buffer by not_landed until the data of the READ arrives. The data is all 0, because no
      // serving node stores anything, and therefore differs from the mark.
      worker_.store_word(*store_.nodes_.at(worker_.node()).landing, landing_.offset, not_landed);
      worker_.post_detached(request);
      const fabric::WatchWord landed{.region = landing_.region,
                                     .offset = landing_.offset,
                                     .value = not_landed,
                                     .until_equal = false,
                                     .peer = target.node};
      const fabric::WatchOutcome seen = co_await worker_.watch(landed);
      co_return seen == fabric::WatchOutcome::ready;
    }
    worker_.post_detached(request);
    const Nanos soon = worker_.now() + 1;
    co_await worker_.spin_until(soon);
    co_return true;
  }

  [[nodiscard]] kv::OpResult failed() {
    store_.errors_.fetch_add(1, std::memory_order_relaxed);
    return {.status = kv::OpStatus::error, .effect = kv::Effect::unknown};
  }

  [[nodiscard]] bool is_reached(NodeId node) const {
    return traffic_.transport != fabric::Transport::rc || worker_.is_connected_since(node, epochs_[node]);
  }
  // Reconnects to the node after an error, and looks up its memory region again.
  coro::Task<bool> reach(NodeId node) {
    if (!worker_.connected(node)) {
      const Nanos deadline = worker_.now() + store_.settings_.reconnect_timeout;
      const bool is_back = co_await worker_.reconnect(node, deadline);
      if (!is_back) co_return false;
      store_.reconnects_.fetch_add(1, std::memory_order_relaxed);
    }
    const std::uint32_t epoch = worker_.epoch(node);
    const auto region = store_.fabric_->lookup(node, "micro.places");
    if (!region) co_return false;
    remote_[node] = *region;
    epochs_[node] = epoch;
    co_return true;
  }

  static constexpr std::uint64_t not_landed = ~std::uint64_t{0};

  TrafficStore& store_;
  Worker& worker_;
  // state of selective signaling; null: every work request, or the last one of a batch, is signaled
  Signals* signals_ = nullptr;
  std::vector<fabric::RemoteRegion> remote_;
  std::vector<std::uint32_t> epochs_;
  fabric::Traffic traffic_;
  fabric::LocalSlice landing_;
  std::uint32_t turn_ = 0;
};

fabric::Receiving TrafficStore::receiving(const Node& node, std::uint32_t server,
                                          std::uint32_t buffers) const {
  fabric::Receiving own{settings_.traffic.transport, {node.messages, 0}, settings_.traffic.bytes, buffers};
  own.first.offset = server * own.region_bytes();
  return own;
}

Result<> TrafficStore::setup_node(fabric::Fabric& fabric, NodeId node) {
  fabric_ = &fabric;
  const fabric::Capabilities& device = fabric.capabilities();
  const fabric::Traffic& traffic = settings_.traffic;
  if (settings_.inlining == Inlining::always && traffic.bytes > device.max_inline_bytes) {
    return fail(ErrorCode::unsupported,
                fmt::format("--micro-verbs.inline on: {} bytes; this device inlines {}", traffic.bytes,
                            device.max_inline_bytes));
  }
  if (traffic.transport == fabric::Transport::ud && traffic.bytes > device.mtu_bytes) {
    return fail(
        ErrorCode::unsupported,
        fmt::format("--micro-verbs.transport ud: a datagram has at most {} bytes here", device.mtu_bytes));
  }
  Node own;
  const kv::DeployConfig& shape = settings_.shape;
  if (shape.serves(node)) {
    fabric::RegionSpec spec{.name = "micro.places", .bytes = settings_.served_bytes()};
    spec.bytes = std::max<std::uint64_t>(spec.bytes, std::uint64_t{traffic.words} * 8);
    spec.remote_read = spec.remote_write = spec.remote_atomic = true;
    LOCH_ASSIGN(own.places, fabric.register_region(node, spec));
  }
  if (shape.drives(node)) {
    const std::uint64_t slots = std::uint64_t{shape.client_workers} * shape.window;
    LOCH_ASSIGN(own.landing, fabric.register_region(
                                 node, {.name = "micro.landing", .bytes = slots * settings_.place_bytes()}));
  }
  if (shape.serves(node) && settings_.sends()) {
    buffers_ = std::min(device.recv_queue_depth, 512u);
    const fabric::Receiving one = receiving(own, 0, buffers_);
    own.first_received = received_.size();
    received_.resize(received_.size() + shape.server_workers);
    LOCH_ASSIGN(own.messages,
                fabric.register_region(
                    node, {.name = "micro.messages", .bytes = shape.server_workers * one.region_bytes()}));
  }
  nodes_[node] = own;
  return {};
}

Result<> TrafficStore::connect(fabric::Fabric& fabric) {
  for (std::uint32_t node = 0; node < settings_.shape.serving_nodes(); ++node) {
    LOCH_ASSIGN(const fabric::RemoteRegion region, fabric.lookup(static_cast<NodeId>(node), "micro.places"));
    places_.push_back(region);
    if (settings_.credits > 0 && !fabric.is_local(static_cast<NodeId>(node)))
      return fail(ErrorCode::unsupported, "--micro-verbs.credits: another process counts what it receives");
  }
  return {};
}

Result<> TrafficStore::preload(fabric::Fabric& /*fabric*/, const kv::Dataset& /*data*/) { return {}; }

coro::Task<void> TrafficStore::serve(Worker& worker, std::uint32_t index) {
  if (!settings_.sends()) co_return;
  const fabric::Receiving own = receiving(nodes_.at(worker.node()), index, buffers_);
  fabric::post_receives(worker, own);
  fabric::Counted* counted = &received_[nodes_.at(worker.node()).first_received + index];
  co_await fabric::receive_all(&worker, &own, counted);
}

Signals* TrafficStore::signals_of(Worker& worker) {
  const std::lock_guard lock(signals_mutex_);
  std::unique_ptr<Signals>& one = signals_[&worker];
  if (one == nullptr) one = std::make_unique<Signals>(worker.run_queue(), settings_.signal_interval);
  return one.get();
}

std::uint64_t TrafficStore::on_their_way() {
  std::uint64_t came = 0;
  for (fabric::Counted& each : received_) came += each.so_far();
  const std::uint64_t sent = posted_.load(std::memory_order_relaxed);
  return sent > came ? sent - came : 0;
}

std::unique_ptr<kv::Client> TrafficStore::client(Worker& worker, std::uint32_t slot) {
  return std::make_unique<TrafficClient>(*this, worker, slot);
}

std::map<std::string, double> TrafficStore::counters() const {
  std::map<std::string, double> all{{"errors", static_cast<double>(errors_)},
                                    {"reconnects", static_cast<double>(reconnects_)}};
  if (settings_.sends()) {
    std::uint64_t came = 0;
    for (const fabric::Counted& each : received_) came += each.in_all;
    all["received"] = static_cast<double>(came);
    if (settings_.credits > 0) all["without_credit"] = static_cast<double>(without_credit_.load());
  }
  if (settings_.traffic.verb == fabric::Verb::faa) {
    double sum = 0;  // sum of all counters; each executed FAA has added 1
    for (const auto& [id, node] : nodes_) {
      for (std::uint64_t i = 0; node.places != nullptr && i < settings_.traffic.words; ++i)
        sum += static_cast<double>(fabric::load_word(node.places->at(8 * i)));
    }
    all["counted"] = sum;
  }
  return all;
}

}  // namespace loch::micro
