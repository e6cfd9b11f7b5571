// Sends replies as datagrams in posting lists with one doorbell each, and receives them for all slots of a
// client worker.
#include "common/rpc/datagram.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace loch::rpc {

DatagramSender::DatagramSender(fabric::Worker& worker, const DatagramShape& shape, fabric::Region& region,
                               std::uint64_t at)
    : worker_(worker), shape_(shape) {
  const fabric::Capabilities& can = worker.capabilities();
  LOCH_CHECK(shape.lanes > 0 && shape.list_most > 0 && shape.signal_every > 0, "a sender of nothing");
  // If the device has as many UD queue pairs as the sender has lanes (streams of posting lists), each lane
  // has its own send queue; otherwise several lanes share one.
  const std::uint32_t queue_pairs = std::min<std::uint32_t>(shape.lanes, can.datagram_queue_pairs);
  depth_ = std::min(shape.queue_depth, queue_pairs * can.send_queue_depth) / shape.lanes;
  LOCH_CHECK_GE(depth_, 2U);
  shape_.signal_every = std::min(shape.signal_every, depth_ / 2);
  shape_.list_most = std::min(shape.list_most, depth_);
  shape_.inline_below = std::min(shape.inline_below, can.max_inline_bytes + 1);
  lines_.resize(shape.lanes);
  for (Line& line : lines_) {
    line.ring.resize(depth_);
    for (std::uint32_t place = 0; place < depth_; ++place) {
      Entry& entry = line.ring[place];
      entry.fn = &DatagramSender::completed;
      entry.sender = this;
      entry.line = &line;
      entry.place = place;
      entry.following = &line.ring[place + 1 == depth_ ? 0 : place + 1];
      entry.request.verb = fabric::Verb::send;
      entry.request.transport = fabric::Transport::ud;
      entry.request.is_signaled = false;
      entry.request.lane = static_cast<std::uint8_t>(&line - lines_.data());
      entry.request.local = {&region, at};
      at += shape_.stride();
    }
    line.next = line.ring.data();
    line.following = &line == &lines_.back() ? lines_.data() : &line + 1;
  }
  line_ = lines_.data();
}

DatagramSender::Room DatagramSender::room() {
  flush();
  return Room(*this);
}

void DatagramSender::send(DatagramAddress to, std::uint32_t length, bool has_immediate,
                          std::uint32_t immediate) {
  Line& line = *line_;
  if (length > shape_.message_bytes || line.used >= depth_) [[unlikely]]
    refuse(length);
  Entry& entry = *line.next;
  line.next = entry.following;
  ++line.used;
  fabric::WorkRequest& request = entry.request;
  request.peer = to.node;
  request.peer_worker = to.worker;
  request.length = length;
  const bool is_inline = length < shape_.inline_below;
  request.is_inline = is_inline;
  request.has_immediate = has_immediate;
  request.immediate = immediate;
  if (++line.since_signaled >= shape_.signal_every) [[unlikely]] {
    request.is_signaled = true;
    request.sink = &entry;
    line.since_signaled = 0;
    ++counts_.signaled;
  }
  *end_ = &request;
  end_ = &request.next;
  counts_.inlined += is_inline ? 1 : 0;
  if (++listed_ >= shape_.list_most) post_list();
}

void DatagramSender::refuse(std::uint32_t length) const {
  LOCH_CHECK(length <= shape_.message_bytes && line_->used < depth_,
             "a datagram of {} bytes, {} outstanding of {}", length, line_->used, depth_);
  std::unreachable();
}

void DatagramSender::post_list() {
  ++counts_.lists;
  counts_.sent += listed_;
  *end_ = nullptr;
  end_ = &first_;
  listed_ = 0;
  line_ = line_->following;
  worker_.post(first_);
}

// A completion shows that its SEND and all SENDs posted before that one on the same queue pair have ended, so
// that their entries of the send queue are free.
void DatagramSender::completed(fabric::CompletionSink* sink, fabric::WorkRequest& done) {
  Entry& entry = *static_cast<Entry*>(sink);
  DatagramSender& sender = *entry.sender;
  Line& line = *entry.line;
  if (done.status != fabric::WcStatus::success) ++sender.counts_.failed;
  done.is_signaled = false;
  done.sink = nullptr;
  const std::uint32_t before = entry.place - line.oldest + (entry.place < line.oldest ? sender.depth_ : 0);
  line.used -= std::min(before + 1, line.used);
  line.oldest = entry.place + 1 == sender.depth_ ? 0 : entry.place + 1;
  if (sender.waiter_ && sender.has_room()) sender.worker_.run_queue().push(std::exchange(sender.waiter_, {}));
}

