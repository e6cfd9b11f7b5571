// Numbered PUTs over the write channel, on UC as published or on RC: requests and replies carry sequence
// numbers, a request without a reply is sent again, and a duplicate is not executed again. A request has 16
// bytes and a reply 7 bytes more than in the published protocol. The trailer has number and checksum.
//
//   request | value | key | sequence u64 | trailer |     reply | trailer |
#include "common/fabric/memory.h"
#include "common/rpc/write_caller.h"
#include "common/rpc/write_server.h"
#include "farm_em/puts.h"

namespace loch::farm {
namespace {

constexpr std::uint8_t put_code = 1;

rpc::ChannelConfig channel_config(const Settings& settings) {
  const std::uint32_t value = rpc::round_up(settings.layout.value_size(), 8);
  const std::uint32_t bytes = value + rpc::round_up(settings.layout.key_size(), 8) + rpc::request_tail_bytes;
  rpc::ChannelConfig config;
  config.name = settings.prefix;
  config.parties = {.nodes = settings.config.nodes,
                    .servers = settings.config.server_workers,
                    .clients = settings.config.client_workers,
                    .window = settings.config.window};
  config.request = rpc::SlotShape(bytes, value, settings.config.kept_value_bytes);
  config.reply = rpc::SlotShape(rpc::trailer_bytes, 0, 0);
  config.request_bytes[put_code] = bytes;
  config.reply_bytes[put_code] = rpc::trailer_bytes;
  config.transport = settings.transport;
  config.inline_up_to = 144;  // bytes (HERD 2014, section 5.3)
  config.retry_after = settings.retry_after;
  config.give_up_after = config.reconnect_timeout = settings.patience;
  config.flaws.executes_repeated = settings.fault == Fault::executes_repeated;
  config.flaws.trusts_trailer = settings.fault == Fault::trusts_trailer;
  return config;
}

class NumberedPuts;

class NumberedPutter final : public Putter {
 public:
  NumberedPutter(NumberedPuts& puts, fabric::Worker& worker, std::uint32_t lane);
  [[nodiscard]] coro::Task<kv::OpResult> put(std::uint32_t node, kv::Key key, kv::ValueView value,
                                             fabric::OpStats* stats) override;

 private:
  NumberedPuts& puts_;
  fabric::Worker& worker_;
  std::uint32_t lane_;
  rpc::WriteCaller caller_;
};

class NumberedPuts final : public PutChannel {
 public:
  explicit NumberedPuts(const Settings& settings)
      : settings_(settings),
        value_bytes_(rpc::round_up(settings.layout.value_size(), 8)),
        key_bytes_(rpc::round_up(settings.layout.key_size(), 8)),
        channel_(channel_config(settings)) {}

  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) override {
    Node& state = nodes_[node];
    if (settings_.config.serves(node)) {
      const rpc::Parties& parties = channel_.config().parties;
      state.executed = std::make_unique<ExecutedPuts>(parties.servers * parties.columns());
    }
    if (settings_.config.drives(node)) state.putters.resize(channel_.config().parties.lanes());
    return channel_.setup_node(fabric, node);
  }
  [[nodiscard]] Result<> connect(fabric::Fabric& fabric) override { return channel_.connect(fabric); }
  [[nodiscard]] coro::Task<void> serve(fabric::Worker& worker, std::uint32_t index) override;
  [[nodiscard]] Putter& putter(fabric::Worker& worker, std::uint32_t slot) override {
    const std::uint32_t lane = channel_.config().parties.lane(worker.index(), slot);
    std::unique_ptr<Putter>& own = nodes_.at(worker.node()).putters.at(lane);
    auto next = std::make_unique<NumberedPutter>(*this, worker, lane);
    next->count_on_from(own.get());
    own = std::move(next);
    return *own;
  }
  // Adds the counters of all PUTs; a request that was executed more than once counts as a violation.
  void add_counters(std::map<std::string, double>& counters) const override {
    PutCounts sum;
    std::uint64_t executed = 0;
    bool is_whole = true;  // whether every server is in this process
    for (std::uint32_t node = 0; node < settings_.config.nodes; ++node)
      is_whole &= nodes_.contains(static_cast<fabric::NodeId>(node));
    for (const auto& [node, state] : nodes_) {
      if (state.executed != nullptr) executed += state.executed->executed();
      for (const auto& putter : state.putters) {
        if (putter != nullptr) sum.add(putter->counts());
      }
    }
    report(sum, executed, counters);
    if (is_whole && executed > sum.begun)
      counters[std::string(kv::violations_counter)] += static_cast<double>(executed - sum.begun);
  }

