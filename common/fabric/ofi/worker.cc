// Polls a worker's completion queue, ends requests, and delivers messages to its RECVs.
#include "common/fabric/ofi/worker.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "common/base/check.h"
#include "common/fabric/memory.h"

namespace loch::fabric::ofi {
namespace {

constexpr std::uint32_t grh_bytes = 40;  // unused bytes at the start of a UD receive buffer
// ns for which the provider may end the operations whose target is lost
constexpr Nanos lost_patience = 1'000'000'000;
// ns after which a message on RC that finds no RECV is refused
constexpr Nanos receiver_patience = 1'000'000'000;
constexpr std::size_t stalled_most = 4096;
constexpr std::uint32_t turns_per_look = 4096;
constexpr std::size_t packed_address_most = 512;

WcStatus status_of(std::uint8_t sent) {
  return sent <= static_cast<std::uint8_t>(WcStatus::local_error) ? static_cast<WcStatus>(sent)
                                                                  : WcStatus::retry_exceeded;
}

}  // namespace

Result<> OfiRegion::enlist(Provider& provider, fid_ep* endpoint) {
  std::uint64_t access = FI_READ | FI_WRITE | FI_SEND | FI_RECV;
  if (spec_.remote_read || spec_.remote_atomic) access |= FI_REMOTE_READ;
  if (spec_.remote_write || spec_.remote_atomic) access |= FI_REMOTE_WRITE;
  const std::uint64_t key = std::uint64_t{node()} << 16 | id();
  auto memory = provider.register_memory(pages_.data(), spec_.bytes, access, key, endpoint);
  if (!memory) return std::unexpected(memory.error());
  memory_ = std::move(*memory);
  description_ = fi_mr_desc(memory_.get());
  return {};
}

RegionRecord OfiRegion::record(const Provider& provider) const {
  return {name(),
          provider.uses_addresses() ? reinterpret_cast<std::uintptr_t>(pages_.data()) : 0,
          bytes(),
          fi_mr_key(memory_.get()),
          rkey_,
          (spec_.remote_read ? RegionRecord::can_read : 0u) |
              (spec_.remote_write ? RegionRecord::can_write : 0u) |
              (spec_.remote_atomic ? RegionRecord::can_atomic : 0u)};
}

void Gate::lock() {
  constexpr int looks_before_yield = 64;
  for (int looks = 0; !try_lock(); ++looks) {
    if (looks >= looks_before_yield) sched_yield();
  }
}

OfiWorker::OfiWorker(const WorkerSpec& spec, std::uint64_t seed, Shared* shared)
    : RealtimeWorker(spec, seed, shared), shared_(shared), links_(shared->peers.size()) {
  for (auto* list : {&ended_, &ending_}) list->reserve(4 * batch);
  for (auto* list : {&completions_, &completing_}) list->reserve(256);
}

OfiWorker::~OfiWorker() = default;

Result<> OfiWorker::open() {
  const Provider& provider = *shared_->provider;
  const fi_info& info = provider.info();
  const auto refuse = [&](const char* what, int code) {
    return fail(ErrorCode::exhausted, fmt::format("ofi: worker {} of node {}: provider {} {}: {}", index(),
                                                  node(), provider.name(), what, reason(code)));
  };
  fi_cq_attr attributes{};
  attributes.format = FI_CQ_FORMAT_MSG;
  attributes.size = info.tx_attr->size + info.rx_attr->size;
  attributes.wait_obj = FI_WAIT_NONE;
  fid_cq* queue = nullptr;
  if (const int code = fi_cq_open(provider.domain(), &attributes, &queue, nullptr); code != 0)
    return refuse("opens no completion queue", code);
  completions_queue_.reset(queue);
  fid_ep* endpoint = nullptr;
  if (const int code = fi_endpoint(provider.domain(), const_cast<fi_info*>(&info), &endpoint, nullptr);
      code != 0)
    return refuse("opens no endpoint", code);
  endpoint_.reset(endpoint);
  int code = fi_ep_bind(endpoint, &queue->fid, FI_TRANSMIT | FI_RECV);
  if (code == 0) code = fi_ep_bind(endpoint, &provider.addresses()->fid, 0);
  if (code == 0) code = fi_enable(endpoint);
  if (code != 0) {
    // The endpoint is not closed, because ofi_rxm 1.17 crashes when it closes one that was never enabled.
    (void)endpoint_.release();
    return refuse("cannot enable an endpoint", code);
  }
  LOCH_TRY(provider.check_atomics(endpoint));
  // A quarter of the provider's transmit queue is left for answers to messages.
  limit_ = static_cast<std::uint32_t>(std::clamp<std::size_t>(info.tx_attr->size / 4 * 3, 4, 1024));
  const auto buffers = std::min<std::size_t>(receive_buffers, info.rx_attr->size);
  for (std::size_t i = 0; i < buffers; ++i) post_buffer(take_buffer());
  return {};
}

Result<WorkerRecord> OfiWorker::record() const {
  WorkerRecord record{index(), std::string(packed_address_most, '\0')};
  std::size_t length = record.address.size();
  const int code = fi_getname(&endpoint_->fid, record.address.data(), &length);
  if (code != 0 || length > packed_address_most)
    return fail(ErrorCode::internal, fmt::format("ofi: an endpoint has no address: {}", reason(code)));
  record.address.resize(length);
  return record;
}

bool OfiWorker::connected(NodeId peer) const {
  return links_.at(peer).failed == 0 && !shared_->is_lost(peer);
}

bool OfiWorker::try_reconnect(NodeId peer) {
  const std::lock_guard held(gate_);
  Link& link = links_.at(peer);
  if (shared_->is_lost(peer)) return false;
  if (link.failed == 0) return true;
  for (const auto& lane : link.lanes) {
    if (lane->has_failed && lane->first != nullptr) return false;
  }
  for (const auto& lane : link.lanes) lane->has_failed = lane->has_retired_failure = false;
  link.failed = 0;
  ++link.epoch;
  return true;
}

// ---- Completions -------------------------------------------------------------------------------

bool OfiWorker::drain() {
  const ssize_t count = fi_cq_read(completions_queue_.get(), entries_.data(), entries_.size());
  if (count == -FI_EAGAIN) return false;
  if (count == -FI_EAVAIL) return drain_error();
  LOCH_CHECK(count >= 0, "the completion queue of {} is gone: {}", spec().name, reason(count));
  for (ssize_t i = 0; i < count; ++i) {
    const fi_cq_msg_entry& entry = entries_[static_cast<std::size_t>(i)];
    auto* context = static_cast<Context*>(entry.op_context);
    if (context->kind == Context::Kind::incoming) {
      auto* buffer = static_cast<MessageBuffer*>(context);
      buffer->arrived = static_cast<std::uint32_t>(entry.len);
      receive(buffer);
    } else {
      --in_flight_;
      if (!was_abandoned(*context)) ended_.push_back({context, false, WcStatus::success});
    }
  }
  return count != 0;
}

bool OfiWorker::drain_error() {
  fi_cq_err_entry entry{};
  if (fi_cq_readerr(completions_queue_.get(), &entry, 0) <= 0) return false;
  counters_.errors.fetch_add(1, std::memory_order_relaxed);
  auto* context = static_cast<Context*>(entry.op_context);
  if (context == nullptr) return true;
  if (context->kind == Context::Kind::incoming) {
    post_buffer(static_cast<MessageBuffer*>(context));
    return true;
  }
  --in_flight_;
  // The request may have been executed before the provider gave up.
  if (!was_abandoned(*context)) ended_.push_back({context, false, WcStatus::retry_exceeded});
  return true;
}

// Handles the end of the provider's operation for a READ, WRITE or atomic.
void OfiWorker::finish_request(Slot& slot, WcStatus status) {
  Lane& lane = *slot.lane;
  const WorkRequest& request = *slot.request;
  --slot.pending;
  if (request.verb != Verb::write) {
    --lane.fetches;
  } else if (request.has_immediate && status == WcStatus::success && !lane.has_failed) {
    slot.is_announcing = true;
    ++lane.announcing;
    list(lane);
    return;
  } else {
    --lane.writes;
  }
  const bool is_silent = lane.transport != Transport::rc;
  end(slot, is_silent ? WcStatus::success : status);
}

// Handles the end of sending one message: a piece of a SEND, or the immediate of a WRITE.
void OfiWorker::finish_message(Slot& slot, WcStatus status) {
  --slot.pending;
  const bool is_reliable = slot.lane->transport == Transport::rc;
  if (slot.state == Slot::State::done) {
    list(*slot.lane);
  } else if (status != WcStatus::success && is_reliable) {
    end(slot, status);
  } else if (slot.state == Slot::State::posted && slot.pending == 0 && !slot.awaits_answer) {
    end(slot, WcStatus::success);
  }
}

void OfiWorker::take_ended() {
  ending_.swap(ended_);
  for (const Ended& each : ending_) {
    if (each.context->kind == Context::Kind::outgoing) {
      auto* buffer = static_cast<MessageBuffer*>(each.context);
      if (buffer->owner != nullptr) finish_message(*buffer->owner, each.status);
      free_buffer(buffer);
      continue;
    }
    Slot& slot = *static_cast<Slot*>(each.context);
    if (!each.is_answer) {
      finish_request(slot, each.status);
    } else if (slot.awaits_answer) {
      end(slot, each.status);
    }
  }
  ending_.clear();
}

// Ends SENDs and WRITEs with immediate on RC whose receiver is lost or has not answered in time.
void OfiWorker::give_up_on_silent_peers() {
  const Nanos at = shared_->now();
  for (Link& link : links_) {
    if (!link.lanes.empty() && shared_->is_lost(link.lanes.front()->peer)) give_up_on_lost_peer(link, at);
    for (const auto& lane : link.lanes) {
      for (Slot* slot = lane->first; slot != nullptr; slot = slot->next) {
        if (slot->awaits_answer && (at > slot->deadline || shared_->is_lost(lane->peer)))
          end(*slot, WcStatus::retry_exceeded);
      }
    }
  }
}

// Ends the requests to a lost peer of which the provider still has operations a while after the loss. It may
// never end them by itself: ofi_rxm 1.17 keeps an atomic whose answer was under way when the connection
// broke.
void OfiWorker::give_up_on_lost_peer(Link& link, Nanos at) {
  if (link.lost_at == 0) link.lost_at = at;
  if (at - link.lost_at < lost_patience) return;
  for (const auto& lane : link.lanes) {
    for (Slot* slot = lane->first; slot != nullptr; slot = slot->next) {
      if (slot->pending != 0) abandon(*slot);
    }
  }
}

// Ends a request whose operations the provider does not end. The provider may use the request's slot and
// message buffers as long as it has these operations, so that they are not used again before it ends them.
// Abandoned operations do not count against the limit of operations in flight.
void OfiWorker::abandon(Slot& slot) {
  const std::uint32_t messages = abandon_messages(slot);
  LOCH_CHECK(messages <= slot.pending, "{}: more messages than operations", spec().name);
  const bool has_one_sided = slot.pending != messages;
  limit_ += slot.pending;
  slot.pending = 0;
  slot.is_abandoned = has_one_sided;
  if (has_one_sided) --(slot.request->verb == Verb::write ? slot.lane->writes : slot.lane->fetches);
  counters_.errors.fetch_add(1, std::memory_order_relaxed);
  if (slot.state == Slot::State::done) {
    list(*slot.lane);
  } else {
    end(slot, slot.lane->transport == Transport::rc ? WcStatus::retry_exceeded : WcStatus::success);
  }
}

// Takes a request's messages from it that the provider has not sent yet; returns their number.
std::uint32_t OfiWorker::abandon_messages(const Slot& slot) {
  std::uint32_t count = 0;
  for (const auto& block : buffer_blocks_) {
    for (MessageBuffer& buffer : block->items) {
      if (buffer.kind != Context::Kind::outgoing || buffer.owner != &slot || buffer.is_abandoned) continue;
      buffer.is_abandoned = true;
      ++count;
    }
  }
  return count;
}

// Whether the operation that has ended had been abandoned; its memory can then be used again.
bool OfiWorker::was_abandoned(Context& context) {
  if (!context.is_abandoned) return false;
  context.is_abandoned = false;
  --limit_;
  if (context.kind == Context::Kind::outgoing) {
    free_buffer(static_cast<MessageBuffer*>(&context));
  } else {
    free_slots_.push_back(static_cast<Slot*>(&context));
  }
  return true;
}

void OfiWorker::visit_lanes() {
  visiting_.swap(listed_);
  for (Lane* lane : visiting_) {
    lane->is_listed = false;
    if (lane->announcing != 0) {
      for (Slot* slot = lane->first; slot != nullptr; slot = slot->next) {
        if (slot->is_announcing && !announce(*slot)) break;
      }
      if (lane->announcing != 0) list(*lane);
    }
    retire(*lane);
    pump(*lane);
    retire(*lane);
  }
  visiting_.clear();
}

bool OfiWorker::poll_device() {
  polls_.fetch_add(1, std::memory_order_relaxed);
  bool moved = false;
  {
    const std::lock_guard held(gate_);
    moved = drain();
    if (!ended_.empty()) {
      take_ended();
      moved = true;
    }
    if (!waiting_answers_.empty()) moved |= retry_answers();
    if (!stalled_.empty()) moved |= retry_stalled();
    if (!unposted_buffers_.empty()) post_put_off();
    if ((unanswered_ | in_flight_) != 0 && ++turns_since_look_ >= turns_per_look) {
      turns_since_look_ = 0;
      give_up_on_silent_peers();
    }
    if (!listed_.empty()) visit_lanes();
    completing_.swap(completions_);
  }
  for (WorkRequest* done : completing_) {
    --owed_;
    moved = true;
    done->sink->fn(done->sink, *done);
  }
  completing_.clear();
  return moved;
}

bool OfiWorker::poll_for_idle() {
  const std::uint64_t polls = polls_.load(std::memory_order_relaxed);
  if (std::exchange(polls_seen_, polls) != polls || !gate_.try_lock()) return false;
  const std::lock_guard held(gate_, std::adopt_lock);
  bool moved = drain();
  if (!waiting_answers_.empty()) moved |= retry_answers();
  if (!stalled_.empty()) moved |= retry_stalled();
  if (!unposted_buffers_.empty()) post_put_off();
  if (moved) counters_.assists.fetch_add(1, std::memory_order_relaxed);
  return moved;
}

void OfiWorker::greet(fi_addr_t to) {
  const std::lock_guard held(gate_);
  send_unowned(MessageHeader::Kind::greeting, {}, to);
}

bool OfiWorker::has_greeted() {
  const std::lock_guard held(gate_);
  if (!ended_.empty()) take_ended();
  return waiting_answers_.empty() && in_flight_ == 0;
}

// ---- Messages ----------------------------------------------------------------------------------

void OfiWorker::post_buffer(MessageBuffer* buffer) {
  buffer->kind = Context::Kind::incoming;
  const ssize_t code = fi_recv(endpoint_.get(), &buffer->header, sizeof(MessageHeader) + payload_most,
                               buffer->description, FI_ADDR_UNSPEC, static_cast<Context*>(buffer));
  if (code == 0) return;
  LOCH_CHECK(code == -FI_EAGAIN, "{} cannot receive: {}", spec().name, reason(code));
  unposted_buffers_.push_back(buffer);
}

void OfiWorker::post_put_off() {
  std::vector<MessageBuffer*> again;
  again.swap(unposted_buffers_);
  for (MessageBuffer* buffer : again) post_buffer(buffer);
}

void OfiWorker::receive(MessageBuffer* buffer) {
  const MessageHeader& header = buffer->header;
  const bool is_whole = buffer->arrived >= sizeof header && header.from < shared_->peers.size() &&
                        header.bytes <= buffer->arrived - sizeof header && header.transport <= 2 &&
                        header.kind <= MessageHeader::Kind::greeting &&
                        (header.kind != MessageHeader::Kind::piece ||
                         (header.offset <= header.total && header.bytes <= header.total - header.offset));
  bool is_free = true;
  if (!is_whole) {
    counters_.dropped.fetch_add(1, std::memory_order_relaxed);
  } else if (header.kind == MessageHeader::Kind::answer) {
    receive_answer(header);
  } else if (header.kind != MessageHeader::Kind::greeting) {
    is_free = receive_message(buffer);
  }
  post_buffer(is_free ? buffer : take_buffer());
}

void OfiWorker::receive_answer(const MessageHeader& header) {
  const auto number = static_cast<std::uint32_t>(header.cookie);
  if (number >= slot_blocks_.size() * slots_per_block) return;
  Slot& slot = slot_blocks_[number / slots_per_block]->items[number % slots_per_block];
  if (slot.cookie() == header.cookie && slot.awaits_answer)
    ended_.push_back({&slot, true, status_of(header.status)});
}

bool OfiWorker::receive_message(MessageBuffer* buffer) {
  const MessageHeader& header = buffer->header;
  const bool is_reliable = static_cast<Transport>(header.transport) == Transport::rc;
  // Messages on RC keep their order: while one waits for a RECV, later ones wait behind it.
  const Delivery delivery = is_reliable && !stalled_.empty() ? Delivery::no_buffer : deliver(*buffer);
  if (delivery == Delivery::no_buffer && is_reliable && stalled_.size() < stalled_most) {
    buffer->deadline = shared_->now() + receiver_patience;
    stalled_.push(buffer);
    return false;
  }
  conclude(header, delivery);
  return true;
}

// Answers the sender of a message on RC with the message's outcome; counts a lost message on UC or UD.
void OfiWorker::conclude(const MessageHeader& header, Delivery delivery) {
  const bool is_reliable = static_cast<Transport>(header.transport) == Transport::rc;
  const bool is_lost = delivery == Delivery::no_buffer || delivery == Delivery::too_long;
  if (!is_reliable && is_lost) counters_.dropped.fetch_add(1, std::memory_order_relaxed);
  if (!is_reliable || delivery == Delivery::more_pieces) return;
  answer(header, delivery == Delivery::done        ? WcStatus::success
                 : delivery == Delivery::no_buffer ? WcStatus::rnr_exceeded
                                                   : WcStatus::remote_access);
}

OfiWorker::Partial* OfiWorker::partial_of(const MessageHeader& header) {
  for (Partial& each : partial_) {
    if (each.from == header.from && each.from_worker == header.from_worker &&
        each.transport == static_cast<Transport>(header.transport))
      return &each;
  }
  return nullptr;
}

OfiWorker::Delivery OfiWorker::deliver(const MessageBuffer& message) {
  const MessageHeader& header = message.header;
  const auto transport = static_cast<Transport>(header.transport);
  const bool is_piece = header.kind == MessageHeader::Kind::piece;
  const std::uint32_t head = transport == Transport::ud ? grh_bytes : 0;
  Partial* partial = header.offset != 0 ? partial_of(header) : nullptr;
  PostedReceive into;
  if (header.offset == 0) {
    Receives& receives = receives_[header.transport];
    if (receives.posted.empty()) return Delivery::no_buffer;
    if (is_piece && std::uint64_t{header.total} + head > receives.posted.front().length)
      return Delivery::too_long;
    into = receives.posted.pop();
  } else {
    if (partial == nullptr) return Delivery::more_pieces;  // the message's first piece was lost or refused
    into = partial->into;
  }
  if (is_piece && header.bytes != 0)
    copy_to_shared(into.buffer.data() + head + header.offset, message.payload, header.bytes);
  if (is_piece && header.offset + header.bytes < header.total) {
    if (partial == nullptr) partial_.push_back({header.from, header.from_worker, transport, into});
    return Delivery::more_pieces;
  }
  if (partial != nullptr) partial_.erase(partial_.begin() + (partial - partial_.data()));
  complete_message(header, into);
  return Delivery::done;
}

void OfiWorker::complete_message(const MessageHeader& header, const PostedReceive& into) {
  std::atomic_thread_fence(std::memory_order_release);
  Receives& receives = receives_[header.transport];
  Received message;
  message.from = header.from;
  message.from_worker = header.from_worker;
  message.length = header.total;
  message.has_immediate = header.has_immediate != 0;
  message.immediate = message.has_immediate ? header.immediate : 0;
  message.buffer = into.buffer;
  message.user = into.user;
  receives.arrived.push(message);
  receives.ready.fetch_add(1, std::memory_order_release);
}

void OfiWorker::answer(const MessageHeader& asked, WcStatus status) {
  const auto& workers = shared_->peers[asked.from].workers;
  if (asked.from_worker >= workers.size()) return;
  MessageHeader header{};
  header.cookie = asked.cookie;
  header.status = static_cast<std::uint8_t>(status);
  send_unowned(MessageHeader::Kind::answer, header, workers[asked.from_worker]);
}

// Sends a message that consists only of a header and belongs to no request of this worker.
void OfiWorker::send_unowned(MessageHeader::Kind kind, const MessageHeader& header, fi_addr_t to) {
  MessageBuffer* buffer = take_buffer();
  buffer->kind = Context::Kind::outgoing;
  buffer->owner = nullptr;
  buffer->to = to;
  buffer->deadline = shared_->now() + receiver_patience;
  buffer->header = header;
  buffer->header.from = node();
  buffer->header.from_worker = index();
  buffer->header.kind = kind;
  waiting_answers_.push_back(buffer);
  (void)retry_answers();
}

bool OfiWorker::retry_answers() {
  std::size_t sent = 0;
  for (; sent < waiting_answers_.size(); ++sent) {
    MessageBuffer* buffer = waiting_answers_[sent];
    const ssize_t code = fi_send(endpoint_.get(), &buffer->header, sizeof(MessageHeader), buffer->description,
                                 buffer->to, static_cast<Context*>(buffer));
    // An answer is dropped at its deadline, because an answer to a lost node would hold up all later answers
    // for ever.
    if (code == -FI_EAGAIN && shared_->now() < buffer->deadline) break;
    if (code == 0) {
      ++in_flight_;
    } else {
      free_buffer(buffer);
      counters_.errors.fetch_add(1, std::memory_order_relaxed);
    }
  }
  waiting_answers_.erase(waiting_answers_.begin(),
                         waiting_answers_.begin() + static_cast<std::ptrdiff_t>(sent));
  return sent != 0;
}

bool OfiWorker::retry_stalled() {
  bool moved = false;
  Nanos at = 0;
  while (!stalled_.empty()) {
    MessageBuffer* buffer = stalled_.front();
    const Delivery delivery = deliver(*buffer);
    if (delivery == Delivery::no_buffer) {
      if (at == 0) at = shared_->now();
      if (at < buffer->deadline) break;
    }
    conclude(buffer->header, delivery);
    free_buffer(stalled_.pop());
    moved = true;
  }
  return moved;
}

void OfiWorker::post_recv(Transport transport, LocalSlice buffer, std::uint32_t length, std::uint64_t user) {
  LOCH_CHECK(buffer.region != nullptr && buffer.region->node() == node() &&
                 length <= buffer.region->bytes() && buffer.offset <= buffer.region->bytes() - length,
             "a receive buffer lies in a region of its own node");
  const std::lock_guard held(gate_);
  Receives& receives = receives_[static_cast<std::size_t>(transport)];
  LOCH_CHECK(receives.posted.size() < shared_->capabilities.recv_queue_depth,
             "more receives are posted than the queue is deep");
  receives.posted.push({buffer, length, user});
}

bool OfiWorker::poll_arrivals(Transport transport, ReceiveWait*& waiters) {
  Receives& receives = receives_[static_cast<std::size_t>(transport)];
  if (receives.ready.load(std::memory_order_acquire) == 0) return false;
  const std::lock_guard held(gate_);
  bool moved = false;
  while (waiters != nullptr && !receives.arrived.empty()) {
    waiters->result = receives.arrived.pop();
    receives.ready.fetch_sub(1, std::memory_order_relaxed);
    finish_receive(waiters);
    moved = true;
  }
  return moved;
}

}  // namespace loch::fabric::ofi
