// The client's side of a message channel.
#include <algorithm>

#include "common/base/probe.h"
#include "common/rpc/message_buffers.h"
#include "common/rpc/message_channel.h"

namespace loch::rpc {

using fabric::Transport;

// Waits until the NIC has completed the SEND of this lane (window slot).
class MessageClient::Sent {
 public:
  explicit Sent(Lane* lane) : lane_(lane) {}
  bool await_ready() const noexcept { return !lane_->is_sending; }
  void await_suspend(std::coroutine_handle<> waiter) noexcept { lane_->sender = waiter; }
  void await_resume() const noexcept {}

 private:
  Lane* lane_;
};

// Suspends a lane (window slot) while another lane receives for all lanes.
class MessageClient::Park {
 public:
  explicit Park(Lane* lane) : lane_(lane) {}
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiter) noexcept { lane_->parked = waiter; }
  void await_resume() const noexcept {}

 private:
  Lane* lane_;
};

MessageClient::MessageClient(const MessageShape& shape, const MessageRegions& regions, fabric::Worker& worker)
    : shape_(shape), regions_(regions), worker_(worker) {
  for (std::uint32_t i = 0; i < shape.window; ++i) {
    auto lane = std::make_unique<Lane>();
    lane->client = this;
    lane->index = i;
    lane->fn = [](fabric::CompletionSink* self, fabric::WorkRequest&) {
      auto* done = static_cast<Lane*>(self);
      done->is_sending = false;
      if (done->sender) done->client->worker_.run_queue().push(std::exchange(done->sender, {}));
    };
    lanes_.push_back(std::move(lane));
  }
}

void MessageClient::post_receives() {
  has_posted_ = true;
  const std::uint64_t first = std::uint64_t{worker_.index()} * shape_.client_receives();
  for (std::uint32_t i = 0; i < shape_.client_receives(); ++i)
    detail::post_receive(shape_, regions_, worker_, first + i);
}

void MessageClient::repost(const fabric::Received& message) {
  detail::post_receive(shape_, regions_, worker_, message.user);
}

std::byte* MessageClient::request(std::uint32_t lane) {
  Lane& own = *lanes_.at(lane);
  LOCH_CHECK(!own.is_waiting && !own.is_sending, "lane {} has a request outstanding", lane);
  if (std::exchange(own.holds, false)) repost(own.held);
  const std::uint64_t slot = std::uint64_t{worker_.index()} * shape_.window + lane;
  return regions_.send->at(slot * shape_.stride() + MessageShape::head);
}

coro::Task<bool> MessageClient::connect(fabric::NodeId peer, Nanos deadline) {
  if (shape_.transport != Transport::rc || worker_.connected(peer)) co_return true;
  LOCH_PROBE("rpc.message.reconnect");
  ++counters_.reconnects;
  const bool is_back = co_await worker_.reconnect(peer, deadline);
  co_return is_back;
}

// Sends a request. False: the SEND completed with an error, and the request may have arrived all the same.
coro::Task<bool> MessageClient::send(Lane* lane, MessageTag tag, std::uint32_t length,
                                     fabric::OpStats* stats) {
  const std::uint64_t slot = std::uint64_t{worker_.index()} * shape_.window + lane->index;
  const std::uint32_t server = shape_.server_worker(lane->to.index);
  lane->request = detail::message_to(shape_, regions_, slot, lane->to.node, server, tag, length);
  lane->request.stats = stats;
  lane->request.is_inline = shape_.is_inline && length <= worker_.capabilities().max_inline_bytes;
  if (lane->request.is_inline && !shape_.signals_every) {
    worker_.post_detached(lane->request);
    co_return true;
  }
  lane->request.sink = lane;
  lane->is_sending = true;
  worker_.post(&lane->request);
  co_await Sent(lane);
  co_return lane->request.status == fabric::WcStatus::success;
}