 private:
  friend class NumberedPutter;
  struct Node {
    std::unique_ptr<ExecutedPuts> executed;
    // one for each window slot (outstanding operation) of the node
    std::vector<std::unique_ptr<Putter>> putters;
  };
  class Server;
  [[nodiscard]] std::uint64_t digest(fabric::LocalSlice frame) const {
    return digest_of(frame.region->at(frame.offset + value_bytes_), key_bytes_, frame.data(),
                     kept_of(settings_));
  }

  const Settings& settings_;
  std::uint32_t value_bytes_, key_bytes_;  // bytes that a value and a key take in a request
  rpc::WriteChannel channel_;
  std::map<fabric::NodeId, Node> nodes_;
};

class NumberedPuts::Server final : public rpc::Handler {
 public:
  Server(const NumberedPuts& puts, ExecutedPuts& executed) : puts_(puts), executed_(executed) {}
  [[nodiscard]] coro::Task<std::uint8_t> handle(rpc::Request request, ReplyPlace /*reply*/) override {
    const auto slot =
        static_cast<std::uint32_t>(request.frame.offset / puts_.channel_.config().request.slot_bytes());
    executed_.note(slot, puts_.digest(request.frame));
    co_return put_code;
  }

 private:
  const NumberedPuts& puts_;
  ExecutedPuts& executed_;
};

coro::Task<void> NumberedPuts::serve(fabric::Worker& worker, std::uint32_t index) {
  Server handler(*this, *nodes_.at(worker.node()).executed);
  rpc::WriteServer server(channel_, worker, index);
  co_await server.run(&handler);
}

NumberedPutter::NumberedPutter(NumberedPuts& puts, fabric::Worker& worker, std::uint32_t lane)
    : puts_(puts), worker_(worker), lane_(lane), caller_(puts.channel_, worker, lane) {}

coro::Task<kv::OpResult> NumberedPutter::put(std::uint32_t node, kv::Key key, kv::ValueView value,
                                             fabric::OpStats* stats) {
  const rpc::Parties& parties = puts_.channel_.config().parties;
  const rpc::ServerId server{static_cast<fabric::NodeId>(node), lane_ % parties.servers};
  kv::OpResult result;
  result.status = kv::OpStatus::timeout;
  const bool is_free = co_await caller_.prepare(server);
  if (!is_free) co_return result;
  const fabric::LocalSlice frame = caller_.body(server, put_code);
  const std::uint32_t kept = std::min(value.kept, puts_.settings_.layout.value_size());
  if (kept > 0) fabric::copy_to_shared(frame.data(), value.data, kept);
  fabric::copy_to_shared(frame.region->at(frame.offset + puts_.value_bytes_), key.data, key.size);
  const std::uint64_t digest = puts_.digest(frame);
  ++counts_.begun;
  const rpc::WriteReply reply = co_await caller_.call(server, put_code, stats);
  result.retries = reply.attempts;
  counts_.retries += reply.attempts;
  if (reply.outcome != rpc::WriteReply::Outcome::answered) {
    ++counts_.timeouts;
    result.effect =
        reply.outcome == rpc::WriteReply::Outcome::unsent ? kv::Effect::none : kv::Effect::unknown;
    co_return result;
  }
  ++counts_.answered;
  result.status = kv::OpStatus::ok;
  // Counts a violation unless this request is the last that the server executed in its slot. This can be
  // checked only if the server runs in this process.
  const auto there = puts_.nodes_.find(server.node);
  const std::uint32_t slot = server.index * parties.columns() + parties.column(worker_.node(), lane_);
  if (there != puts_.nodes_.end() && there->second.executed->last(slot) != digest) ++counts_.unexecuted;
  co_return result;
}

}  // namespace

std::unique_ptr<PutChannel> make_numbered_puts(const Settings& settings) {
  return std::make_unique<NumberedPuts>(settings);
}

}  // namespace loch::farm
