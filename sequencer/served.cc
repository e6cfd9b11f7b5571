// Clients and counters of seq-rpc and seq-spec, the two sequencers with server workers.
#include "sequencer/served.h"

#include <array>

#include "common/base/check.h"

namespace loch::sequencer {
namespace {

constexpr std::uint32_t most_backoff = 16;  // largest wait for a reply, as a multiple of retry_after

}  // namespace

Requests::Requests(fabric::Worker& worker, const ServedSettings& settings, fabric::Region& receive)
    : worker_(worker),
      settings_(settings),
      requests_(settings.config.window),
      lists_(worker, settings.requests),
      desk_(worker, settings.desk(), receive, settings.desk().bytes() * worker.index(), *this) {}

coro::Task<Drawn> Requests::draw(std::uint32_t slot, fabric::OpStats* stats) {
  Request& request = requests_[slot];
  ++request.sequence;
  request.stats = stats;
  request.is_waiting = true;
  order_.push_back(slot);
  desk_.expect(slot);
  const Nanos give_up = worker_.now() + settings_.patience;
  Nanos pause = settings_.retry_after;
  Drawn drawn;
  for (std::uint32_t attempt = 0;; ++attempt) {
    const bool is_reached = co_await reach(give_up);
    if (is_reached) {
      const fabric::WorkRequest message = make(slot, attempt);
      // A request over RC that fails is sent again, like one without a reply.
      if (message.transport == fabric::Transport::rc)
        static_cast<void>(co_await lists_.execute(message));
      else
        co_await lists_.send(message);
    }
    const Nanos deadline = std::min(worker_.now() + pause, give_up);
    const rpc::ReplyDesk::Outcome outcome = co_await desk_.wait(slot, deadline);
    if (outcome == rpc::ReplyDesk::Outcome::answered) {
      drawn.status = kv::OpStatus::ok;
      drawn.number = request.number;
      co_return drawn;
    }
    if (outcome == rpc::ReplyDesk::Outcome::stopping || worker_.now() >= give_up) break;
    ++drawn.retries;
    ++counts_.retries;
    pause = std::min(2 * pause, most_backoff * settings_.retry_after);
  }
  end(slot);
  ++counts_.timeouts;
  drawn.status = kv::OpStatus::timeout;
  co_return drawn;
}

Nanos SharedCounter::wait(const fabric::Worker& worker) {
  const Nanos line = worker.costs().line();
  if (line == 0) return 0;
  const Nanos now = worker.now();
  if (holder_ == &worker && free_at_ <= now) return 0;
  holder_ = &worker;
  free_at_ = std::max(free_at_, now) + line;
  return free_at_ - now;
}

void Requests::end(std::uint32_t slot) {
  requests_[slot].is_waiting = false;
  requests_[slot].stats = nullptr;
  order_.erase(std::ranges::find(order_, slot));
}

std::optional<std::uint32_t> Requests::oldest() const {
  if (order_.empty()) return std::nullopt;
  return order_.front();
}

std::uint32_t Requests::answer(std::uint32_t slot, std::uint64_t number, const fabric::Received& message) {
  Request& request = requests_[slot];
  request.number = number;
  fabric::WorkRequest arrived;
  arrived.verb = fabric::Verb::send;
  arrived.transport = fabric::Transport::ud;
  arrived.peer = message.from;
  arrived.length = message.length;
  arrived.has_immediate = message.has_immediate;
  arrived.stats = request.stats;
  worker_.attribute(arrived);
  end(slot);
  return slot;
}

Result<> ServedStore::setup_node(fabric::Fabric& fabric, fabric::NodeId node) {
  const ServedSettings& s = settings_;
  if (node == sequencer_node) {
    LOCH_ASSIGN(replies_, fabric.register_region(node, {.name = s.prefix + ".replies",
                                                        .bytes = s.replies.bytes() * s.servers()}));
    servers_.resize(s.servers());
  }
  NodeState state;
  if (s.config.drives(node)) {
    LOCH_ASSIGN(state.receive,
                fabric.register_region(node, {.name = s.prefix + ".receive",
                                              .bytes = s.desk().bytes() * s.config.client_workers}));
    state.clients.resize(s.config.client_workers);
  }
  nodes_[node] = std::move(state);
  return setup(fabric, node);
}

std::unique_ptr<kv::Client> ServedStore::client(fabric::Worker& worker, std::uint32_t slot) {
  NodeState& node = nodes_.at(worker.node());
  std::unique_ptr<Requests>& own = node.clients.at(worker.index());
  if (own == nullptr) own = make_requests(worker, *node.receive);
  const bool is_here = nodes_.contains(sequencer_node);
  return std::make_unique<ServedClient>(worker, ledger(), *own, slot, is_here ? &counter_.number() : nullptr);
}

ServerState& ServedStore::server(fabric::Worker& worker, std::uint32_t index) {
  std::unique_ptr<ServerState>& own = servers_.at(index);
  own = std::make_unique<ServerState>(worker, settings_, *replies_, index);
  return *own;
}

void ServedStore::add_counters(std::map<std::string, double>& counters) const {
  for (const auto& [node, state] : nodes_) {
    for (const auto& own : state.clients) {
      if (own == nullptr) continue;
      add(counters, own->counts());
      add(counters, own->posted());
    }
  }
  for (const auto& own : servers_) {
    if (own == nullptr) continue;
    add(counters, own->counts);
    counters["replies"] += static_cast<double>(own->sender.counts().sent);
    counters["reply_lists"] += static_cast<double>(own->sender.counts().lists);
  }
}

std::vector<kv::OptionSpec> served_options(const std::string& prefix) {
  using kv::OptionType;
  return {
      {prefix + ".batch",
       OptionType::integer,
       "32",
       "requests that a server worker claims numbers for at once and replies behind one doorbell, at most "
       "(2016, 4.2); 1: none",
       {},
       1,
       64},
      {prefix + ".reply-list",
       OptionType::integer,
       "0",
       "replies behind one doorbell, at most; 0: a batch's; 1: each by itself (2016, 4.2.2: not batched)",
       {},
       0,
       64},
      {prefix + ".lanes",
       OptionType::integer,
       "3",
       "UD queue pairs of a server worker, used in turn (2016, 4.2: multi-queue, 3 a port)",
       {},
       1,
       16},
      {prefix + ".signal-every",
       OptionType::integer,
       "64",
       "one of so many replies asks for a completion (published code of 2016: 64)",
       {},
       1,
       4096},
      {prefix + ".request-list",
       OptionType::integer,
       "32",
       "requests of a client worker behind one doorbell, at most; 1: a doorbell each",
       {},
       1,
       4096},
      {prefix + ".retry-after",
       OptionType::duration,
       "1ms",
       "a request without an answer is sent again; doubles each time, up to 16 times as much",
       {},
       1e3,
       1e12,
       "20ms"},
      {prefix + ".patience",
       OptionType::duration,
       "10s",
       "an operation without an answer ends",
       {},
       1e3,
       1e12},
  };
}

Result<ServedSettings> decide_served(const std::string& prefix, const kv::DeployConfig& config,
                                     const kv::Options& options) {
  LOCH_TRY(check_shape(prefix, config, true));
  const auto number = [&](const char* name) {
    return static_cast<std::uint32_t>(options.integer(prefix + "." + name));
  };
  ServedSettings settings;
  settings.config = config;
  settings.prefix = prefix;
  settings.batch = number("batch");
  const std::uint32_t list = number("reply-list");
  settings.replies = {.message_bytes = number_bytes,
                      .list_most = list == 0 ? settings.batch : list,
                      .signal_every = number("signal-every"),
                      .lanes = static_cast<std::uint8_t>(number("lanes")),
                      .inline_below = number_bytes + 1,
                      .queue_depth = 128 * number("lanes")};
  settings.requests = {.list_most = number("request-list"), .signal_every = 64, .lanes = 1};
  settings.retry_after = options.integer(prefix + ".retry-after");
  settings.patience = options.integer(prefix + ".patience");
  return settings;
}

std::map<std::string, std::string> served_fuzz_options(const std::string& prefix, Rng& rng) {
  constexpr std::array<const char*, 4> few = {"1", "2", "3", "8"};
  constexpr std::array<const char*, 3> spans = {"50us", "200us", "1ms"};
  return {{prefix + ".batch", few[rng.below(few.size())]},
          {prefix + ".lanes", few[rng.below(3)]},
          {prefix + ".request-list", few[rng.below(few.size())]},
          {prefix + ".retry-after", spans[rng.below(spans.size())]}};
}

}  // namespace loch::sequencer
