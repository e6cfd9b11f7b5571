// Posting: translates the work requests of the fabric to those of libibverbs, and gives each queue pair the
// requests of one iteration of the worker's polling loop by one doorbell.
#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "common/base/check.h"
#include "common/fabric/memory.h"
#include "common/fabric/verbs/connector.h"
#include "common/fabric/verbs/device.h"
#include "common/fabric/verbs/worker.h"

namespace loch::fabric::verbs {
namespace {

// The device's opcodes by verb, without and with an immediate.
constexpr ibv_wr_opcode opcodes[][2] = {{IBV_WR_RDMA_READ, IBV_WR_RDMA_READ},
                                        {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM},
                                        {IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_CMP_AND_SWP},
                                        {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_FETCH_AND_ADD},
                                        {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM}};
static_assert(static_cast<int>(Verb::read) == 0 && static_cast<int>(Verb::write) == 1 &&
              static_cast<int>(Verb::cas) == 2 && static_cast<int>(Verb::faa) == 3 &&
              static_cast<int>(Verb::send) == 4);

void check_transport(const WorkRequest& request) {
  const bool is_reliable_only = request.verb == Verb::read || is_atomic(request.verb);
  LOCH_CHECK(!is_reliable_only || request.transport == Transport::rc, "{} needs RC", name(request.verb));
  LOCH_CHECK(request.verb != Verb::recv, "a RECV is posted by post_recv");
  LOCH_CHECK(request.verb != Verb::write || request.transport != Transport::ud, "UD has no WRITE");
}

// The bytes of a WorkRequest from `verb` to `lane`, as one word.
using Head = std::array<std::uint8_t, 8>;
static_assert(offsetof(WorkRequest, verb) == 0 && offsetof(WorkRequest, transport) == 1 &&
              offsetof(WorkRequest, is_signaled) == 2 && offsetof(WorkRequest, status) == 6 &&
              offsetof(WorkRequest, lane) == 7 && sizeof(WorkRequest::verb) == 1);

// Whether the request is of the most frequent kind ("straight"): a READ or WRITE over RC on lane 0 (the first
// queue pair to the peer), neither inline nor fenced and without an immediate, signaled or posted by
// post_detached().
[[nodiscard]] bool is_straight(const WorkRequest& request, bool is_detached) {
  constexpr auto rc = static_cast<std::uint8_t>(Transport::rc);
  constexpr auto wanted = std::bit_cast<std::uint64_t>(Head{0, rc, 1, 0, 0, 0, 0, 0});
  constexpr auto wanted_detached = std::bit_cast<std::uint64_t>(Head{0, rc, 0, 0, 0, 0, 0, 0});
  constexpr auto mask = std::bit_cast<std::uint64_t>(Head{0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0xFF});
  constexpr auto mask_detached = std::bit_cast<std::uint64_t>(Head{0xFE, 0xFF, 0, 0xFF, 0xFF, 0xFF, 0, 0xFF});
  std::uint64_t head;
  std::memcpy(&head, &request, sizeof head);
  return is_detached ? (head & mask_detached) == wanted_detached : (head & mask) == wanted;
}

// Whether the request is a SEND over UD without a fence.
[[nodiscard]] bool is_datagram(const WorkRequest& request) {
  constexpr auto send = static_cast<std::uint8_t>(Verb::send), ud = static_cast<std::uint8_t>(Transport::ud);
  constexpr auto wanted = std::bit_cast<std::uint64_t>(Head{send, ud, 0, 0, 0, 0, 0, 0});
  constexpr auto mask = std::bit_cast<std::uint64_t>(Head{0xFF, 0xFF, 0, 0, 0xFF, 0, 0, 0});
  std::uint64_t head;
  std::memcpy(&head, &request, sizeof head);
  return (head & mask) == wanted;
}

// Sets num_sge to 1, and the opcode to the one of two that `is_second` chooses, as one word.
template <ibv_wr_opcode first, ibv_wr_opcode second>
void set_opcode(ibv_send_wr& out, std::size_t is_second) {
  static_assert(offsetof(ibv_send_wr, opcode) == offsetof(ibv_send_wr, num_sge) + 4 &&
                sizeof(out.opcode) == 4 && sizeof(out.num_sge) == 4 &&
                std::endian::native == std::endian::little);
  static constexpr std::uint64_t words[] = {1 | std::uint64_t{first} << 32, 1 | std::uint64_t{second} << 32};
  std::memcpy(reinterpret_cast<std::byte*>(&out) + offsetof(ibv_send_wr, num_sge), &words[is_second], 8);
}

// The fields `peer` and `peer_worker` of the request, read as one word: equal to the peer's number if the
// request is for that peer's worker 0, else larger than any peer's number.
[[nodiscard]] std::uint32_t peer_if_worker_0(const WorkRequest& request) {
  static_assert(offsetof(WorkRequest, peer_worker) == offsetof(WorkRequest, peer) + 2 &&
                sizeof(WorkRequest::peer) == 2 && std::endian::native == std::endian::little);
  std::uint32_t both;
  std::memcpy(&both, &request.peer, sizeof both);
  return both;
}

// The remote address of a request. A region that the peer does not have gets address 0, so that the peer's
// NIC refuses the request.
std::uint64_t address_of(const Peer& peer, const WorkRequest& request) {
  const std::uint32_t id = request.remote.id;
  return (id < peer.regions ? peer.addresses[id] : 0) + request.remote_offset;
}

// The device's flags for the next request of the queue pair. Unsignaled requests leave the send queue only
// when a later signaled one completes, so at least one in depth / 2 is signaled.
unsigned flags_of(SendQueue& queue, const WorkRequest& request, bool is_detached) {
  const bool is_signaled = (request.is_signaled && !is_detached) || ++queue.since_signaled >= queue.depth / 2;
  if (is_signaled) queue.since_signaled = 0;
  return (is_signaled ? unsigned{IBV_SEND_SIGNALED} : 0u) |
         (request.is_fenced ? unsigned{IBV_SEND_FENCE} : 0u) |
         (request.is_inline ? unsigned{IBV_SEND_INLINE} : 0u);
}

// Appends the request to those that ibv_wr_complete posts next. Every request has a call that sets its data,
// even if it has none, because some libraries finish a request only there. Inline data is copied.
void build(ibv_qp_ex& to, const ibv_send_wr& request) {
  to.wr_id = request.wr_id;
  to.wr_flags = request.send_flags & ~unsigned{IBV_SEND_INLINE};
  const auto& [address, rkey] = request.wr.rdma;
  const auto& word = request.wr.atomic;
  switch (request.opcode) {
    case IBV_WR_RDMA_READ:
      ibv_wr_rdma_read(&to, rkey, address);
      break;
    case IBV_WR_RDMA_WRITE:
      ibv_wr_rdma_write(&to, rkey, address);
      break;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      ibv_wr_rdma_write_imm(&to, rkey, address, request.imm_data);
      break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      ibv_wr_atomic_cmp_swp(&to, word.rkey, word.remote_addr, word.compare_add, word.swap);
      break;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      ibv_wr_atomic_fetch_add(&to, word.rkey, word.remote_addr, word.compare_add);
      break;
    case IBV_WR_SEND_WITH_IMM:
      ibv_wr_send_imm(&to, request.imm_data);
      break;
    default:
      LOCH_CHECK(request.opcode == IBV_WR_SEND, "opcode {}", static_cast<int>(request.opcode));
      ibv_wr_send(&to);
  }
  if (to.qp_base.qp_type == IBV_QPT_UD)
    ibv_wr_set_ud_addr(&to, request.wr.ud.ah, request.wr.ud.remote_qpn, request.wr.ud.remote_qkey);
  if ((request.send_flags & IBV_SEND_INLINE) != 0 && request.num_sge != 0)
    ibv_wr_set_inline_data(&to, reinterpret_cast<void*>(request.sg_list->addr), request.sg_list->length);
  else
    ibv_wr_set_sge_list(&to, static_cast<std::size_t>(request.num_sge), request.sg_list);
}

// The device's flags for the next straight request (is_straight()) of the queue pair, see flags_of().
[[gnu::always_inline]] inline unsigned straight_flags(SendQueue& queue, bool is_detached) {
  if (!is_detached) return IBV_SEND_SIGNALED;
  if (++queue.since_signaled < queue.depth / 2) return 0;
  queue.since_signaled = 0;
  return IBV_SEND_SIGNALED;
}

}  // namespace

WcStatus VerbsWorker::check_local(const WorkRequest& request) const {
  if (request.peer >= links_.size()) return WcStatus::local_error;
  if (shared_->peers[request.peer].load(std::memory_order_relaxed) == nullptr)
    return WcStatus::retry_exceeded;  // the peer was lost before Fabric::exchange() learned its address
  const Capabilities& can = shared_->capabilities;
  if (request.is_inline && (request.length > can.max_inline_bytes || request.verb == Verb::read))
    return WcStatus::local_error;
  if (request.transport == Transport::ud && request.length > can.mtu_bytes) return WcStatus::local_error;
  if (is_atomic(request.verb) && can.atomic_scope == AtomicScope::none) return WcStatus::local_error;
  // An atomic on an unaligned word fails here for all devices; some NICs would refuse it at the target, some
  // libraries when it is posted.
  if (is_atomic(request.verb) && request.remote_offset % 8 != 0) return WcStatus::remote_access;
  const LocalSlice& local = request.local;
  if (local.region == nullptr)
    return is_atomic(request.verb) || request.length == 0 ? WcStatus::success : WcStatus::local_error;
  const std::uint64_t length = is_atomic(request.verb) ? 8 : request.length;
  if (local.region->node() != node() || length > local.region->bytes() ||
      local.offset > local.region->bytes() - length) {
    return WcStatus::local_error;
  }
  return WcStatus::success;
}

void VerbsWorker::finish(WorkRequest& request, WcStatus status) {
  request.status = status;
  if (request.sink != nullptr) completions_.push_back(&request);
}

bool VerbsWorker::has_datagram_worker(const WorkRequest& request) const {
  const Peer& peer = *shared_->peers[request.peer].load(std::memory_order_acquire);
  return request.peer_worker < peer.workers && peer.datagram_qpn[request.peer_worker] != 0;
}

// Whether the device writes the old word of an atomic to the request's local slice. It does not if there is
// no slice, or if the device reverses the word's bytes, which this worker then corrects.
bool VerbsWorker::lands_in_place(const WorkRequest& request) const {
  return request.local.region != nullptr && !shared_->device_to(request.peer).swaps_atomic_replies();
}

SendQueue& VerbsWorker::queue_of(const WorkRequest& request) {
  if (request.transport == Transport::ud) {
    const std::vector<SendQueue*>& lanes = rails_[shared_->rail_of(request.peer)].datagram_lanes;
    LOCH_CHECK(request.lane < lanes.size(), "UD lane {} of {}", request.lane, lanes.size());
    return *lanes[request.lane];
  }
  const auto& queues =
      request.transport == Transport::rc ? links_[request.peer].queues : unreliable_[request.peer];
  for (SendQueue* queue : queues) {
    if (queue->key.peer_worker == request.peer_worker && queue->key.lane == request.lane) return *queue;
  }
  SendQueue& made =
      queue({node(), index(), request.peer, request.peer_worker, request.lane, request.transport});
  shared_->connector->connect_later(*this, made);
  return made;
}

bool VerbsWorker::can_take(const SendQueue& queue) const {
  return queue.state.load(std::memory_order_acquire) == SendQueue::State::ready && queue.has_room() &&
         outstanding_ < most_outstanding_;
}

void VerbsWorker::submit_any(WorkRequest& request, bool is_detached) {
  check_transport(request);
  if (request.sink != nullptr && !is_detached) ++owed_;
  if (const WcStatus status = check_local(request); status != WcStatus::success) [[unlikely]] {
    if (request.transport == Transport::rc && status != WcStatus::retry_exceeded &&
        request.peer < links_.size())
      mark_failed(queue_of(request));
    const bool is_silent = request.transport != Transport::rc && status == WcStatus::retry_exceeded;
    return is_detached ? void() : finish(request, is_silent ? WcStatus::success : status);
  }
  if (request.transport == Transport::ud && !has_datagram_worker(request)) [[unlikely]]
    // success, because the fabric's contract allows a datagram to an unknown worker to be lost
    return is_detached ? void() : finish(request, WcStatus::success);
  SendQueue& queue = queue_of(request);
  const SendQueue::State state = queue.state.load(std::memory_order_acquire);
  if (request.transport == Transport::rc &&
      (state == SendQueue::State::failed || state == SendQueue::State::refused)) [[unlikely]] {
    return is_detached ? void() : finish(request, WcStatus::flushed);
  }
  if (request.transport == Transport::rc && reach_[request.peer].failed != 0 &&
      state == SendQueue::State::connecting) [[unlikely]] {
    return is_detached ? void()
                       : finish(request,
                                WcStatus::flushed);  // the link is broken until reconnect() succeeds
  }
  if (queue.first_parked != nullptr || !can_take(queue)) [[unlikely]] {
    park(queue, request, is_detached);
  } else {
    stage(queue, request, is_detached, nullptr);
  }
}

Parked* VerbsWorker::take_parked() {
  if (free_parked_.empty()) {
    parked_pool_.push_back(std::make_unique<Parked>());
    free_parked_.reserve(parked_pool_.size());
    free_parked_.push_back(parked_pool_.back().get());
  }
  Parked* taken = free_parked_.back();
  free_parked_.pop_back();
  return taken;
}

void VerbsWorker::park(SendQueue& queue, WorkRequest& request, bool is_detached) {
  Parked* waiting = take_parked();
  ++counters_.parked;
  waiting->request = &request;
  if (is_detached) {
    waiting->copy = request;
    waiting->copy.sink = nullptr;
    waiting->request = nullptr;
  }
  if (request.is_inline && request.length != 0)
    copy_from_shared(waiting->inline_data, request.local.data(), request.length);
  queue.park(waiting);
  if (!queue.is_listed) {
    queue.is_listed = true;
    waiting_queues_.push_back(&queue);
  }
}

// Sets the peer's address in the device's work request: remote address and rkey, or for UD the address
// handle, queue pair number and QKey.
void VerbsWorker::address(ibv_send_wr& out, const SendQueue& queue, const WorkRequest& request) const {
  const Peer& peer = *shared_->peers[request.peer].load(std::memory_order_acquire);
  if (request.verb == Verb::send) {
    if (queue.key.transport != Transport::ud) return;
    out.wr.ud.ah = peer.address_handle;
    out.wr.ud.remote_qpn = peer.datagram_qpn[request.peer_worker];
    out.wr.ud.remote_qkey = shared_->qkey.load(std::memory_order_relaxed);
    return;
  }
  const std::uint64_t at = address_of(peer, request);
  if (!is_atomic(request.verb)) {
    out.wr.rdma.remote_addr = at;
    out.wr.rdma.rkey = request.remote.rkey;
    return;
  }
  out.wr.atomic.remote_addr = at;
  out.wr.atomic.rkey = request.remote.rkey;
  out.wr.atomic.compare_add = request.verb == Verb::cas ? request.compare : request.operand;
  out.wr.atomic.swap = request.operand;
}

// Copies inline data to memory that stays valid until the request is posted to the device. Returns the copy's
// address. Makes no copy if take() builds the request at once, which copies the data.
std::uintptr_t VerbsWorker::keep_inline(const SendQueue& queue, const std::byte* data, std::uint32_t bytes) {
  if (queue.qp.extended() != nullptr) return reinterpret_cast<std::uintptr_t>(data);
  std::byte* const kept = next_staged_->inline_data;
  copy_message(kept, data, bytes);
  return reinterpret_cast<std::uintptr_t>(kept);
}

// Appends `staged`, which is *next_staged_, to the chain that the queue pair's next doorbell gives to the
// device. `next` of the chain's last request is set to null only when the doorbell is rung. Where requests
// are built at once, the chain only tells that some wait for the doorbell.
[[gnu::always_inline]] inline void VerbsWorker::take_into(SendQueue& queue, Staged& staged) {
  queue.last_staged->next = &staged.request;
  queue.last_staged = &staged.request;
  if (!queue.is_staged) {
    queue.is_staged = true;
    queue.next_staged = nullptr;
    (first_staged_ == nullptr ? first_staged_ : last_staged_->next_staged) = &queue;
    last_staged_ = &queue;
  }
  next_staged_ = &staged + 1;
}

// Makes *next_staged_ a request that the queue pair's next doorbell posts.
[[gnu::always_inline]] inline void VerbsWorker::take(SendQueue& queue) {
  if (ibv_qp_ex* const extended = queue.qp.extended(); extended != nullptr) {
    if (!queue.has_staged()) ibv_wr_start(extended);
    build(*extended, next_staged_->request);
  }
  take_into(queue, *next_staged_);
  if (next_staged_ >= ring_at_) ring_doorbells();
}

// Sets how many requests, and how many RECVs, may wait for a doorbell before it is rung.
void VerbsWorker::set_most_staged(std::uint32_t most) {
  most_staged_ = most;
  ring_at_ = staging_.data() + most;
}

void VerbsWorker::stage(SendQueue& queue, WorkRequest& request, bool is_detached,
                        const std::byte* inline_data) {
  ibv_send_wr& out = next_staged_->request;
  ibv_sge& slice = next_staged_->slice;
  SendSlot& slot = queue.take_slot(queue.posted, is_detached ? nullptr : &request);
  ++outstanding_;
  const bool is_word = is_atomic(request.verb);
  out.wr_id = reinterpret_cast<std::uintptr_t>(&slot);
  out.opcode = opcodes[static_cast<std::size_t>(request.verb)][request.has_immediate ? 1 : 0];
  out.send_flags = flags_of(queue, request, is_detached);
  out.imm_data = htobe32(request.immediate);
  out.num_sge = 1;
  if (is_word && !lands_in_place(request)) [[unlikely]] {
    slot.landing = take_landing_word(!is_detached);
    slice = {reinterpret_cast<std::uintptr_t>(&landing_[slot.landing]), 8,
             landing_memories_[queue.rail]->lkey};
  } else if (request.length != 0 || is_word) {
    const std::byte* given = inline_data != nullptr ? inline_data : request.local.data();
    const std::uintptr_t data = request.is_inline ? keep_inline(queue, given, request.length)
                                                  : reinterpret_cast<std::uintptr_t>(given);
    slice = {data, is_word ? 8 : request.length,
             static_cast<const VerbsRegion*>(request.local.region)->lkey(queue.rail)};
  } else {
    out.num_sge = 0;
  }
  address(out, queue, request);
  take(queue);
}

// Posts the queue pair's staged requests (those that wait for its doorbell) to the device.
void VerbsWorker::ring_doorbell(SendQueue& queue) {
  if (queue.qp.extended() != nullptr) [[unlikely]]
    return complete_built(queue);
  ibv_send_wr* bad = nullptr;
  queue.last_staged->next = nullptr;
  ibv_send_wr* const first = queue.before_staged.next;
  const int reason = ibv_post_send(queue.qp.get(), first, &bad);
  count_doorbell(queue);
  if (reason == 0) [[likely]] {
    queue.end_plain = queue.rung = queue.posted;
  } else {
    refuse_chain(queue, bad != nullptr ? bad : first);
  }
}

// Posts the queue pair's staged requests where ibv_wr_* have built them. The device takes all or none.
[[gnu::noinline]] void VerbsWorker::complete_built(SendQueue& queue) {
  const int reason = ibv_wr_complete(queue.qp.extended());
  count(counters_.built, queue.posted - queue.rung);
  count_doorbell(queue);
  if (reason == 0) [[likely]] {
    queue.end_plain = queue.rung = queue.posted;
  } else {
    refuse_staged(queue, queue.rung);
  }
}

// Counts the doorbell that gave the device the staged requests, and forgets their chain.
[[gnu::always_inline]] inline void VerbsWorker::count_doorbell(SendQueue& queue) {
  count(counters_.doorbells, 1);
  count(counters_.posted[queue.rail], queue.posted - queue.rung);
  queue.before_staged.next = nullptr;
  queue.last_staged = &queue.before_staged;
}

// Posts to the device all RECVs, and then all requests, that wait for a doorbell; RECVs first, because the
// answer to a request may need one of them. Not inlined, for the same reason as submit().
[[gnu::noinline]] void VerbsWorker::ring_doorbells() {
  if (staged_receives_ != 0) give_receives();
  for (SendQueue* queue = first_staged_; queue != nullptr; queue = queue->next_staged) {
    queue->is_staged = false;
    if (queue->has_staged()) ring_doorbell(*queue);
  }
  first_staged_ = nullptr;
  next_staged_ = staging_.data();
}

// Handles a failed ibv_post_send: the device has taken the requests of the chain before `bad`, but not `bad`
// and those after it.
[[gnu::noinline]] void VerbsWorker::refuse_chain(SendQueue& queue, const ibv_send_wr* bad) {
  const auto& refused = *reinterpret_cast<const SendSlot*>(bad->wr_id);
  LOCH_CHECK(refused.queue == &queue, "a request was refused that was not posted");
  refuse_staged(queue, refused.number);
}

// Ends the staged requests from number `first` on, which the device has not taken. The connection is cut,
// because unsignaled requests that the device has taken would otherwise stay outstanding until a later
// signaled request completes, which may never be posted.
void VerbsWorker::refuse_staged(SendQueue& queue, std::uint32_t first) {
  LOCH_CHECK(first - queue.rung < queue.posted - queue.rung, "a request was refused that was not posted");
  ++counters_.errors;
  for (std::uint32_t number = first; number != queue.posted; ++number) {
    SendSlot& slot = queue.slot_of(number);
    --outstanding_;
    free_landing_word(slot);
    if (slot.request != nullptr)
      finish(*slot.request, number == first ? WcStatus::local_error : WcStatus::flushed);
  }
  queue.posted = queue.rung = queue.end_plain = first;
  if (queue.key.transport != Transport::ud) cut(queue);  // a UD queue pair has no connection
}

// The queue pair of a READ or WRITE that is valid and can be added to the next doorbell's chain at once,
// which is the common case. Null: the request has to go through all checks.
[[gnu::always_inline]] inline SendQueue* VerbsWorker::plain_queue(const WorkRequest& request) const {
  if (request.verb > Verb::write || request.transport == Transport::ud || request.peer >= nodes_ ||
      request.local.region == nullptr || outstanding_ >= most_outstanding_)
    return nullptr;
  const Region& local = *request.local.region;
  const std::uint64_t length = request.length;
  const bool is_reliable = request.transport == Transport::rc;
  if (local.node() != node() || length > local.bytes() || request.local.offset > local.bytes() - length ||
      (request.verb == Verb::read && (request.is_inline || !is_reliable)) ||
      (request.is_inline && length > shared_->capabilities.max_inline_bytes))
    return nullptr;
  for (SendQueue* queue : is_reliable ? links_[request.peer].queues : unreliable_[request.peer]) {
    if (queue->key.peer_worker != request.peer_worker || queue->key.lane != request.lane) continue;
    // A queue pair in the state `ready` is connected, so its peer is known and need not be checked.
    return queue->is_free() ? queue : nullptr;
  }
  return nullptr;
}

// Adds a request for which plain_queue() found a queue pair to the next doorbell's chain: fills the device's
// work request.
[[gnu::always_inline]] inline void VerbsWorker::stage_plain(SendQueue& queue, WorkRequest& request,
                                                            bool is_detached) {
  ibv_send_wr& out = next_staged_->request;
  SendSlot& slot = queue.take_slot(queue.posted, is_detached ? nullptr : &request);
  ++outstanding_;
  out.wr_id = reinterpret_cast<std::uintptr_t>(&slot);
  out.opcode = opcodes[static_cast<std::size_t>(request.verb)][request.has_immediate ? 1 : 0];
  out.imm_data = htobe32(request.immediate);
  out.send_flags = flags_of(queue, request, is_detached);
  out.num_sge = request.length != 0 ? 1 : 0;
  const auto& region = *static_cast<const VerbsRegion*>(request.local.region);
  std::uintptr_t data = region.address() + request.local.offset;
  if (request.is_inline) [[unlikely]]
    data = keep_inline(queue, reinterpret_cast<const std::byte*>(data), request.length);
  next_staged_->slice = {data, request.length, region.lkey(queue.rail)};
  const Peer& peer = *shared_->peers[request.peer].load(std::memory_order_acquire);
  out.wr.rdma.remote_addr = address_of(peer, request);
  out.wr.rdma.rkey = request.remote.rkey;
  take(queue);
}

// Posts a request like stage_straight(), to a queue pair whose requests are built in the device's send queue
// at once. Calls functions of the device's library last, so that few registers are saved across them.
[[gnu::noinline]] void VerbsWorker::build_straight(SendQueue& queue, WorkRequest& request, bool is_detached) {
  const auto& region = *static_cast<const VerbsRegion*>(request.local.region);
  const std::uint64_t begin = request.local.offset, end = begin + request.length;
  const Peer& peer = *peers_[request.peer].load(std::memory_order_acquire);
  if (end <= begin || end > region.bytes() || region.node() != node() || request.remote.id >= peer.regions)
      [[unlikely]]
    return submit(request, is_detached);
  if (!is_detached) owed_ += request.sink != nullptr ? 1 : 0;
  ibv_qp_ex* const to = queue.qp.extended();
  const bool is_first = !queue.has_staged();
  to->wr_flags = straight_flags(queue, is_detached);
  SendSlot& slot = queue.take_slot(queue.posted, is_detached ? nullptr : &request);
  to->wr_id = reinterpret_cast<std::uintptr_t>(&slot);
  ++outstanding_;
  take_into(queue, *next_staged_);
  if (is_first) ibv_wr_start(to);
  const std::uint64_t at = peer.addresses[request.remote.id] + request.remote_offset;
  (request.verb == Verb::read ? to->wr_rdma_read : to->wr_rdma_write)(to, request.remote.rkey, at);
  ibv_wr_set_sge(to, region.lkey(queue.rail), region.address() + begin, request.length);
  if (next_staged_ >= ring_at_) ring_doorbells();
}

// Stages (adds to the next doorbell's chain) a READ or WRITE for which is_straight() holds, the most frequent
// kind of request, if it goes to worker 0 of a connected peer and its send queue has room. After
// Straight::staged the caller rings the doorbell as its last action, so that it need not save registers
// across that call.
[[gnu::always_inline]] inline VerbsWorker::Straight VerbsWorker::stage_straight(WorkRequest& request,
                                                                                bool is_detached) {
  const std::uint32_t to = peer_if_worker_0(request);
  if (!is_straight(request, is_detached) || to >= nodes_ || request.local.region == nullptr ||
      outstanding_ >= most_outstanding_)
    return Straight::no;
  SendQueue& queue = *straight_[to];
  const auto& region = *static_cast<const VerbsRegion*>(request.local.region);
  const std::uint32_t length = request.length;
  const std::uint64_t begin = request.local.offset, end = begin + length;
  if (!queue.is_free()) [[unlikely]]
    return Straight::no;
  if (queue.qp.extended() != nullptr) [[unlikely]] {
    build_straight(queue, request, is_detached);
    return Straight::posted;
  }
  const std::uint32_t number = queue.posted;
  // An empty request, and one whose end is beyond the largest number, does not end behind its beginning.
  if (end <= begin) [[unlikely]]
    return Straight::no;
  if (end > region.bytes() || region.node() != node()) [[unlikely]]
    return Straight::no;
  // What is written to *next_staged_ from here on has no effect before take_into(). It is written as soon as
  // it is known, so that few registers are in use at a time.
  Staged& staged = *next_staged_;
  ibv_send_wr& out = staged.request;
  staged.slice = {region.address() + begin, length, region.lkey(queue.rail)};
  // The queue pair is in the state `ready`, that is connected, so its peer is known and need not be checked.
  const Peer& peer = *peers_[to].load(std::memory_order_acquire);
  if (request.remote.id >= peer.regions) [[unlikely]]
    return Straight::no;
  out.wr.rdma.remote_addr = peer.addresses[request.remote.id] + request.remote_offset;
  out.wr.rdma.rkey = request.remote.rkey;
  set_opcode<IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE>(out, static_cast<std::size_t>(request.verb));
  out.send_flags = straight_flags(queue, is_detached);
  SendSlot& slot = queue.take_slot(number, is_detached ? nullptr : &request);
  out.wr_id = reinterpret_cast<std::uintptr_t>(&slot);
  ++outstanding_;
  take_into(queue, staged);
  return Straight::staged;
}

// Posts a request for which is_datagram() holds: adds it to the next doorbell's chain if its receiver is
// known and nothing about it is special (it is neither empty nor too long, there is one rail, the send queue
// has room, requests are posted as a chain); any other is left to submit_any().
template <bool is_detached>
[[gnu::noinline]] void VerbsWorker::post_datagram(WorkRequest& request) {
  if (request.peer >= nodes_ || request.lane >= plain_lanes_ || request.local.region == nullptr ||
      outstanding_ >= most_outstanding_) [[unlikely]]
    return submit_any(request, is_detached);
  SendQueue& queue = *rails_.front().datagram_lanes[request.lane];
  const auto& region = *static_cast<const VerbsRegion*>(request.local.region);
  const std::uint32_t length = request.length;
  const std::uint64_t begin = request.local.offset, end = begin + length;
  const Peer* const peer = peers_[request.peer].load(std::memory_order_acquire);
  if (!queue.is_free() || end <= begin || end > region.bytes() || region.node() != node() ||
      length > datagram_most_[request.is_inline ? 1 : 0] || peer == nullptr ||
      request.peer_worker >= peer->workers) [[unlikely]]
    return submit_any(request, is_detached);
  Staged& staged = *next_staged_;
  ibv_send_wr& out = staged.request;
  out.wr.ud.remote_qpn = peer->datagram_qpn[request.peer_worker];
  if (out.wr.ud.remote_qpn == 0) [[unlikely]]
    return submit_any(request, is_detached);
  out.wr.ud.ah = peer->address_handle;
  out.wr.ud.remote_qkey = qkey_;
  set_opcode<IBV_WR_SEND, IBV_WR_SEND_WITH_IMM>(out, request.has_immediate ? 1 : 0);
  out.imm_data = htobe32(request.immediate);
  out.send_flags = flags_of(queue, request, is_detached);
  std::uintptr_t data = region.address() + begin;
  if (request.is_inline) {
    copy_message(staged.inline_data, reinterpret_cast<const std::byte*>(data), length);
    data = reinterpret_cast<std::uintptr_t>(staged.inline_data);
  }
  staged.slice = {data, length, region.lkey(0)};
  SendSlot& slot = queue.take_slot(queue.posted, is_detached ? nullptr : &request);
  out.wr_id = reinterpret_cast<std::uintptr_t>(&slot);
  ++outstanding_;
  if (!is_detached) owed_ += request.sink != nullptr ? 1 : 0;
  take_into(queue, staged);
  if (next_staged_ >= ring_at_) ring_doorbells();
}

// Not inlined, so that its callers' fast paths need not save registers.
[[gnu::noinline]] void VerbsWorker::submit(WorkRequest& request, bool is_detached) {
  SendQueue* const free = plain_queue(request);
  if (free == nullptr) [[unlikely]]
    return submit_any(request, is_detached);
  if (request.sink != nullptr && !is_detached) ++owed_;
  stage_plain(*free, request, is_detached);
}

// A single request of the most frequent kind calls no function unless doorbells have to be rung, so that no
// register is saved for it.
void VerbsWorker::do_post(WorkRequest* chain) {
  struct Several {
    [[gnu::noinline]] static void post(VerbsWorker* worker, WorkRequest* chain) {
      while (chain != nullptr) {
        WorkRequest* const next = chain->next;
        const Straight how = worker->stage_straight(*chain, false);
        if (how == Straight::no) {
          is_datagram(*chain) ? worker->post_datagram<false>(*chain) : worker->submit(*chain, false);
        } else if (how == Straight::staged) {
          worker->owed_ += chain->sink != nullptr ? 1 : 0;
          if (worker->next_staged_ >= worker->ring_at_) worker->ring_doorbells();
        }
        chain = next;
      }
    }
  };
  if (chain->next != nullptr) return Several::post(this, chain);
  const Straight how = stage_straight(*chain, false);
  if (how == Straight::posted) return;
  if (how == Straight::no) return is_datagram(*chain) ? post_datagram<false>(*chain) : submit(*chain, false);
  owed_ += chain->sink != nullptr ? 1 : 0;
  if (next_staged_ >= ring_at_) ring_doorbells();
}

// Posts an atomic for which nobody waits (post_detached()) on a device that returns the old word with its
// bytes reversed. The request is copied and made signaled, so that the worker can correct the word when the
// atomic completes.
void VerbsWorker::post_reversed(const WorkRequest& request) {
  Parked* kept = take_parked();
  kept->worker = this;
  kept->fn = [](CompletionSink* self, WorkRequest&) {
    auto* done = static_cast<Parked*>(self);
    done->worker->free_parked_.push_back(done);
  };
  kept->copy = request;
  kept->copy.is_signaled = true;
  kept->copy.sink = kept;
  kept->copy.next = nullptr;
  submit_any(kept->copy, false);
}

void VerbsWorker::do_post_detached(const WorkRequest& request) {
  if (is_atomic(request.verb) && request.local.region != nullptr && shared_->swaps_atomic_replies)
    return post_reversed(request);
  // The cast is safe: submit() only reads a request of post_detached(), and copies it if it must wait.
  auto& only_read = const_cast<WorkRequest&>(request);
  const Straight how = stage_straight(only_read, true);
  if (how == Straight::posted) return;
  if (how == Straight::no)
    return is_datagram(only_read) ? post_datagram<true>(only_read) : submit(only_read, true);
  if (next_staged_ >= ring_at_) ring_doorbells();
}

// Posts the requests that wait for room or for a connection, in their order on each queue pair, as far as its
// send queue has room.
bool VerbsWorker::poll_waiting() {
  bool moved = false;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < waiting_queues_.size(); ++i) {
    SendQueue& queue = *waiting_queues_[i];
    const SendQueue::State state = queue.state.load(std::memory_order_acquire);
    if (is_hopeless(queue)) {
      drop_parked(queue);
      moved = true;
    } else if (state == SendQueue::State::broken && queue.outstanding() == 0) {
      connect_again(queue);
    }
    while (queue.first_parked != nullptr && can_take(queue)) {
      Parked* waiting = queue.unpark();
      const bool is_detached = waiting->request == nullptr;
      WorkRequest& request = is_detached ? waiting->copy : *waiting->request;
      stage(queue, request, is_detached, request.is_inline ? waiting->inline_data : nullptr);
      free_parked_.push_back(waiting);
      moved = true;
    }
    if (queue.first_parked != nullptr) {
      waiting_queues_[kept++] = &queue;
    } else {
      queue.is_listed = false;
    }
  }
  waiting_queues_.resize(kept);
  return moved;
}

}  // namespace loch::fabric::verbs
