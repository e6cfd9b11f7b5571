// Runs the schedule of pings on one node: sends pings, replies to the pings of the node's present partner,
// and counts the messages that arrive.
#include "common/fabric/ping/pings.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <span>

#include "common/fabric/ping/tournament.h"

namespace loch::fabric::ping {
namespace {

constexpr std::uint32_t word_bytes = 8, line_bytes = 64, grh_bytes = 40;
constexpr std::uint32_t ring_slots = 32;  // slots for a peer's pings over UC, and as many for its replies
constexpr std::uint32_t burst_most = 32;  // most requests in a burst
constexpr std::uint32_t numbers = 1024;   // messages of a burst, and pings, are numbered 0 to numbers - 1
// most single pings from one node to another over one transport
constexpr std::uint32_t pings_most = 200;
constexpr std::uint32_t receive_buffers = 512;
constexpr const char* region_name = "pings";

enum Kind : std::uint32_t { message = 0, ping = 1, reply = 2 };
constexpr std::uint32_t kinds = 3;

// The payload of a message. The upper half is the complement of the lower one, so that neither zeroed memory
// nor any other payload counts as a message.
constexpr std::uint64_t word_of(Kind kind, std::uint32_t number) {
  const std::uint32_t low = (std::uint32_t{kind} << 16) | number;
  return (std::uint64_t{~low} << 32) | low;
}
constexpr bool is_whole(std::uint64_t word) {
  return static_cast<std::uint32_t>(word >> 32) == ~static_cast<std::uint32_t>(word);
}
constexpr Kind kind_of_word(std::uint64_t word) { return static_cast<Kind>((word >> 16) & 0x3); }
constexpr std::uint32_t number_of(std::uint64_t word) { return static_cast<std::uint32_t>(word & 0xffff); }

// Offsets of the parts of a node's registered region.
struct Layout {
  std::uint32_t nodes = 1;
  static constexpr std::uint64_t start = 0, read_source = line_bytes, ud_reply = 2 * line_bytes;
  static constexpr std::uint64_t landing = 3 * line_bytes;
  static constexpr std::uint64_t words = landing + std::uint64_t{burst_most} * line_bytes;
  static constexpr std::uint64_t buffers = words + std::uint64_t{kinds} * numbers * word_bytes;
  static constexpr std::uint64_t peers = buffers + std::uint64_t{receive_buffers} * line_bytes;
  static constexpr std::uint64_t ring_bytes = std::uint64_t{ring_slots} * line_bytes;
  static constexpr std::uint64_t peer_bytes = 2 * ring_bytes + std::uint64_t{numbers} * word_bytes;
  static constexpr std::uint64_t source(Kind kind, std::uint32_t number) {
    return words + (std::uint64_t{kind} * numbers + number) * word_bytes;
  }
  static constexpr std::uint64_t pings_of(NodeId peer) { return peers + peer * peer_bytes; }
  static constexpr std::uint64_t replies_of(NodeId peer) { return pings_of(peer) + ring_bytes; }
  static constexpr std::uint64_t messages_of(NodeId peer) { return replies_of(peer) + ring_bytes; }
  static constexpr std::uint64_t slot(std::uint64_t ring, std::uint32_t number) {
    return ring + std::uint64_t{number % ring_slots} * line_bytes;
  }
  [[nodiscard]] std::uint64_t bytes() const { return pings_of(static_cast<NodeId>(nodes)); }
};

std::uint64_t load(const Region& region, std::uint64_t offset) {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(region.at(offset)))
      .load(std::memory_order_acquire);
}

// One node's turn in the schedule: the time span in which it pings its partner over one transport.
struct Turn {
  NodeId peer = 0;
  std::size_t transport = 0;
  Nanos pings_until = 0, until = 0;
};

class PlayerOfNode final : public Player {
 public:
  PlayerOfNode(NodeId node, const Plan& plan) : plan_(plan), layout_{plan.nodes} {
    seen_.node = node;
    seen_.of.resize(plan.nodes);
    known_.resize(std::size_t{plan.nodes} * ring_slots);
    remote_.resize(plan.nodes);
    trips_.reserve(pings_most);
  }
  [[nodiscard]] Result<> open(Fabric& fabric);
  [[nodiscard]] Result<> join(Fabric& fabric) override;
  [[nodiscard]] Worker& worker() override { return *worker_; }
  void begin_at(Nanos start) override { start_ = start; }
  [[nodiscard]] coro::Task<void> play() override;
  [[nodiscard]] NodeSeen seen() const override;