coro::Task<Reply> MessageClient::call(std::uint32_t lane, ServerAddress to, std::uint8_t op,
                                      std::uint32_t length, fabric::OpStats* stats) {
  LOCH_CHECK_LE(length, shape_.request_bytes);
  if (!has_posted_) post_receives();
  Lane* const own = lanes_.at(lane).get();
  const std::uint32_t server = std::uint32_t{to.node} << 16 | to.index;
  const auto known = own->last_number.emplace(server, shape_.first_number);
  std::uint32_t& last = known.first->second;
  last = (last + 1) & MessageTag::number_mask;
  if (last == 0) LOCH_PROBE("rpc.message.number-wrapped");
  own->to = to;
  own->number = last;
  own->deadline = fabric::forever;
  own->is_answered = own->is_refused = false;
  own->is_waiting = true;
  const MessageTag tag{op, static_cast<std::uint8_t>(lane), own->number, incarnations_[server],
                       regions_.incarnation};
  const Nanos give_up = worker_.now() + shape_.patience;
  Reply reply{.outcome = Reply::Outcome::not_sent};
  for (;;) {
    const Nanos by = std::min(give_up, worker_.now() + shape_.reconnect_timeout);
    const bool is_up = co_await connect(to.node, by);
    bool is_sent = false;
    if (is_up) {
      reply.outcome = Reply::Outcome::no_answer;
      is_sent = co_await send(own, tag, length, stats);
    }
    if (is_sent) {
      const Nanos until = std::min(give_up, worker_.now() + shape_.reply_timeout);
      co_await await_reply(own, until);
    }
    if (own->is_answered || worker_.now() >= give_up || worker_.stopping()) break;
    LOCH_PROBE("rpc.message.sent-again");
    ++reply.retries;
    ++counters_.retries;
  }
  own->is_waiting = false;
  if (own->is_refused) {
    LOCH_PROBE("rpc.message.server-reborn");
    incarnations_[server] = !tag.server_incarnation;
    if (shape_.flaws.refused_is_unsent) reply.outcome = Reply::Outcome::not_sent;
    co_return reply;
  }
  if (!own->is_answered) {
    LOCH_PROBE("rpc.message.no-answer");
    co_return reply;
  }
  worker_.attribute(own->held, shape_.transport, stats);
  reply.outcome = Reply::Outcome::answered;
  reply.data = detail::payload_of(shape_, regions_, own->held);
  reply.length = own->held.length;
  co_return reply;
}

// Waits for the reply to the request of this lane (window slot). One of the waiting lanes receives for all,
// while the others are suspended.
coro::Task<void> MessageClient::await_reply(Lane* lane, Nanos deadline) {
  lane->deadline = deadline;
  while (!lane->is_answered && worker_.now() < deadline && !worker_.stopping()) {
    if (is_led_) {
      co_await Park(lane);
      continue;
    }
    is_led_ = true;
    const Nanos until = earliest_deadline();
    const fabric::Received got = co_await worker_.receive(shape_.transport, until);
    is_led_ = false;
    if (got.outcome == fabric::Received::Outcome::message) take(got);
    wake_ready();
  }
  if (!is_led_) wake_leader();
}

void MessageClient::take(const fabric::Received& message) {
  const MessageTag tag = MessageTag::unpack(message.immediate);
  Lane* lane = message.has_immediate && tag.lane < lanes_.size() ? lanes_[tag.lane].get() : nullptr;
  const bool is_wanted = lane != nullptr && lane->is_waiting && !lane->is_answered &&
                         (tag.number == lane->number || shape_.flaws.takes_any_number) &&
                         message.from == lane->to.node &&
                         message.from_worker == shape_.server_worker(lane->to.index) &&
                         tag.client_incarnation == regions_.incarnation;
  if (!is_wanted) {
    LOCH_PROBE("rpc.message.stray");
    ++counters_.strays;
    return repost(message);
  }
  lane->is_answered = true;
  lane->is_refused = tag.op == MessageTag::refusal;
  lane->holds = true;
  lane->held = message;
}

void MessageClient::wake_ready() {
  const Nanos now = worker_.now();
  for (const auto& lane : lanes_) {
    if (!lane->parked || !(lane->is_answered || lane->deadline <= now || worker_.stopping())) continue;
    worker_.run_queue().push(std::exchange(lane->parked, {}));
  }
}

void MessageClient::wake_leader() {
  for (const auto& lane : lanes_) {
    if (lane->parked) return worker_.run_queue().push(std::exchange(lane->parked, {}));
  }
}

Nanos MessageClient::earliest_deadline() const {
  Nanos earliest = fabric::forever;
  for (const auto& lane : lanes_) {
    if (lane->is_waiting) earliest = std::min(earliest, lane->deadline);
  }
  return earliest;
}

}  // namespace loch::rpc
