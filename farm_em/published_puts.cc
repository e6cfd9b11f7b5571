// PUT as published (HERD 2014, section 5.1): the client WRITEs value and key over UC into a slot that a
// server worker polls; the worker zeroes the slot's last word and WRITEs one byte back.
//
//   slot    | unused | value | key |     the server polls the key's last word (keys are hashes, never 0)
//   reply   | 1 | 0 0 0 0 0 0 0 |        zeroed by the client before each request
//
// Known fault F1 (docs/protocols/farm-em.md): requests cannot be told apart. A lost request or reply is never
// answered (the client gives up), a late reply is taken for the reply to the next request, and where bytes
// are not placed in order the last word may announce an incomplete request.
#include <algorithm>

#include "common/fabric/memory.h"
#include "common/kv/value.h"
#include "common/rpc/slots.h"
#include "farm_em/puts.h"

namespace loch::farm {
namespace {

class PublishedPuts;

class PublishedPutter final : public Putter {
 public:
  PublishedPutter(PublishedPuts& channel, fabric::Worker& worker, std::uint32_t lane)
      : channel_(channel), worker_(worker), lane_(lane) {}
  [[nodiscard]] coro::Task<kv::OpResult> put(std::uint32_t node, kv::Key key, kv::ValueView value,
                                             fabric::OpStats* stats) override;

 private:
  // Writes the request into `message`; returns the request's digest.
  [[nodiscard]] std::uint64_t stage(fabric::LocalSlice message, kv::Key key, kv::ValueView value);

  PublishedPuts& channel_;
  fabric::Worker& worker_;
  std::uint32_t lane_;  // index of this window slot (outstanding operation) among those of its node
};

class PublishedPuts final : public PutChannel {
 public:
  explicit PublishedPuts(const Settings& settings)
      : settings_(settings),
        parties_{.nodes = settings.config.nodes,
                 .servers = settings.config.server_workers,
                 .clients = settings.config.client_workers,
                 .window = settings.config.window},
        value_bytes_(rpc::round_up(settings.layout.value_size(), 8)),
        key_bytes_(rpc::round_up(settings.layout.key_size(), 8)),
        requests_(
            parties_.requests({value_bytes_ + key_bytes_, value_bytes_, settings.config.kept_value_bytes})),
        staged_(requests_.shape(), 1, parties_.lanes()),
        replies_({8, 0, 0}, 1, parties_.lanes()) {}

  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) override {
    Node state;
    if (settings_.config.serves(node)) {
      LOCH_ASSIGN(state.requests,
                  fabric.register_region(node, requests_.region(settings_.region("puts"), true)));
      LOCH_ASSIGN(state.token, fabric.register_region(node, {.name = settings_.region("token"), .bytes = 8}));
      fabric::store_word_release(state.token->at(0), 1);
      state.executed = std::make_unique<ExecutedPuts>(parties_.servers * parties_.columns());
    }
    if (settings_.config.drives(node)) {
      LOCH_ASSIGN(state.staged,
                  fabric.register_region(node, staged_.region(settings_.region("staged"), false)));
      LOCH_ASSIGN(state.replies,
                  fabric.register_region(node, replies_.region(settings_.region("replies"), true)));
      state.putters.resize(parties_.lanes());
    }
    nodes_[node] = std::move(state);
    return {};
  }
  [[nodiscard]] Result<> connect(fabric::Fabric& fabric) override {
    const kv::DeployConfig& config = settings_.config;
    remote_requests_.resize(config.nodes);
    remote_replies_.resize(config.nodes);
    for (std::uint32_t i = 0; i < config.nodes; ++i) {
      const auto node = static_cast<fabric::NodeId>(i);
      if (config.serves(node)) {
        LOCH_ASSIGN(remote_requests_[i], fabric.lookup(node, settings_.region("puts")));
      }
      if (config.drives(node)) {
        LOCH_ASSIGN(remote_replies_[i], fabric.lookup(node, settings_.region("replies")));
      }
    }
    return {};
  }
  [[nodiscard]] coro::Task<void> serve(fabric::Worker& worker, std::uint32_t index) override;
  [[nodiscard]] Putter& putter(fabric::Worker& worker, std::uint32_t slot) override {
    const std::uint32_t lane = parties_.lane(worker.index(), slot);
    std::unique_ptr<Putter>& own = nodes_.at(worker.node()).putters.at(lane);
    auto next = std::make_unique<PublishedPutter>(*this, worker, lane);
    next->count_on_from(own.get());
    own = std::move(next);
    return *own;
  }
  void add_counters(std::map<std::string, double>& counters) const override {
    PutCounts sum;
    std::uint64_t executed = 0;
    for (const auto& [node, state] : nodes_) {
      if (state.executed != nullptr) executed += state.executed->executed();
      for (const auto& putter : state.putters) {
        if (putter != nullptr) sum.add(putter->counts());
      }
    }
    report(sum, executed, counters);
  }

 private:
  friend class PublishedPutter;
  struct Node {
    // Request slots, one for each pair of a server worker of this node and a window slot (outstanding
    // operation) of the cluster; clients WRITE into them.
    fabric::Region* requests = nullptr;
    fabric::Region* token = nullptr;  // holds a 1, the byte that a server WRITEs as its reply
    std::unique_ptr<ExecutedPuts> executed;
    // buffers for requests to be sent, one for each window slot (outstanding operation) of the node
    fabric::Region* staged = nullptr;
    // replies, one for each window slot (outstanding operation) of the node; servers WRITE into them
    fabric::Region* replies = nullptr;
    std::vector<std::unique_ptr<Putter>> putters;
  };
  static bool is_there(void* /*self*/, std::uint32_t /*column*/, std::uint64_t word) { return word != 0; }
  void answer(fabric::Worker& worker, const Node& own, std::uint32_t column);

