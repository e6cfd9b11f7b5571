// The store of micro-echo by WRITE: clients write requests and servers write replies into memory that the
// receiver polls, and a reply has another length than its request.
#include "baselines/micro/echo_write.h"

#include <algorithm>

#include "common/rpc/write_caller.h"
#include "common/rpc/write_server.h"

namespace loch::micro {

using fabric::NodeId;
using fabric::Worker;

namespace {
// Request codes. With code_get the reply has the size of a value; with code_put the request has that size.
constexpr std::uint8_t code_get = 1, code_put = 2;
constexpr std::uint32_t sealed = rpc::trailer_bytes;

std::uint32_t in_words(std::uint32_t bytes) { return (bytes + 7) / 8 * 8; }

rpc::ChannelConfig channel_config(const EchoSettings& settings) {
  const kv::DeployConfig& shape = settings.shape;
  const std::uint32_t value = in_words(shape.value_size), small = settings.small_bytes;
  const std::uint32_t kept = std::min(shape.kept_value_bytes, shape.value_size);
  rpc::ChannelConfig config;
  config.name = "micro-echo";
  config.parties = {shape.nodes, shape.server_workers, shape.client_workers, shape.window};
  config.request_bytes[code_get] = small + rpc::request_tail_bytes + sealed;
  config.request_bytes[code_put] = value + rpc::request_tail_bytes + sealed;
  config.reply_bytes[code_get] = value + sealed;
  config.reply_bytes[code_put] = small + sealed;
  // A small message lies in the last bytes of a slot for a value. These bytes are stored even if the
  // simulation stores only the first bytes of each value.
  const auto larger = [&](std::uint32_t tail) {
    return value > small ? rpc::SlotShape{value + tail, value - small, std::min(kept, value - small)}
                         : rpc::SlotShape{small + tail, 0, 0};
  };
  config.request = larger(rpc::request_tail_bytes + sealed);
  config.reply = larger(sealed);
  config.transport = settings.transport;
  config.inline_up_to = settings.inline_up_to;
  config.retry_after = settings.retry_after;
  config.give_up_after = settings.give_up_after;
  config.reconnect_timeout = settings.reconnect_timeout;
  return config;
}

// Request handler that answers every request without reading its content.
class Answering final : public rpc::Handler {
 public:
  coro::Task<std::uint8_t> handle(rpc::Request request, ReplyPlace /*reply*/) override {
    co_return request.code;
  }
};
}  // namespace

class WriteEchoClient final : public kv::Client {
 public:
  WriteEchoClient(WriteEchoStore& store, Worker& worker, std::uint32_t slot)
      : store_(store),
        caller_(store.channel_, worker, store.channel_.config().parties.lane(worker.index(), slot)) {
    const kv::DeployConfig& shape = store.settings_.shape;
    number_ = turn_ = shape.client_number(worker.node(), worker.index()) * shape.window + slot;
  }
  ~WriteEchoClient() override {
    store_.retries_.fetch_add(caller_.counts().retries, std::memory_order_relaxed);
    store_.timeouts_.fetch_add(caller_.counts().timeouts, std::memory_order_relaxed);
  }

  // GET sends an echo request; since nothing is stored, it returns not_found.
  coro::Task<kv::OpResult> get(kv::Key, fabric::OpStats* stats) override {
    co_return co_await echo(code_get, kv::OpStatus::not_found, stats);
  }
  coro::Task<kv::OpResult> put(kv::Key, kv::ValueView, fabric::OpStats* stats) override {
    co_return co_await echo(code_put, kv::OpStatus::ok, stats);
  }
  coro::Task<kv::OpResult> remove(kv::Key, fabric::OpStats* stats) override {
    co_return co_await echo(code_get, kv::OpStatus::not_found, stats);
  }

 private:
  coro::Task<kv::OpResult> echo(std::uint8_t code, kv::OpStatus done, fabric::OpStats* stats) {
    const kv::DeployConfig& shape = store_.settings_.shape;
    const std::uint32_t turn = store_.settings_.keeps_server ? number_ : turn_++;
    const rpc::ServerId server{static_cast<NodeId>(turn % shape.serving_nodes()),
                               turn / shape.serving_nodes() % shape.server_workers};
    const bool is_free = co_await caller_.prepare(server);
    if (!is_free) co_return kv::OpResult{.status = kv::OpStatus::error};
    const rpc::WriteReply reply = co_await caller_.call(server, code, stats);
    kv::OpResult result{.status = done, .retries = reply.attempts};
    if (reply.outcome == rpc::WriteReply::Outcome::answered) co_return result;
    const bool was_sent = reply.outcome != rpc::WriteReply::Outcome::unsent;
    result.status = was_sent ? kv::OpStatus::timeout : kv::OpStatus::error;
    result.effect = was_sent ? kv::Effect::unknown : kv::Effect::none;
    co_return result;
  }

  WriteEchoStore& store_;
  rpc::WriteCaller caller_;
  std::uint32_t number_ = 0, turn_ = 0;
};

WriteEchoStore::WriteEchoStore(const EchoSettings& settings)
    : settings_(settings), channel_(channel_config(settings)) {}

Result<> WriteEchoStore::setup_node(fabric::Fabric& fabric, NodeId node) {
  return channel_.setup_node(fabric, node);
}
Result<> WriteEchoStore::connect(fabric::Fabric& fabric) { return channel_.connect(fabric); }

coro::Task<void> WriteEchoStore::serve(Worker& worker, std::uint32_t index) {
  Answering handler;
  rpc::WriteServer server(channel_, worker, index);
  co_await server.run(&handler);
  answered_.fetch_add(server.counts().executed, std::memory_order_relaxed);
  repeated_.fetch_add(server.counts().repeated, std::memory_order_relaxed);
}

std::unique_ptr<kv::Client> WriteEchoStore::client(Worker& worker, std::uint32_t slot) {
  return std::make_unique<WriteEchoClient>(*this, worker, slot);
}

std::map<std::string, double> WriteEchoStore::counters() const {
  return {{"answered", static_cast<double>(answered_)},
          {"repeated", static_cast<double>(repeated_)},
          {"retries", static_cast<double>(retries_)},
          {"timeouts", static_cast<double>(timeouts_)}};
}

}  // namespace loch::micro
