// Puts posted requests in their lanes (queues of requests from one worker to one peer), and gives each
// request to the provider as soon as the rules of order allow.
#include <algorithm>

#include "common/base/check.h"
#include "common/fabric/memory.h"
#include "common/fabric/ofi/worker.h"

namespace loch::fabric::ofi {
namespace {

// Time in ns after which a SEND, or a WRITE's immediate, on RC ends with retry_exceeded if the receiver has
// not answered. A receiver without a RECV answers earlier, after receiver_patience in worker.cc.
constexpr Nanos answer_patience = 5'000'000'000;
constexpr std::uint64_t no_address = FI_ADDR_UNSPEC;

void check_transport(const WorkRequest& request) {
  const bool is_reliable_only = request.verb == Verb::read || is_atomic(request.verb);
  LOCH_CHECK(request.verb != Verb::recv, "a RECV is posted by post_recv");
  LOCH_CHECK(!is_reliable_only || request.transport == Transport::rc, "{} needs RC", name(request.verb));
  LOCH_CHECK(request.verb != Verb::write || request.transport != Transport::ud, "UD has no WRITE");
}

std::uint32_t right_for(Verb verb) {
  if (verb == Verb::read) return RegionRecord::can_read;
  return verb == Verb::write ? RegionRecord::can_write : RegionRecord::can_atomic;
}

std::uint64_t length_of(const WorkRequest& request) { return is_atomic(request.verb) ? 8 : request.length; }

}  // namespace

WcStatus OfiWorker::check_remote(const WorkRequest& request) const {
  const Peer& peer = shared_->peers[request.peer];
  const std::uint64_t length = length_of(request);
  if (request.remote.node != request.peer || request.remote.id >= peer.record.regions.size())
    return WcStatus::remote_access;
  const RegionRecord& target = peer.record.regions[request.remote.id];
  if (target.rkey != request.remote.rkey || (target.rights & right_for(request.verb)) == 0 ||
      length > target.bytes || request.remote_offset > target.bytes - length)
    return WcStatus::remote_access;
  if (is_atomic(request.verb) && request.remote_offset % 8 != 0) return WcStatus::remote_access;
  return WcStatus::success;
}

// The requester checks keys and bounds before it posts, so that no request after a refused one is executed. A
// provider would check them at the target, when later requests may have been executed already.
WcStatus OfiWorker::check_request(const WorkRequest& request) const {
  if (request.peer >= links_.size()) return WcStatus::local_error;
  const Capabilities& can = shared_->capabilities;
  if (request.is_inline && (request.length > can.max_inline_bytes || request.verb == Verb::read))
    return WcStatus::local_error;
  if (request.transport == Transport::ud && request.length > can.mtu_bytes) return WcStatus::local_error;
  const LocalSlice& local = request.local;
  if (local.region == nullptr) {
    if (!is_atomic(request.verb) && request.length != 0) return WcStatus::local_error;
  } else if (local.region->node() != node() || length_of(request) > local.region->bytes() ||
             local.offset > local.region->bytes() - length_of(request)) {
    return WcStatus::local_error;
  }
  const Peer& peer = shared_->peers[request.peer];
  if (peer.responder == no_address || shared_->is_lost(request.peer)) return WcStatus::retry_exceeded;
  const bool has_message = request.verb == Verb::send || request.has_immediate;
  if (has_message &&
      (request.peer_worker >= peer.workers.size() || peer.workers[request.peer_worker] == no_address))
    return WcStatus::retry_exceeded;
  return request.verb == Verb::send ? WcStatus::success : check_remote(request);
}

template <typename T, std::size_t N>
OfiWorker::Block<T, N>& OfiWorker::add_block(std::vector<std::unique_ptr<Block<T, N>>>& blocks) {
  blocks.push_back(std::make_unique<Block<T, N>>());
  Block<T, N>& made = *blocks.back();
  void* description = nullptr;
  if (shared_->provider->needs_local_registration()) {
    auto memory = shared_->provider->register_memory(made.items.data(), sizeof made.items,
                                                     FI_SEND | FI_RECV | FI_READ | FI_WRITE,
                                                     shared_->provider->next_local_key(), endpoint_.get());
    LOCH_CHECK(memory.has_value(), "{}", memory.error().message);
    made.memory = std::move(*memory);
    description = fi_mr_desc(made.memory.get());
  }
  for (T& item : made.items) item.description = description;
  return made;
}

Slot* OfiWorker::take_slot() {
  if (free_slots_.empty()) {
    const auto first = static_cast<std::uint32_t>(slot_blocks_.size() * slots_per_block);
    auto& block = add_block(slot_blocks_);
    free_slots_.reserve(first + slots_per_block);
    for (std::uint32_t i = slots_per_block; i-- != 0;) {
      block.items[i].number = first + i;
      block.items[i].kind = Context::Kind::request;
      free_slots_.push_back(&block.items[i]);
    }
  }
  Slot* slot = free_slots_.back();
  free_slots_.pop_back();
  ++slot->generation;
  slot->state = Slot::State::waiting;
  slot->status = WcStatus::success;
  slot->awaits_answer = slot->is_announcing = false;
  slot->pending = slot->sent = 0;
  return slot;
}

void OfiWorker::free_slot(Slot* slot) {
  ++slot->generation;  // an answer that arrives late no longer matches the slot's cookie
  if (!slot->is_abandoned) free_slots_.push_back(slot);
}

MessageBuffer* OfiWorker::take_buffer() {
  if (free_buffers_.empty()) {
    auto& block = add_block(buffer_blocks_);
    free_buffers_.reserve(buffer_blocks_.size() * buffers_per_block);
    for (MessageBuffer& buffer : block.items) free_buffers_.push_back(&buffer);
  }
  MessageBuffer* buffer = free_buffers_.back();
  free_buffers_.pop_back();
  return buffer;
}

void OfiWorker::free_buffer(MessageBuffer* buffer) {
  buffer->owner = nullptr;
  free_buffers_.push_back(buffer);
}

Lane& OfiWorker::lane_of(const WorkRequest& request) {
  if (request.peer >= links_.size()) return nowhere_;
  Link& link = links_[request.peer];
  for (const auto& lane : link.lanes) {
    if (lane->number == request.lane && lane->transport == request.transport) return *lane;
  }
  link.lanes.push_back(std::make_unique<Lane>());
  Lane& made = *link.lanes.back();
  made.peer = request.peer;
  made.transport = request.transport;
  made.number = request.lane;
  return made;
}

void OfiWorker::list(Lane& lane) {
  if (lane.is_listed) return;
  lane.is_listed = true;
  listed_.push_back(&lane);
}

void OfiWorker::submit(WorkRequest& request, bool is_detached) {
  check_transport(request);
  Slot* slot = take_slot();
  slot->is_detached = is_detached;
  slot->request = &request;
  if (is_detached) {
    slot->copy = request;
    slot->copy.sink = nullptr;
    slot->copy.next = nullptr;
    slot->request = &slot->copy;
  }
  if (slot->request->sink != nullptr) ++owed_;
  if (request.is_inline && request.length != 0 && request.length <= Slot::inline_most &&
      request.local.region != nullptr && request.local.offset <= request.local.region->bytes() &&
      request.length <= request.local.region->bytes() - request.local.offset)
    copy_from_shared(slot->inline_data, request.local.data(), request.length);
  Lane& lane = lane_of(request);
  slot->lane = &lane;
  lane.append(slot);
  pump(lane);
}

void OfiWorker::do_post(WorkRequest* chain) {
  const std::lock_guard held(gate_);
  while (chain != nullptr) {
    WorkRequest* next = chain->next;
    submit(*chain, false);
    chain = next;
  }
}

void OfiWorker::do_post_detached(const WorkRequest& request) {
  const std::lock_guard held(gate_);
  // The cast is safe: submit() copies a request that comes from post_detached() and does not write to it.
  submit(const_cast<WorkRequest&>(request), true);
}

// Whether the provider may be given the request now: it has room, and the order of requests is kept (rule 4
// of fabric.h). A fenced request waits until all earlier one-sided requests have ended. Any other request
// waits for earlier WRITEs if the provider does not order it after WRITEs. A message waits for earlier WRITEs
// on every provider, because it goes to another endpoint than they do.
bool OfiWorker::may_start(const Lane& lane, const Slot& slot) {
  const WorkRequest& request = *slot.request;
  if (in_flight_ >= limit_) return false;
  if (request.is_fenced && lane.fetches + lane.writes != 0) return false;
  if (lane.writes == 0) return true;
  const KeptOrder& kept = shared_->kept;
  const bool never_waits = !shared_->waits_for_writes;
  switch (request.verb) {
    case Verb::read:
      return kept.write_then_read || never_waits;
    case Verb::cas:
    case Verb::faa:
      return kept.write_then_atomic || never_waits;
    case Verb::write:
      return kept.write_then_write || never_waits;
    default:
      return false;
  }
}

void OfiWorker::pump(Lane& lane) {
  while (lane.unposted != nullptr) {
    Slot& slot = *lane.unposted;
    if (lane.has_failed) {
      end(slot, WcStatus::flushed);
    } else if (slot.sent == 0) {
      if (const WcStatus status = check_request(*slot.request); status != WcStatus::success) {
        // Requests before the refused one are not affected by its failure, so they end first.
        if (lane.first != &slot) break;
        // On an unreliable transport the sender does not learn that its request was refused, except by a
        // check of its own side (local_error).
        const bool is_silent = lane.transport != Transport::rc && status != WcStatus::local_error;
        end(slot, is_silent ? WcStatus::success : status);
      } else if (!may_start(lane, slot)) {
        if (in_flight_ < limit_) counters_.waits.fetch_add(1, std::memory_order_relaxed);
        break;
      }
    }
    if (slot.state == Slot::State::waiting && !start(slot)) break;
    lane.unposted = slot.next;
  }
  if (lane.unposted != nullptr || (lane.first != nullptr && lane.first->state == Slot::State::done))
    list(lane);
}

bool OfiWorker::start(Slot& slot) {
  const WorkRequest& request = *slot.request;
  if (request.verb == Verb::send) return start_message(slot);
  if (!note_start(slot, start_one_sided(slot))) return slot.state == Slot::State::done;
  slot.state = Slot::State::posted;
  ++(request.verb == Verb::write ? slot.lane->writes : slot.lane->fetches);
  return true;
}

// Handles the code with which the provider took or refused an operation of the slot's request. Returns
// whether the provider took it. A refusal ends the request, except FI_EAGAIN while the peer is alive.
bool OfiWorker::note_start(Slot& slot, long code) {
  if (code == 0) {
    ++slot.pending;
    ++in_flight_;
    counters_.posted.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  if (code == -FI_EAGAIN) {
    counters_.again.fetch_add(1, std::memory_order_relaxed);
    if (!shared_->is_lost(slot.lane->peer)) return false;
  }
  counters_.errors.fetch_add(1, std::memory_order_relaxed);
  end(slot, slot.lane->transport == Transport::rc ? WcStatus::retry_exceeded : WcStatus::success);
  return false;
}

long OfiWorker::start_one_sided(Slot& slot) {
  const WorkRequest& request = *slot.request;
  const Peer& peer = shared_->peers[request.peer];
  const RegionRecord& target = peer.record.regions[request.remote.id];
  const std::uint64_t at = target.address + request.remote_offset;
  if (is_atomic(request.verb)) {
    slot.operand = request.operand;
    slot.compare = request.compare;
    if (request.verb == Verb::cas) {
      return fi_compare_atomic(endpoint_.get(), &slot.operand, 1, slot.description, &slot.compare,
                               slot.description, &slot.result, slot.description, peer.responder, at,
                               target.key, FI_UINT64, FI_CSWAP, static_cast<Context*>(&slot));
    }
    return fi_fetch_atomic(endpoint_.get(), &slot.operand, 1, slot.description, &slot.result,
                           slot.description, peer.responder, at, target.key, FI_UINT64, FI_SUM,
                           static_cast<Context*>(&slot));
  }
  const bool is_inline = request.is_inline && request.length != 0;
  const bool has_bytes = request.local.region != nullptr;
  iovec local{is_inline   ? slot.inline_data
              : has_bytes ? request.local.data()
                          : slot.inline_data,
              request.length};
  void* description = is_inline || !has_bytes
                          ? slot.description
                          : static_cast<const OfiRegion*>(request.local.region)->description();
  fi_rma_iov remote{at, request.length, target.key};
  const fi_msg_rma message{&local, &description, 1, peer.responder, &remote, 1, static_cast<Context*>(&slot),
                           0};
  // With FI_DELIVERY_COMPLETE the completion of a WRITE says that its bytes are in the target's memory, so
  // that later requests can wait for it.
  return request.verb == Verb::read
             ? fi_readmsg(endpoint_.get(), &message, FI_COMPLETION)
             : fi_writemsg(endpoint_.get(), &message, FI_COMPLETION | FI_DELIVERY_COMPLETE);
}

void OfiWorker::fill_header(MessageBuffer& buffer, const Slot& slot) const {
  const WorkRequest& request = *slot.request;
  MessageHeader& header = buffer.header;
  header = {};
  header.cookie = slot.cookie();
  header.total = request.length;
  header.immediate = request.immediate;
  header.from = node();
  header.from_worker = index();
  header.kind = request.verb == Verb::send ? MessageHeader::Kind::piece : MessageHeader::Kind::immediate;
  header.transport = static_cast<std::uint8_t>(request.transport);
  header.has_immediate = request.has_immediate ? 1 : 0;
}

// Sends those pieces of a SEND that the provider has not taken yet. Each payload is copied behind its header,
// so that a piece is one buffer.
bool OfiWorker::start_message(Slot& slot) {
  const WorkRequest& request = *slot.request;
  do {
    MessageBuffer* buffer = take_buffer();
    fill_header(*buffer, slot);
    buffer->kind = Context::Kind::outgoing;
    buffer->owner = &slot;
    buffer->header.offset = slot.sent;
    buffer->header.bytes = std::min(request.length - slot.sent, payload_most);
    if (buffer->header.bytes != 0) {
      const std::byte* data = request.is_inline ? slot.inline_data : request.local.data();
      copy_from_shared(buffer->payload, data + slot.sent, buffer->header.bytes);
    }
    const long code =
        in_flight_ >= limit_
            ? -FI_EAGAIN
            : fi_send(endpoint_.get(), &buffer->header, sizeof(MessageHeader) + buffer->header.bytes,
                      buffer->description, shared_->peers[request.peer].workers[request.peer_worker],
                      static_cast<Context*>(buffer));
    if (!note_start(slot, code)) {
      free_buffer(buffer);
      return slot.state == Slot::State::done;
    }
    slot.sent += buffer->header.bytes;
  } while (slot.sent < request.length);
  slot.state = Slot::State::posted;
  await_answer(slot);
  return true;
}

// Lets a request on RC wait for the receiver's answer; other transports have no answers.
void OfiWorker::await_answer(Slot& slot) {
  if (slot.lane->transport != Transport::rc) return;
  slot.awaits_answer = true;
  slot.deadline = shared_->now() + answer_patience;
  ++unanswered_;
}

// Sends the immediate of a WRITE whose bytes are placed. Returns false if the provider has to be asked again.
bool OfiWorker::announce(Slot& slot) {
  const WorkRequest& request = *slot.request;
  MessageBuffer* buffer = take_buffer();
  fill_header(*buffer, slot);
  buffer->kind = Context::Kind::outgoing;
  buffer->owner = &slot;
  const long code =
      fi_send(endpoint_.get(), &buffer->header, sizeof(MessageHeader), buffer->description,
              shared_->peers[request.peer].workers[request.peer_worker], static_cast<Context*>(buffer));
  if (!note_start(slot, code)) {
    free_buffer(buffer);
    return slot.state == Slot::State::done;
  }
  slot.is_announcing = false;
  --slot.lane->announcing;
  --slot.lane->writes;
  await_answer(slot);
  return true;
}

// Sets the status of a request; retire() hands over the request's completion when the provider has no
// operation for the request left. A failure on RC makes all later requests to the peer fail.
void OfiWorker::end(Slot& slot, WcStatus status) {
  Lane& lane = *slot.lane;
  if (slot.awaits_answer) {
    slot.awaits_answer = false;
    --unanswered_;
  }
  if (slot.is_announcing) {
    slot.is_announcing = false;
    --lane.announcing;
    --lane.writes;
  }
  slot.status = status;
  slot.state = Slot::State::done;
  list(lane);
  if (slot.status != WcStatus::success && lane.transport == Transport::rc) fail_lane(lane);
}

void OfiWorker::fail_lane(Lane& lane) {
  if (lane.has_failed || &lane == &nowhere_) return;
  lane.has_failed = true;
  ++links_[lane.peer].failed;
}

void OfiWorker::retire(Lane& lane) {
  while (lane.first != nullptr && lane.first->state == Slot::State::done && lane.first->pending == 0) {
    Slot* slot = lane.first;
    lane.first = slot->next;
    if (lane.first == nullptr) lane.last = nullptr;
    if (lane.unposted == slot) lane.unposted = slot->next;
    WorkRequest& request = *slot->request;
    // An earlier request to the same peer has failed, but the provider had been given this request already,
    // so this one ends with an error too.
    if (lane.has_retired_failure && slot->status == WcStatus::success)
      slot->status = WcStatus::retry_exceeded;
    lane.has_retired_failure |= lane.transport == Transport::rc && slot->status != WcStatus::success;
    if (is_atomic(request.verb) && slot->status == WcStatus::success) {
      if (!slot->is_detached) request.result = slot->result;
      if (request.local.region != nullptr) store_word_release(request.local.data(), slot->result);
    }
    if (!slot->is_detached) {
      request.status = slot->status;
      if (request.sink != nullptr) completions_.push_back(&request);
    }
    free_slot(slot);
  }
}

}  // namespace loch::fabric::ofi