 private:
  [[nodiscard]] bool has(Transport transport) const;
  [[nodiscard]] Seen& of(NodeId peer, Transport transport) {
    return seen_.of[peer][static_cast<std::size_t>(transport)];
  }
  [[nodiscard]] Nanos round_begin(std::uint32_t round) const {
    return start_ + plan_.connect + round * plan_.round;
  }
  [[nodiscard]] WorkRequest read_request(NodeId peer, std::uint32_t slot) const;
  [[nodiscard]] WorkRequest message_request(NodeId peer, Transport transport, Kind kind,
                                            std::uint32_t number) const;
  void post_buffer(std::uint32_t buffer);
  void count_datagram(const Received& got);
  void end_pings(const Turn& turn);

  [[nodiscard]] coro::Task<void> connect_to(NodeId peer);
  [[nodiscard]] coro::Task<void> read_in_turn(Turn turn);
  [[nodiscard]] coro::Task<void> send_in_turn(Turn turn);
  [[nodiscard]] coro::Task<bool> ping_once(NodeId peer, Transport transport, std::uint32_t number,
                                           Nanos until);
  [[nodiscard]] coro::Task<void> reply_to_writes();
  [[nodiscard]] coro::Task<void> receive_datagrams();
  [[nodiscard]] coro::Task<void> take_turns(coro::Scope* reads);