  const Settings& settings_;
  rpc::Parties parties_;
  std::uint32_t value_bytes_, key_bytes_;  // bytes that a value and a key take in a request slot
  rpc::SlotGrid requests_, staged_, replies_;
  std::map<fabric::NodeId, Node> nodes_;
  std::vector<fabric::RemoteRegion> remote_requests_, remote_replies_;  // indexed by node
};

fabric::WorkRequest write(const fabric::Worker& worker, const fabric::RemoteRegion& remote,
                          std::uint64_t offset, fabric::LocalSlice from, std::uint32_t bytes,
                          fabric::OpStats* stats) {
  constexpr std::uint32_t inline_most = 144;  // bytes; HERD 2014, section 5.3
  fabric::WorkRequest request = fabric::one_sided(fabric::Verb::write, remote, offset, from, bytes, stats);
  request.transport = fabric::Transport::uc;
  request.is_signaled = false;
  request.is_inline = bytes <= std::min(inline_most, worker.capabilities().max_inline_bytes);
  return request;
}

std::uint64_t PublishedPutter::stage(fabric::LocalSlice message, kv::Key key, kv::ValueView value) {
  fabric::Region& region = *message.region;
  const std::uint32_t kept = std::min(value.kept, channel_.settings_.layout.value_size());
  if (kept > 0) fabric::copy_to_shared(region.at(message.offset), value.data, kept);
  std::byte* key_at = region.at(message.offset + channel_.value_bytes_);
  fabric::copy_to_shared(key_at, key.data, key.size);
  const std::uint64_t flag = kv::key_digest(key) | 1;
  fabric::store_word_release(region.at(message.offset + channel_.value_bytes_ + channel_.key_bytes_ - 8),
                             flag);
  return digest_of(key_at, channel_.key_bytes_, region.at(message.offset), kept_of(channel_.settings_));
}

coro::Task<kv::OpResult> PublishedPutter::put(std::uint32_t node, kv::Key key, kv::ValueView value,
                                              fabric::OpStats* stats) {
  PublishedPuts& c = channel_;
  const PublishedPuts::Node& own = c.nodes_.at(worker_.node());
  const std::uint32_t bytes = c.value_bytes_ + c.key_bytes_;
  const std::uint32_t server = lane_ % c.parties_.servers, column = c.parties_.column(worker_.node(), lane_);
  const fabric::LocalSlice message{own.staged, c.staged_.message(0, lane_, bytes)};
  const std::uint64_t digest = stage(message, key, value);
  const std::uint64_t word = c.replies_.word(0, lane_);
  worker_.store_word(*own.replies, word, 0);
  ++counts_.begun;
  worker_.post_detached(write(worker_, c.remote_requests_[node], c.requests_.message(server, column, bytes),
                              message, bytes, stats));
  const fabric::WatchWord answer{.region = own.replies, .offset = word, .value = 0, .until_equal = false};
  const Nanos deadline = worker_.now() + c.settings_.retry_after;
  const fabric::WatchOutcome outcome = co_await worker_.watch(answer, deadline);
  kv::OpResult result;
  if (outcome != fabric::WatchOutcome::ready) {
    ++counts_.timeouts;
    result.status = kv::OpStatus::timeout;
    result.effect = kv::Effect::unknown;
    co_return result;
  }
  fabric::WorkRequest arrived;
  arrived.verb = fabric::Verb::write;
  arrived.transport = fabric::Transport::uc;
  arrived.peer = static_cast<fabric::NodeId>(node);
  arrived.length = 1;
  arrived.stats = stats;
  worker_.attribute(arrived);
  ++counts_.answered;
  // Counts a violation unless this request is the last that the server executed in its slot. Only possible if
  // the server runs in this process.
  const auto there = c.nodes_.find(static_cast<fabric::NodeId>(node));
  if (there != c.nodes_.end() &&
      there->second.executed->last(server * c.parties_.columns() + column) != digest)
    ++counts_.unexecuted;
  co_return result;
}

void PublishedPuts::answer(fabric::Worker& worker, const Node& own, std::uint32_t column) {
  const fabric::NodeId node = parties_.node_of(column);
  worker.post_detached(write(worker, remote_replies_[node], replies_.word(0, parties_.lane_of(column)),
                             {own.token, 0}, 1, nullptr));
}

coro::Task<void> PublishedPuts::serve(fabric::Worker& worker, std::uint32_t index) {
  const Node& own = nodes_.at(worker.node());
  const fabric::WatchSet set = requests_.watch(*own.requests, index, &PublishedPuts::is_there, this);
  for (std::uint32_t start = 0;;) {
    const fabric::WatchAny news = co_await worker.watch_any(set, start);
    if (news.outcome != fabric::WatchOutcome::ready) co_return;
    start = news.index + 1;
    const std::uint64_t at = requests_.message(index, news.index, value_bytes_ + key_bytes_);
    const std::uint64_t digest =
        digest_of(own.requests->at(at + value_bytes_), key_bytes_, own.requests->at(at), kept_of(settings_));
    own.executed->note(index * parties_.columns() + news.index, digest);
    worker.store_word(*own.requests, requests_.word(index, news.index), 0);
    answer(worker, own, news.index);
  }
}

}  // namespace

std::unique_ptr<PutChannel> make_published_puts(const Settings& settings) {
  return std::make_unique<PublishedPuts>(settings);
}

}  // namespace loch::farm
