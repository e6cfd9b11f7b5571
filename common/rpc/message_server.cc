// The server's side of a message channel.
#include <algorithm>
#include <cstring>

#include "common/base/probe.h"
#include "common/rpc/message_buffers.h"
#include "common/rpc/message_channel.h"

namespace loch::rpc {

using fabric::Transport;

// Waits until the NIC has completed the SEND of the next reply buffer.
class MessageServer::BufferFree {
 public:
  explicit BufferFree(MessageServer* server) : server_(server) {}
  bool await_ready() const noexcept { return !server_->buffers_[server_->next_buffer_]->is_sending; }
  void await_suspend(std::coroutine_handle<> waiter) noexcept { server_->waits_for_buffer_ = waiter; }
  void await_resume() const noexcept {}

 private:
  MessageServer* server_;
};

MessageServer::MessageServer(const MessageShape& shape, const MessageRegions& regions, fabric::Worker& worker,
                             std::uint32_t index, ServerMemory& memory)
    : shape_(shape),
      regions_(regions),
      worker_(worker),
      send_base_(shape.lanes() + std::uint64_t{index} * shape.reply_buffers),
      receive_base_(std::uint64_t{shape.client_workers} * shape.client_receives() +
                    std::uint64_t{index} * shape.server_receives()),
      memory_(memory),
      is_connecting_(shape.nodes),
      scope_(worker.run_queue()) {
  memory.last.resize(std::size_t{shape.nodes} * shape.lanes());
  for (std::uint32_t i = 0; i < shape.reply_buffers; ++i) {
    auto buffer = std::make_unique<Buffer>();
    buffer->server = this;
    buffer->fn = [](fabric::CompletionSink* self, fabric::WorkRequest&) {
      auto* done = static_cast<Buffer*>(self);
      done->is_sending = false;
      MessageServer& server = *done->server;
      const bool is_awaited = done == server.buffers_[server.next_buffer_].get();
      if (is_awaited && server.waits_for_buffer_)
        server.worker_.run_queue().push(std::exchange(server.waits_for_buffer_, {}));
    };
    buffers_.push_back(std::move(buffer));
  }
}

void MessageServer::post_receives() {
  memory_.has_posted = true;
  const std::uint32_t count = std::min(shape_.server_receives(), worker_.capabilities().recv_queue_depth);
  for (std::uint32_t i = 0; i < count; ++i)
    detail::post_receive(shape_, regions_, worker_, receive_base_ + i);
}

void MessageServer::repost(const fabric::Received& message) {
  detail::post_receive(shape_, regions_, worker_, message.user);
}

bool MessageServer::is_sane(const fabric::Received& message) const {
  return message.has_immediate && message.from < shape_.nodes && message.length <= shape_.request_bytes &&
         message.from_worker < shape_.client_workers &&
         MessageTag::unpack(message.immediate).lane < shape_.window;
}

MessageServer::Last& MessageServer::last_of(const fabric::Received& message, std::uint8_t lane) {
  const std::size_t worker = std::size_t{message.from} * shape_.client_workers + message.from_worker;
  return memory_.last[worker * shape_.window + lane];
}

MessageServer::Verdict MessageServer::judge(const Last& last, MessageTag tag) const {
  // A request whose number is behind the last number of its lane (window slot) by more than this comes from a
  // restarted client.
  constexpr std::uint32_t held_back = 64;
  const bool is_its =
      last.client_incarnation == tag.client_incarnation || shape_.flaws.ignores_client_incarnation;
  if (!last.is_known || !is_its) return Verdict::execute;
  const std::uint32_t behind = (last.number - tag.number) & MessageTag::number_mask;
  if (behind == 0) return Verdict::again;
  return behind <= held_back ? Verdict::stale : Verdict::execute;
}

coro::Task<Incoming> MessageServer::next(Nanos deadline) {
  if (!memory_.has_posted) post_receives();
  for (;;) {
    const fabric::Received got = co_await worker_.receive(shape_.transport, deadline);
    Incoming request;
    if (got.outcome != fabric::Received::Outcome::message) {
      const bool is_late = got.outcome == fabric::Received::Outcome::timed_out;
      request.outcome = is_late ? Incoming::Outcome::timed_out : Incoming::Outcome::stopping;
      co_return request;
    }
    if (!is_sane(got)) {
      ++counters_.strays;
      repost(got);
      continue;
    }
    request.message = got;
    request.tag = MessageTag::unpack(got.immediate);
    request.op = request.tag.op;
    request.data = detail::payload_of(shape_, regions_, got);
    request.length = got.length;
    if (request.tag.server_incarnation != regions_.incarnation && !shape_.flaws.ignores_server_incarnation) {
      co_await refuse(request);
      continue;
    }
    const Last& last = last_of(got, request.tag.lane);
    const Verdict verdict = shape_.drops_duplicates ? judge(last, request.tag) : Verdict::execute;
    if (verdict == Verdict::stale) {
      LOCH_PROBE("rpc.message.request-stale");
      ++counters_.stale;
      repost(got);
      continue;
    }
    if (verdict == Verdict::again) {
      LOCH_PROBE("rpc.message.request-repeated");
      ++counters_.duplicates;
    }
    if (verdict == Verdict::again && last.is_kept) {
      co_await answer_again(request, &last);
      continue;
    }
    co_return request;
  }
}

// Refuses a request that was addressed to this node's earlier incarnation, which may have executed it.
coro::Task<void> MessageServer::refuse(Incoming request) {
  std::byte* const out = co_await reply_buffer();
  static_cast<void>(out);
  MessageTag tag = request.tag;
  tag.op = MessageTag::refusal;
  transmit(request.message, tag, 0);
  repost(request.message);
}

coro::Task<void> MessageServer::answer_again(Incoming request, const Last* last) {
  std::byte* const out = co_await reply_buffer();
  std::memcpy(out, last->bytes, last->length);
  MessageTag tag = request.tag;
  tag.op = 0;
  transmit(request.message, tag, last->length);
  repost(request.message);
}

coro::Task<std::byte*> MessageServer::reply_buffer() {
  co_await BufferFree(this);
  co_return regions_.send->at((send_base_ + next_buffer_) * shape_.stride() + MessageShape::head);
}

void MessageServer::reply(const Incoming& to, std::uint32_t length) {
  LOCH_CHECK_LE(length, shape_.reply_bytes);
  Last& last = last_of(to.message, to.tag.lane);
  last.is_known = true;
  last.number = to.tag.number;
  last.client_incarnation = to.tag.client_incarnation;
  last.is_kept = length <= ServerMemory::most_kept;
  last.length = length;
  const std::uint64_t at = (send_base_ + next_buffer_) * shape_.stride() + MessageShape::head;
  if (last.is_kept) std::memcpy(last.bytes, regions_.send->at(at), length);
  ++counters_.served;
  MessageTag tag = to.tag;
  tag.op = 0;
  transmit(to.message, tag, length);
  repost(to.message);
}

void MessageServer::drop(const Incoming& request) {
  ++counters_.replies_lost;
  repost(request.message);
}

// Sends the next reply buffer if the client can be reached; otherwise the client will repeat its request.
void MessageServer::transmit(const fabric::Received& to, MessageTag tag, std::uint32_t length) {
  if (shape_.transport == Transport::rc && !worker_.connected(to.from)) {
    LOCH_PROBE("rpc.message.reply-unsent");
    ++counters_.replies_lost;
    if (!is_connecting_[to.from]) {
      is_connecting_[to.from] = true;
      scope_.spawn(connect(to.from));
    }
    return;
  }
  Buffer& buffer = *buffers_[next_buffer_];
  buffer.request =
      detail::message_to(shape_, regions_, send_base_ + next_buffer_, to.from, to.from_worker, tag, length);
  buffer.request.is_inline = shape_.is_inline && length <= worker_.capabilities().max_inline_bytes;
  if (buffer.request.is_inline && !shape_.signals_every) return worker_.post_detached(buffer.request);
  buffer.request.sink = &buffer;
  buffer.is_sending = true;
  next_buffer_ = (next_buffer_ + 1) % shape_.reply_buffers;
  worker_.post(&buffer.request);
}

coro::Task<void> MessageServer::connect(fabric::NodeId peer) {
  const Nanos deadline = worker_.now() + shape_.reconnect_timeout;
  LOCH_PROBE("rpc.message.server-reconnects");
  const bool is_back = co_await worker_.reconnect(peer, deadline);
  counters_.reconnects += is_back ? 1 : 0;
  is_connecting_[peer] = false;
}

coro::Task<void> MessageServer::close() {
  co_await scope_.join();
  for (std::uint32_t i = 0; i < shape_.reply_buffers; ++i) {
    co_await BufferFree(this);
    next_buffer_ = (next_buffer_ + 1) % shape_.reply_buffers;
  }
}

}  // namespace loch::rpc
