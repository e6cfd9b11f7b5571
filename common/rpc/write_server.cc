// Polls request slots, has each request executed once, and WRITEs replies.
#include "common/rpc/write_server.h"

#include "common/base/probe.h"
#include "common/fabric/memory.h"

namespace loch::rpc {
WriteServer::WriteServer(const WriteChannel& channel, fabric::Worker& worker, std::uint32_t index)
    : channel_(channel),
      config_(channel.config()),
      worker_(worker),
      node_(channel.local(worker.node())),
      index_(index),
      arrival_(channel.arrival(worker)),
      row_(config_.parties.row(worker.node(), index)),
      known_of_node_(node_.known.at(index)),
      known_(*known_of_node_),
      accepted_(config_.parties.columns()),
      peers_(channel.peers()),
      is_repairing_(config_.parties.nodes) {
  for (std::uint32_t column = 0; column < config_.parties.columns(); ++column)
    lanes_.push_back(lane_of(column));
}

WriteServer::Lane WriteServer::lane_of(std::uint32_t column) const {
  Lane lane;
  lane.node = config_.parties.node_of(column);
  lane.is_local = lane.node == worker_.node();
  lane.request_end = channel_.request_grid().message(index_, column, 0);
  lane.reply_end = channel_.reply_grid().message(row_, config_.parties.lane_of(column), 0);
  const std::uint32_t staged = config_.flaws.shares_reply_buffer ? 0 : column;
  lane.replies = lane.is_local ? node_.replies : node_.staged_replies;
  lane.staged_end = lane.is_local ? lane.reply_end : channel_.staged_reply_grid().message(index_, staged, 0);
  return lane;
}

coro::Task<void> WriteServer::run(Handler* handler) {
  coro::Scope repairs(worker_.run_queue());
  repairs_ = &repairs;
  fabric::WatchSet slots = channel_.request_grid().watch(*node_.requests, index_, &has_request, this);
  slots.known = known_.seen();
  const bool looks_ahead = handler->looks_ahead() && !worker_.capabilities().simulated;
  std::uint32_t start = 0;
  for (;;) {
    const fabric::WatchAny news = co_await worker_.watch_any(slots, start);
    if (news.outcome != fabric::WatchOutcome::ready) break;
    start = news.index + 1 == slots.count ? 0 : news.index + 1;
    const std::uint32_t column = news.index;
    const bool is_charged = arrival_ == Arrival::by_check && !is_local(column);
    Request request;
    const std::uint64_t sequence = fetch(column, request);
    if (is_charged) co_await worker_.compute(worker_.costs().hash(request.bytes));
    if (is_due(column, sequence, request)) [[likely]] {
      const std::uint8_t code = co_await handler->handle(request, place(column));
      known_.executed(column, sequence, config_.reply_bytes[code]);
      if (is_charged) co_await worker_.compute(worker_.costs().hash(config_.reply_bytes[code]));
      if (looks_ahead) announce(*handler, start);
      answer(column, sequence, code);
    } else if (must_answer_again_) {
      co_await answer_again(column);
    }
    if (handler->has_more()) co_await handler->finish();
  }
  co_await repairs.join();
  repairs_ = nullptr;
}

bool WriteServer::has_request(void* self, std::uint32_t column, std::uint64_t word) {
  auto& server = *static_cast<WriteServer*>(self);
  if (!server.known_.is_news(column, word)) return false;
  const std::uint32_t bytes = server.config_.request_bytes[Trailer::unpack(word).code];
  if (bytes == 0) return false;
  const Arrival by = server.is_local(column) ? Arrival::by_trailer : server.arrival_;
  if (!is_whole(*server.node_.requests, server.lanes_[column].request_end - bytes, bytes, word, by))
    return false;
  server.accepted_[column] = word;
  return true;
}

// The full sequence number of the request in a column. A new request stays in its slot until its reply, so
// the frame in the slot holds the number. A repeated request may have been answered already, and the client
// may be writing the next one into the slot; then only the polled trailer word is reliable.
std::uint64_t WriteServer::sequence_of(std::uint32_t column, Trailer trailer) const {
  const std::uint64_t at = lanes_[column].request_end - request_tail_bytes;
  const std::uint64_t in_full = fabric::load_word(node_.requests->at(at));
  if (static_cast<std::uint16_t>(in_full) == trailer.sequence || config_.flaws.rereads_slot) return in_full;
  return extend_sequence(known_.last(column), trailer.sequence);
}

void WriteServer::announce(Handler& handler, std::uint32_t column) const {
  const std::uint64_t end = lanes_[column].request_end;
  const std::uint64_t word = fabric::load_word(node_.requests->at(end - trailer_bytes));
  if (!known_.is_news(column, word)) return;
  const std::uint8_t code = Trailer::unpack(word).code;
  const std::uint32_t bytes = config_.request_bytes[code];
  if (bytes == 0 || code == take_over_code) return;
  handler.expect({.code = code, .frame = {node_.requests, end - bytes}, .bytes = bytes});
}

std::uint64_t WriteServer::fetch(std::uint32_t column, Request& request) {
  const std::uint64_t end = lanes_[column].request_end;
  std::uint64_t word = accepted_[column];
  if (config_.flaws.rereads_slot) word = fabric::load_word(node_.requests->at(end - trailer_bytes));
  const Trailer trailer = Trailer::unpack(word);
  request.code = trailer.code;
  request.bytes = config_.request_bytes[request.code];
  request.frame = {node_.requests, end - request.bytes};
  known_.looked_at(column, word);
  return sequence_of(column, trailer);
}

bool WriteServer::is_due(std::uint32_t column, std::uint64_t sequence, const Request& request) {
  const Freshness freshness = known_.judge(column, sequence);
  must_answer_again_ = false;
  if (freshness == Freshness::stale) {
    ++counts_.stale;
    return false;
  }
  if (freshness == Freshness::repeated && !config_.flaws.executes_repeated) {
    LOCH_PROBE("rpc.write.request-repeated");
    ++counts_.repeated;
    must_answer_again_ = true;
    return false;
  }
  if (request.code == take_over_code) {
    // A restarted client takes its slot over. No request of its earlier incarnation is still being executed
    // here, because the server worker executes requests one after another.
    known_.executed(column, sequence, config_.reply_bytes[take_over_code]);
    answer(column, sequence, take_over_code);
    return false;
  }
  ++counts_.executed;
  return true;
}

fabric::WorkRequest WriteServer::reply_write(std::uint32_t column, std::uint32_t bytes) const {
  const Lane& lane = lanes_[column];
  const Handler::ReplyPlace staged = place(column);
  return write_request(config_, worker_, peers_[lane.node].replies, lane.reply_end - bytes,
                       {staged.region, staged.start(bytes)}, bytes);
}

void WriteServer::answer(std::uint32_t column, std::uint64_t sequence, std::uint8_t code) {
  const Handler::ReplyPlace made = place(column);
  const std::uint32_t bytes = config_.reply_bytes[code];
  const Arrival by = is_local(column) ? Arrival::by_trailer : arrival_;
  const Trailer trailer = seal(*made.region, made.start(bytes), bytes, static_cast<std::uint16_t>(sequence),
                               code, by, config_.flaws.replies_name_low_bits ? 0 : turns_of(sequence));
  const std::uint64_t word_at = made.start(trailer_bytes);
  if (is_local(column)) return worker_.store_word(*made.region, word_at, trailer.pack());
  fabric::store_word_release(made.region->at(word_at), trailer.pack());
  if (!is_reachable(lanes_[column].node)) {
    LOCH_PROBE("rpc.write.reply-unsent");
    ++counts_.unanswered;  // no reply is sent; the client will repeat its request
    return;
  }
  // The buffer is reused only for the reply to this client's next request. By then the client has the whole
  // reply, so the NIC has read the buffer (rule 5 of fabric.h).
  worker_.post_detached(reply_write(column, bytes));
}

// Sends the reply, which was kept, a second time, and waits for the WRITE to complete: the client may have
// received the first copy and send its next request, whose reply needs the same buffer.
coro::Task<void> WriteServer::answer_again(std::uint32_t column) {
  const std::uint64_t word_at = place(column).start(trailer_bytes);
  if (is_local(column)) {
    worker_.store_word(*node_.replies, word_at, fabric::load_word(node_.replies->at(word_at)));
    co_return;
  }
  if (!is_reachable(lanes_[column].node)) {
    ++counts_.unanswered;
    co_return;
  }
  const fabric::Completion done = co_await worker_.execute(reply_write(column, known_.reply_bytes(column)));
  if (!done.ok()) {
    LOCH_PROBE("rpc.write.second-reply-failed");
    ++counts_.unanswered;
  }
}

// Returns whether the node is connected. If not, starts to reconnect in the background, so that one lost
// client does not delay the others.
bool WriteServer::is_reachable(fabric::NodeId node) {
  if (config_.transport != fabric::Transport::rc) return true;
  if (worker_.connected(node) && channel_.refresh(node, worker_.epoch(node), &peers_[node])) return true;
  if (!is_repairing_[node] && !config_.flaws.never_repairs) {
    is_repairing_[node] = true;
    repairs_->spawn(repair(this, node));
  }
  return false;
}

coro::Task<void> WriteServer::repair(WriteServer* self, fabric::NodeId node) {
  LOCH_PROBE("rpc.write.server-reconnects");
  ++self->counts_.reconnects;
  const Nanos deadline = self->worker_.now() + self->config_.reconnect_timeout;
  const bool is_back = co_await self->worker_.reconnect(node, deadline);
  static_cast<void>(is_back);  // not used: is_reachable() checks the connection before the next reply
  self->is_repairing_[node] = false;
}

}  // namespace loch::rpc