  Plan plan_;
  Layout layout_;
  Worker* worker_ = nullptr;
  Region* region_ = nullptr;
  std::vector<RemoteRegion> remote_;
  Nanos start_ = 0;
  NodeSeen seen_;
  // payload words of the UC pings that were counted, by peer and slot of the peer's ring (number %
  // ring_slots)
  std::vector<std::uint64_t> known_;
  std::vector<Nanos> trips_;  // round trips over UC or UD in the current time span for one partner
};

Result<> PlayerOfNode::open(Fabric& fabric) {
  LOCH_ASSIGN(region_,
              fabric.register_region(seen_.node, {region_name, layout_.bytes(), true, true, false, {}}));
  const WorkerSpec spec{.node = seen_.node,
                        .role = Role::client,
                        .index = 0,
                        .core = -1,
                        .name = "pings",
                        .uses_rc = fabric.capabilities().rc,
                        .receives_rc = false,
                        .receives_uc = false};
  LOCH_ASSIGN(worker_, fabric.add_worker(spec));
  return {};
}

bool PlayerOfNode::has(Transport transport) const {
  const Capabilities& can = worker_->capabilities();
  return transport == Transport::rc ? can.rc : transport == Transport::uc ? can.uc : can.ud;
}

void PlayerOfNode::post_buffer(std::uint32_t buffer) {
  const LocalSlice slice{region_, Layout::buffers + std::uint64_t{buffer} * line_bytes};
  worker_->post_recv(Transport::ud, slice, grh_bytes + word_bytes, buffer);
}

Result<> PlayerOfNode::join(Fabric& fabric) {
  for (std::uint32_t node = 0; node < plan_.nodes; ++node) {
    // The region of a node whose process was lost is not found, and its entry of remote_ stays empty.
    const auto found = fabric.lookup(static_cast<NodeId>(node), region_name);
    if (found) remote_[node] = *found;
  }
  for (const Kind kind : {message, ping, reply}) {
    for (std::uint32_t number = 0; number < numbers; ++number)
      *reinterpret_cast<std::uint64_t*>(region_->at(Layout::source(kind, number))) = word_of(kind, number);
  }
  if (!has(Transport::ud)) return {};
  const std::uint32_t most = std::min(receive_buffers, worker_->capabilities().recv_queue_depth);
  for (std::uint32_t buffer = 0; buffer < most; ++buffer) post_buffer(buffer);
  return {};
}

// ---- Requests ------------------------------------------------------------------------------------

WorkRequest PlayerOfNode::read_request(NodeId peer, std::uint32_t slot) const {
  return one_sided(Verb::read, remote_[peer], Layout::read_source,
                   {region_, Layout::landing + std::uint64_t{slot} * line_bytes}, word_bytes, nullptr);
}

// A message is a WRITE of one word to the peer's memory over UC, and a SEND over UD.
WorkRequest PlayerOfNode::message_request(NodeId peer, Transport transport, Kind kind,
                                          std::uint32_t number) const {
  WorkRequest request;
  request.verb = transport == Transport::ud ? Verb::send : Verb::write;
  request.transport = transport;
  request.peer = peer;
  request.length = word_bytes;
  request.local = {region_, Layout::source(kind, number)};
  request.is_inline = worker_->capabilities().max_inline_bytes >= word_bytes;
  request.remote = remote_[peer];
  const NodeId self = seen_.node;
  request.remote_offset = kind == message ? Layout::messages_of(self) + std::uint64_t{number} * word_bytes
                          : kind == ping  ? Layout::slot(Layout::pings_of(self), number)
                                          : Layout::slot(Layout::replies_of(self), number);
  return request;
}

// ---- The initiator -------------------------------------------------------------------------------

// Connects the queue pairs to a peer before the schedule needs them.
coro::Task<void> PlayerOfNode::connect_to(NodeId peer) {
  if (has(Transport::uc)) {
    const WorkRequest hello = message_request(peer, Transport::uc, message, 0);
    const Completion done = co_await worker_->execute(hello);
    static_cast<void>(done);  // the completion is ignored: a message over UC may be lost
  }
  if (has(Transport::rc)) {
    const WorkRequest request = read_request(peer, 0);
    const Completion done = co_await worker_->execute(request);
    static_cast<void>(done);  // the completion is ignored: a failure shows again when this peer is pinged
  }
}

// For RC: issues single READs, then READs in bursts. This coroutine runs beside the schedule, because a READ
// of a peer that does not answer ends only after all retransmissions.
coro::Task<void> PlayerOfNode::read_in_turn(Turn turn) {
  Seen& seen = of(turn.peer, Transport::rc);
  std::vector<Nanos> trips;
  trips.reserve(pings_most);
  const WorkRequest single = read_request(turn.peer, 0);
  bool is_well = true;
  while (is_well && seen.pings < pings_most && worker_->now() < turn.pings_until) {
    const Nanos sent = worker_->now();
    ++seen.pings;
    const Completion done = co_await worker_->execute(single);
    is_well = done.ok();
    // A reply that comes after the end of this pair's time span is not counted, because other pairs ping by
    // then.
    if (is_well && worker_->now() <= turn.until) trips.push_back(worker_->now() - sent);
  }
  seen.replies = trips.size();
  std::ranges::sort(trips);
  if (!trips.empty()) seen.median = trips[trips.size() / 2];
  std::array<WorkRequest, burst_most> chain;
  const std::span<WorkRequest> used(chain.data(),
                                    std::min(burst_most, worker_->capabilities().send_queue_depth / 2));
  const Nanos began = worker_->now();
  while (is_well && !used.empty() && worker_->now() < turn.until) {
    for (std::uint32_t i = 0; i < used.size(); ++i) {
      used[i] = read_request(turn.peer, i);
      used[i].is_signaled = i + 1 == used.size();
    }
    const WcStatus status = co_await worker_->post_and_wait(used);
    is_well = status == WcStatus::success;
    if (is_well) seen.messages += used.size();
    seen.bursts = worker_->now() - began;
  }
}

// Sends one ping over UC or UD, and waits for its reply. Returns whether the reply came in time.
coro::Task<bool> PlayerOfNode::ping_once(NodeId peer, Transport transport, std::uint32_t number,
                                         Nanos until) {
  const WorkRequest request = message_request(peer, transport, ping, number);
  WatchWord answer{.region = region_,
                   .offset = transport == Transport::ud ? Layout::ud_reply
                                                        : Layout::slot(Layout::replies_of(peer), number),
                   .value = word_of(reply, number)};
  if (transport == Transport::ud) worker_->store_word(*region_, Layout::ud_reply, 0);
  ++of(peer, transport).pings;
  worker_->post_detached(request);
  const Nanos deadline = std::min(until, worker_->now() + plan_.reply);
  const WatchOutcome outcome = co_await worker_->watch(answer, deadline);
  co_return outcome == WatchOutcome::ready;
}

void PlayerOfNode::end_pings(const Turn& turn) {
  Seen& seen = of(turn.peer, transports[turn.transport]);
  seen.replies = trips_.size();
  std::ranges::sort(trips_);
  if (!trips_.empty()) seen.median = trips_[trips_.size() / 2];
}

// For UC and UD: sends single pings, then bursts of messages, each ended by a ping so that the receiver keeps
// up.
coro::Task<void> PlayerOfNode::send_in_turn(Turn turn) {
  const Transport transport = transports[turn.transport];
  Seen& seen = of(turn.peer, transport);
  trips_.clear();
  std::uint32_t pings = 0;
  while (pings < pings_most && worker_->now() < turn.pings_until) {
    const Nanos sent = worker_->now();
    const bool has_reply = co_await ping_once(turn.peer, transport, ++pings, turn.pings_until);
    if (has_reply) trips_.push_back(worker_->now() - sent);
  }
  end_pings(turn);
  const std::uint32_t burst = std::max(1u, std::min({burst_most, worker_->capabilities().recv_queue_depth / 4,
                                                     worker_->capabilities().send_queue_depth / 2}));
  std::uint32_t sent = 0;
  const Nanos began = worker_->now();
  while (sent + burst < numbers && pings + 1 < numbers && worker_->now() < turn.until) {
    for (std::uint32_t i = 0; i < burst; ++i) {
      const WorkRequest request = message_request(turn.peer, transport, message, ++sent);
      worker_->post_detached(request);
    }
    seen.messages += burst;
    const bool has_reply = co_await ping_once(turn.peer, transport, ++pings, turn.until);
    static_cast<void>(has_reply);  // not needed: the receiver's count says how many messages were lost
    seen.bursts = worker_->now() - began;
  }
}

// ---- The partner, which replies to pings ---------------------------------------------------------

// Replies to the partner's pings over UC.
coro::Task<void> PlayerOfNode::reply_to_writes() {
  for (std::uint32_t round = 0; round < rounds_of(plan_.nodes); ++round) {
    const std::optional<NodeId> peer = partner_of(plan_.nodes, round, seen_.node);
    if (!peer || remote_[*peer].bytes == 0) continue;
    const Nanos end = round_begin(round + 1);
    std::uint64_t* const known = &known_[std::size_t{*peer} * ring_slots];
    const WatchSet pings{.region = region_,
                         .offset = Layout::pings_of(*peer),
                         .stride = line_bytes,
                         .count = ring_slots,
                         .ready = [](void*, std::uint32_t, std::uint64_t word) { return is_whole(word); },
                         .known = known};
    std::uint32_t next = 0;
    while (worker_->now() < end) {
      const WatchAny found = co_await worker_->watch_any(pings, next, end);
      if (found.outcome != WatchOutcome::ready) break;
      const std::uint64_t word = load(*region_, pings.offset + std::uint64_t{found.index} * line_bytes);
      // The peer may have replaced the word since watch_any() saw it change.
      if (!is_whole(word) || word == known[found.index]) continue;
      known[found.index] = word;
      next = (found.index + 1) % ring_slots;
      ++of(*peer, Transport::uc).arrived;
      const WorkRequest request = message_request(*peer, Transport::uc, reply, number_of(word));
      worker_->post_detached(request);
    }
  }
}

void PlayerOfNode::count_datagram(const Received& got) {
  const std::uint64_t word = load(*region_, got.buffer.offset + grh_bytes);
  if (got.from >= plan_.nodes || got.length != word_bytes || !is_whole(word)) return;
  if (number_of(word) >= numbers) return;
  if (kind_of_word(word) == reply) {
    worker_->store_word(*region_, Layout::ud_reply, word);
    return;
  }
  ++of(got.from, Transport::ud).arrived;
  if (kind_of_word(word) != ping || remote_[got.from].bytes == 0) return;
  const WorkRequest request = message_request(got.from, Transport::ud, reply, number_of(word));
  worker_->post_detached(request);
}

coro::Task<void> PlayerOfNode::receive_datagrams() {
  const Nanos end = start_ + plan_.length();
  while (worker_->now() < end) {
    const Received got = co_await worker_->receive(Transport::ud, end);
    if (got.outcome != Received::Outcome::message) co_return;
    count_datagram(got);
    post_buffer(static_cast<std::uint32_t>(got.user));
  }
}

// ---- The schedule of rounds ----------------------------------------------------------------------

// In each round of the schedule, the two nodes of a pair ping one after the other, the node with the lower
// number first. Each transport gets the same share of the time.
coro::Task<void> PlayerOfNode::take_turns(coro::Scope* reads) {
  std::vector<Transport> used;
  for (const Transport transport : transports) {
    if (has(transport)) used.push_back(transport);
  }
  if (used.empty()) co_return;
  const Nanos length = plan_.round / 2 / static_cast<Nanos>(used.size());
  for (std::uint32_t round = 0; round < rounds_of(plan_.nodes); ++round) {
    const std::optional<NodeId> peer = partner_of(plan_.nodes, round, seen_.node);
    if (!peer || remote_[*peer].bytes == 0) continue;
    Nanos begin = round_begin(round) + (seen_.node < *peer ? 0 : plan_.round / 2);
    for (const Transport transport : used) {
      co_await worker_->sleep_until(begin);
      const Turn turn{.peer = *peer,
                      .transport = static_cast<std::size_t>(transport),
                      .pings_until = begin + length / 2,
                      .until = begin + length - length / 10};
      begin += length;
      if (worker_->now() >= turn.until) continue;  // this node was late, and the partner's turn is next
      if (transport == Transport::rc) {
        reads->spawn(read_in_turn(turn));
      } else {
        co_await send_in_turn(turn);
      }
    }
  }
}

coro::Task<void> PlayerOfNode::play() {
  if (start_ == 0) {
    const WatchWord told{.region = region_, .offset = Layout::start, .value = 0, .until_equal = false};
    const Nanos patience = worker_->now() + 20'000'000'000;
    const WatchOutcome outcome = co_await worker_->watch(told, patience);
    if (outcome != WatchOutcome::ready) co_return;
    start_ = static_cast<Nanos>(load(*region_, Layout::start));
  }
  coro::Scope others(worker_->run_queue());
  for (std::uint32_t peer = 0; peer < plan_.nodes; ++peer) {
    if (peer != seen_.node && remote_[peer].bytes != 0) others.spawn(connect_to(static_cast<NodeId>(peer)));
  }
  if (has(Transport::uc)) others.spawn(reply_to_writes());
  if (has(Transport::ud)) others.spawn(receive_datagrams());
  co_await take_turns(&others);
  co_await worker_->sleep_until(start_ + plan_.length());
  co_await others.join();
}

NodeSeen PlayerOfNode::seen() const {
  NodeSeen all = seen_;
  for (std::uint32_t from = 0; from < plan_.nodes; ++from) {
    Seen& uc = all.of[from][static_cast<std::size_t>(Transport::uc)];
    const auto peer = static_cast<NodeId>(from);
    for (std::uint32_t number = 1; number < numbers; ++number) {
      const std::uint64_t word =
          load(*region_, Layout::messages_of(peer) + std::uint64_t{number} * word_bytes);
      if (is_whole(word)) ++uc.arrived;
    }
    for (std::uint32_t slot = 0; slot < ring_slots; ++slot) {  // counts pings that came after their round
      const std::uint64_t word = load(*region_, Layout::slot(Layout::pings_of(peer), slot));
      if (is_whole(word) && word != known_[std::size_t{from} * ring_slots + slot]) ++uc.arrived;
    }
  }
  return all;
}

}  // namespace

Nanos Plan::length() const { return connect + rounds_of(nodes) * round + drain; }

Result<std::unique_ptr<Player>> Player::make(Fabric& fabric, NodeId node, const Plan& plan) {
  auto player = std::make_unique<PlayerOfNode>(node, plan);
  LOCH_TRY(player->open(fabric));
  return player;
}

Result<> start_at(Fabric& fabric, NodeId node, Nanos start) {
  Region* region = fabric.direct(node, region_name);
  if (region == nullptr)
    return fail(ErrorCode::unsupported, fmt::format("the memory of node {} is not accessible", node));
  std::atomic_ref(*reinterpret_cast<std::uint64_t*>(region->at(Layout::start)))
      .store(static_cast<std::uint64_t>(start), std::memory_order_release);
  return {};
}

}  // namespace loch::fabric::ping
