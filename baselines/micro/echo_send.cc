// The store of micro-echo by SEND: receive buffers of clients and servers, and the messages between them.
#include "baselines/micro/echo_send.h"

#include <fmt/format.h>

#include <algorithm>

namespace loch::micro {

using fabric::NodeId;
using fabric::Worker;

class SendEchoClient final : public kv::Client {
 public:
  SendEchoClient(SendEchoStore& store, Worker& worker, std::uint32_t slot)
      : store_(store),
        worker_(worker),
        receiving_(store.of_client(store.nodes_.at(worker.node()), worker.index())) {
    const kv::DeployConfig& shape = store.settings_.shape;
    number_ = turn_ = shape.client_number(worker.node(), worker.index()) * shape.window + slot;
    if (slot == 0) fabric::post_receives(worker, receiving_);
  }

  // GET sends an echo request; since nothing is stored, it returns not_found.
  coro::Task<kv::OpResult> get(kv::Key, fabric::OpStats* stats) override {
    co_return co_await echo(store_.settings_.small_bytes, kv::OpStatus::not_found, stats);
  }
  coro::Task<kv::OpResult> put(kv::Key, kv::ValueView, fabric::OpStats* stats) override {
    co_return co_await echo(store_.settings_.shape.value_size, kv::OpStatus::ok, stats);
  }
  coro::Task<kv::OpResult> remove(kv::Key, fabric::OpStats* stats) override {
    co_return co_await echo(store_.settings_.small_bytes, kv::OpStatus::not_found, stats);
  }

 private:
  coro::Task<kv::OpResult> echo(std::uint32_t bytes, kv::OpStatus done, fabric::OpStats* stats) {
    const EchoSettings& settings = store_.settings_;
    const std::uint32_t turn = turn_++;
    fabric::Target server;
    const std::uint32_t whom = settings.keeps_server ? number_ : turn;
    server.node = static_cast<NodeId>(whom % settings.shape.serving_nodes());
    server.worker =
        settings.shape.server_index(whom / settings.shape.serving_nodes() % settings.shape.server_workers);
    if (settings.transport == fabric::Transport::rc && !worker_.connected(server.node)) {
      const Nanos until = worker_.now() + settings.reconnect_timeout;
      const bool is_back = co_await worker_.reconnect(server.node, until);
      if (!is_back) co_return kv::OpResult{.status = kv::OpStatus::error};
      store_.reconnects_.fetch_add(1, std::memory_order_relaxed);
    }
    const fabric::Traffic traffic = store_.traffic(bytes, worker_.capabilities());
    const fabric::LocalSlice source{store_.nodes_.at(worker_.node()).source, 0};
    fabric::WorkRequest request = fabric::request_of(traffic, worker_, server, source, turn);
    request.stats = stats;
    worker_.post_detached(request);
    const Nanos deadline = worker_.now() + settings.give_up_after;
    const fabric::Received got = co_await worker_.receive(settings.transport, deadline);
    if (got.outcome != fabric::Received::Outcome::message) {
      store_.timeouts_.fetch_add(1, std::memory_order_relaxed);
      co_return kv::OpResult{.status = kv::OpStatus::timeout, .effect = kv::Effect::unknown};
    }
    const fabric::Traffic answer = store_.traffic(got.length, worker_.capabilities());
    fabric::WorkRequest reply = fabric::request_of(answer, worker_, server, {}, 0);
    reply.stats = stats;
    worker_.attribute(reply);
    ++stats->recv;
    worker_.post_recv(settings.transport, got.buffer, receiving_.buffer_bytes(), got.user);
    co_return kv::OpResult{.status = done};
  }