ReplyDesk::ReplyDesk(fabric::Worker& worker, const Shape& shape, fabric::Region& region, std::uint64_t at,
                     DatagramReader& reader)
    : worker_(worker), shape_(shape), region_(region), at_(at), reader_(reader), waiters_(shape.waiters) {
  shape_.buffers = std::min(shape.buffers, worker.capabilities().recv_queue_depth);
  LOCH_CHECK(shape_.buffers > 0 && shape.waiters > 0, "nobody to receive for");
  for (std::uint32_t buffer = 0; buffer < shape_.buffers; ++buffer) post(buffer);
}

void ReplyDesk::post(std::uint32_t buffer) {
  const std::uint64_t at = at_ + std::uint64_t{buffer} * shape_.stride();
  worker_.post_recv(fabric::Transport::ud, {&region_, at}, shape_.stride(), buffer);
}

void ReplyDesk::take(const fabric::Received& message) {
  const std::byte* payload = message.length > 0 ? message.buffer.data() + grh_bytes : nullptr;
  const std::optional<std::uint32_t> whose = reader_.read(message, payload);
  post(static_cast<std::uint32_t>(message.user));
  if (!whose) return;
  Waiter& waiter = waiters_[*whose];
  waiter.is_answered = true;
  if (waiter.parked) wake(waiter, Wake::answered);
}

void ReplyDesk::unlist(Waiter& waiter) {
  (waiter.sooner != nullptr ? waiter.sooner->later : soonest_) = waiter.later;
  (waiter.later != nullptr ? waiter.later->sooner : latest_) = waiter.sooner;
}

void ReplyDesk::wake(Waiter& waiter, Wake why) {
  unlist(waiter);
  waiter.wake = why;
  worker_.run_queue().push(std::exchange(waiter.parked, {}));
}

void ReplyDesk::wake_expired(Nanos now) {
  if (soonest_ == nullptr || soonest_->deadline > now) return;
  for (Waiter& waiter : waiters_) {
    if (waiter.parked && waiter.deadline <= now) wake(waiter, Wake::timed_out);
  }
}

// Called when the coroutine that receives messages on behalf of all waiting coroutines stops: another waiting
// coroutine takes over.
void ReplyDesk::resign() {
  is_led_ = false;
  for (Waiter& waiter : waiters_) {
    if (!waiter.parked) continue;
    is_led_ = true;
    return wake(waiter, Wake::leads);
  }
}

Nanos ReplyDesk::earliest(Nanos deadline, Nanos now) const {
  const Nanos first = std::min(deadline, now + shape_.slice);
  return soonest_ != nullptr ? std::min(first, soonest_->deadline) : first;
}

coro::Task<ReplyDesk::Outcome> ReplyDesk::wait(std::uint32_t waiter, Nanos deadline) {
  const Outcome parked = co_await park(waiter, deadline);
  if (parked != Outcome::leads) co_return parked;
  co_return co_await lead(waiter, deadline);
}

// Receives messages on behalf of all waiters until the reply for waiter `index` has come. Reads the clock
// once for each message.
coro::Task<ReplyDesk::Outcome> ReplyDesk::lead(std::uint32_t index, Nanos deadline) {
  Waiter& self = waiters_[index];
  is_led_ = true;
  Outcome outcome = Outcome::answered;
  Nanos now = worker_.now();
  while (!self.is_answered) {
    const Nanos until = earliest(deadline, now);
    const fabric::Received message = co_await worker_.receive(fabric::Transport::ud, until);
    if (message.outcome == fabric::Received::Outcome::stopping) {
      outcome = Outcome::stopping;
      break;
    }
    if (message.outcome == fabric::Received::Outcome::message) take(message);
    now = worker_.now();
    wake_expired(now);
    if (!self.is_answered && now >= deadline) {
      outcome = Outcome::timed_out;
      break;
    }
  }
  resign();
  co_return outcome;
}

}  // namespace loch::rpc