  SendEchoStore& store_;
  Worker& worker_;
  fabric::Receiving receiving_;
  std::uint32_t number_ = 0, turn_ = 0;
};

SendEchoStore::SendEchoStore(EchoSettings settings) : settings_(std::move(settings)) {}

std::uint32_t SendEchoStore::largest() const {
  return std::max(settings_.small_bytes, settings_.shape.value_size);
}

fabric::Traffic SendEchoStore::traffic(std::uint32_t bytes, const fabric::Capabilities& device) const {
  fabric::Traffic one{.verb = fabric::Verb::send, .transport = settings_.transport, .bytes = bytes};
  one.is_inline = bytes <= std::min(settings_.inline_up_to, device.max_inline_bytes);
  return one;
}

fabric::Receiving SendEchoStore::of_client(const Node& node, std::uint32_t client) const {
  fabric::Receiving own{settings_.transport, {node.messages, 0}, largest(), client_buffers_};
  own.first.offset = client * own.region_bytes();
  return own;
}

fabric::Receiving SendEchoStore::of_server(const Node& node, std::uint32_t server) const {
  fabric::Receiving own{settings_.transport, {node.messages, 0}, largest(), server_buffers_};
  const std::uint64_t before = settings_.shape.server_nodes == 0 ? settings_.shape.client_workers : 0;
  own.first.offset = before * of_client(node, 0).region_bytes() + server * own.region_bytes();
  return own;
}

Result<> SendEchoStore::setup_node(fabric::Fabric& fabric, NodeId node) {
  const fabric::Capabilities& device = fabric.capabilities();
  if (settings_.transport == fabric::Transport::ud && largest() > device.mtu_bytes) {
    return fail(ErrorCode::unsupported,
                fmt::format("--micro-echo.transport ud: a datagram has at most {} bytes here, not {}",
                            device.mtu_bytes, largest()));
  }
  const kv::DeployConfig& shape = settings_.shape;
  // A client's window slot (place for one outstanding operation) may have two messages on the way to a
  // server: the request of its present operation, and that of an earlier operation that timed out.
  const std::uint32_t slots = shape.driving_nodes() * shape.client_workers * shape.window;
  client_buffers_ = std::min(device.recv_queue_depth, 2 * shape.window + 8);
  server_buffers_ = std::min(device.recv_queue_depth, 2 * slots + 8);
  Node own;
  LOCH_ASSIGN(own.source, fabric.register_region(node, {.name = "micro.source",
                                                        .bytes = (std::uint64_t{largest()} + 63) / 64 * 64}));
  std::uint64_t bytes = 64;
  if (shape.drives(node)) bytes += shape.client_workers * of_client(own, 0).region_bytes();
  if (shape.serves(node)) bytes += shape.server_workers * of_server(own, 0).region_bytes();
  LOCH_ASSIGN(own.messages, fabric.register_region(node, {.name = "micro.messages", .bytes = bytes}));
  nodes_[node] = own;
  return {};
}

coro::Task<void> SendEchoStore::serve(Worker& worker, std::uint32_t index) {
  const Node& node = nodes_.at(worker.node());
  const fabric::Receiving own = of_server(node, index);
  const fabric::Traffic small = traffic(settings_.small_bytes, worker.capabilities());
  const fabric::Traffic large = traffic(settings_.shape.value_size, worker.capabilities());
  fabric::post_receives(worker, own);
  fabric::Counted counted;
  const fabric::Replies replies{
      .small = settings_.small_bytes, .to_small = &large, .to_others = &small, .source = {node.source, 0}};
  co_await fabric::receive_all(&worker, &own, &counted, &replies);
  answered_.fetch_add(counted.in_all, std::memory_order_relaxed);
}

std::unique_ptr<kv::Client> SendEchoStore::client(Worker& worker, std::uint32_t slot) {
  return std::make_unique<SendEchoClient>(*this, worker, slot);
}

std::map<std::string, double> SendEchoStore::counters() const {
  return {{"answered", static_cast<double>(answered_)},
          {"timeouts", static_cast<double>(timeouts_)},
          {"reconnects", static_cast<double>(reconnects_)}};
}

}  // namespace loch::micro
