// Polls a worker's completion queues and receive queues, and reacts to peers that are lost or restarted.
#include "common/fabric/verbs/worker.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "common/fabric/memory.h"
#include "common/fabric/verbs/connector.h"
#include "common/fabric/verbs/device.h"

namespace loch::fabric::verbs {
namespace {

constexpr std::uint32_t polls_per_error_look = 16;
// length of the global routing header that starts a UD receive buffer
constexpr std::uint32_t grh_bytes = 40;
// The wr_id of a RECV: transport in the upper 32 bits, index of the receive buffer's slot in the lower.
constexpr std::uint64_t receive_id(Transport transport, std::uint32_t slot) {
  return static_cast<std::uint64_t>(transport) << 32 | slot;
}

WcStatus status_of(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return WcStatus::success;
    case IBV_WC_WR_FLUSH_ERR:
      return WcStatus::flushed;
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return WcStatus::rnr_exceeded;
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
      return WcStatus::remote_access;
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_LOC_PROT_ERR:
      return WcStatus::local_error;
    default:
      return WcStatus::retry_exceeded;  // the request may or may not have been executed
  }
}

Result<> no_completion_queue(int entries) {
  return fail(ErrorCode::exhausted, fmt::format("verbs: cannot create a completion queue of {}: {}", entries,
                                                std::strerror(errno)));
}

}  // namespace

VerbsWorker::VerbsWorker(const WorkerSpec& spec, std::uint64_t seed, Shared* shared)
    : RealtimeWorker(spec, seed, shared),
      shared_(shared),
      silence_(silence_most(shared->capabilities.request_lifetime)),
      nodes_(static_cast<std::uint32_t>(shared->peers.size())),
      has_control_(shared->control != nullptr),
      peers_(shared->peers.data()),
      rails_(shared->rails.size()),
      own_rail_(shared->rail_of(spec.node)),
      has_further_rails_(shared->rails.size() > 1),
      links_(shared->peers.size()),
      reach_(shared->peers.size()),
      straight_(shared->peers.size(), &no_queue_),
      unreliable_(shared->peers.size()) {
  completions_.reserve(256);
  completing_.reserve(256);
  for (std::size_t i = 0; i < staging_.size(); ++i) {
    staging_[i].request.sg_list = &staging_[i].slice;
    staging_[i].inline_data = staged_inline_[i].data();
  }
  for (StagedReceive& staged : staging_receives_) {
    staged.request.sg_list = &staged.slice;
    staged.request.num_sge = 1;
  }
}

VerbsWorker::~VerbsWorker() = default;

Result<> VerbsWorker::open() {
  const Device& device = *shared_->rails[own_rail_];
  const Capabilities& can = device.capabilities();
  most_outstanding_ = std::numeric_limits<std::uint32_t>::max();
  for (std::uint32_t rail = 0; rail < rails_.size(); ++rail) LOCH_TRY(open_rail(rail));
  first_send_cq_ = send_cq(0);
  const int receives_most = std::min(static_cast<int>(3 * can.recv_queue_depth), device.most_completions());
  receive_cq_.reset(ibv_create_cq(device.context(), receives_most, nullptr, nullptr, 0));
  if (receive_cq_ == nullptr) return no_completion_queue(receives_most);
  for (const Transport transport : {Transport::rc, Transport::uc, Transport::ud}) {
    Receives& receives = receives_[static_cast<std::size_t>(transport)];
    receives.slots.resize(can.recv_queue_depth);
    receives.arrived.resize(can.recv_queue_depth);
    for (std::uint32_t slot = can.recv_queue_depth; slot-- > 0;) receives.free.push_back(slot);
  }
  if (spec().receives_rc) LOCH_TRY(open_receives(Transport::rc));
  if (spec().receives_uc && can.uc) LOCH_TRY(open_receives(Transport::uc));
  if (shared_->capabilities.atomic_scope != AtomicScope::none) LOCH_TRY(open_landing());
  if (!shared_->capabilities.ud) return {};
  LOCH_TRY(open_datagram_lane(datagram_, own_rail_, can.recv_queue_depth));
  for (std::uint32_t rail = 0; rail < rails_.size(); ++rail) {
    for (std::uint32_t lane = rail == own_rail_ ? 1 : 0; lane < std::max(spec().ud_lanes, 1u); ++lane) {
      auto made = std::make_unique<SendQueue>();
      LOCH_TRY(open_datagram_lane(*made, rail, 0));
      queues_.push_back(std::move(made));
    }
  }
  if (!has_further_rails_ && datagram_.qp.extended() == nullptr)
    plain_lanes_ = static_cast<std::uint32_t>(rails_.front().datagram_lanes.size());
  return {};
}

// Creates the completion queue of the requests that this worker posts by one rail.
Result<> VerbsWorker::open_rail(std::uint32_t rail) {
  const Device& device = *shared_->rails[rail];
  Rail& made = rails_[rail];
  if (shared_->doorbells != DoorbellSharing::shared) made.domain = device.make_worker_domain();
  if (shared_->doorbells == DoorbellSharing::own && made.domain.domain == nullptr)
    return fail(ErrorCode::unsupported,
                fmt::format("verbs: {} makes no thread domain, and so no doorbell register of its own, for "
                            "worker {} of node {} ({}); without: --doorbells auto or shared",
                            device.name(), spec().index, node(), std::strerror(errno)));
  const int sends = std::min(most_completions, device.most_completions());
  made.send_cq = device.make_private_queue(sends, made.domain.domain.get());
  if (made.send_cq == nullptr) return no_completion_queue(sends);
  most_outstanding_ = std::min(most_outstanding_, static_cast<std::uint32_t>(made.send_cq->cqe));
  return {};
}

// Creates the shared receive queue of all queue pairs of the transport that end at this worker.
Result<> VerbsWorker::open_receives(Transport transport) {
  const Device& device = *shared_->rails[own_rail_];
  ibv_srq_init_attr attributes{};
  attributes.attr.max_wr = device.capabilities().recv_queue_depth;
  attributes.attr.max_sge = 1;
  SharedReceiveQueue& queue = shared_receives_[static_cast<std::size_t>(transport)];
  queue.reset(ibv_create_srq(device.pd(), &attributes));
  if (queue != nullptr) return {};
  return fail(ErrorCode::exhausted,
              fmt::format("verbs: cannot create a shared receive queue: {}", std::strerror(errno)));
}

// Registers the words to which the device writes the old words of atomics (landing words): one for each
// request that can be outstanding, and one for all atomics whose old word nobody needs.
Result<> VerbsWorker::open_landing() {
  landing_.resize(std::size_t{most_outstanding_} + 1);
  free_landing_.reserve(most_outstanding_);
  for (std::uint32_t word = most_outstanding_; word != 0; --word) free_landing_.push_back(word);
  for (const Device* device : shared_->rails) {
    landing_memories_.emplace_back(ibv_reg_mr(device->pd(), landing_.data(),
                                              landing_.size() * sizeof(std::uint64_t),
                                              static_cast<int>(IBV_ACCESS_LOCAL_WRITE)));
    if (landing_memories_.back() != nullptr) continue;
    return fail(ErrorCode::exhausted,
                fmt::format("verbs: cannot register memory: {} (memlock limit: ./loch doctor)",
                            std::strerror(errno)));
  }
  return {};
}

std::uint32_t VerbsWorker::take_landing_word(bool is_heard) {
  if (!is_heard) return 0;
  // The list of free words for atomics' old values is not empty, because there are as many words as requests
  // that can be outstanding.
  const std::uint32_t word = free_landing_.back();
  free_landing_.pop_back();
  return word;
}

void VerbsWorker::free_landing_word(SendSlot& slot) {
  if (slot.landing != 0) free_landing_.push_back(std::exchange(slot.landing, 0));
}

Result<> VerbsWorker::open_datagram_lane(SendQueue& lane, std::uint32_t rail, std::uint32_t receive_depth) {
  const Device& device = *shared_->rails[rail];
  const Capabilities& can = device.capabilities();
  lane.key.transport = Transport::ud;
  lane.rail = rail;
  lane.prepare(std::bit_floor(can.send_queue_depth));
  // A queue pair of another rail than the node's own receives nothing, but needs a completion queue of its
  // device.
  ibv_cq* receives = rail == own_rail_ ? receive_cq_.get() : send_cq(rail);
  LOCH_ASSIGN(lane.qp, QueuePair::create(pd(rail), {Transport::ud, send_cq(rail), receives, nullptr,
                                                    lane.depth, receive_depth, can.max_inline_bytes,
                                                    device.operations(Transport::ud)}));
  rails_[rail].datagram_lanes.push_back(&lane);
  return {};
}

// On Soft-RoCE a doorbell is a system call on the device's file. In a file table that threads share, the
// kernel counts each use of a file, which costs time; so this thread gets a file table of its own. If the
// kernel refuses that, doorbells are slower, but still work.
void VerbsWorker::enter_thread() {
  if (shared_->has_software()) (void)unshare(CLONE_FILES);
  set_most_staged(batch);
}

Result<> VerbsWorker::open_datagram(std::uint32_t qkey) {
  const Capabilities& can = shared_->capabilities;
  qkey_ = qkey;
  datagram_most_ = {can.mtu_bytes, std::min(can.max_inline_bytes, can.mtu_bytes)};
  for (const Rail& rail : rails_) {
    for (SendQueue* lane : rail.datagram_lanes) {
      LOCH_TRY(lane->qp.make_datagram(shared_->rails[lane->rail]->port(), qkey));
      lane->state = SendQueue::State::ready;
    }
  }
  return {};
}

std::vector<DatagramSender> VerbsWorker::further_datagram_senders() const {
  std::vector<DatagramSender> all;
  for (const Rail& rail : rails_) {
    for (const SendQueue* lane : rail.datagram_lanes) {
      if (lane != &datagram_) all.push_back({lane->qp.qpn(), static_cast<std::uint8_t>(lane->rail)});
    }
  }
  return all;
}

SendQueue& VerbsWorker::queue(const LinkKey& key) {
  auto& queues = key.transport == Transport::rc ? links_.at(key.peer).queues : unreliable_.at(key.peer);
  for (SendQueue* queue : queues) {
    if (queue->key == key) return *queue;
  }
  queues_.push_back(std::make_unique<SendQueue>());
  SendQueue& made = *queues_.back();
  made.key = key;
  made.rail = shared_->rail_of(key.peer);
  queues.push_back(&made);
  if (key.transport == Transport::rc && key.lane == 0 && key.peer_worker == 0) straight_[key.peer] = &made;
  return made;
}

bool VerbsWorker::connected(NodeId peer) const {
  if (peer >= nodes_) [[unlikely]]
    no_such_peer(peer);
  if (reach_[peer].failed != 0) return false;
  return !has_control_ || connected_by_control(peer);
}

bool VerbsWorker::is_connected_since(NodeId peer, std::uint32_t since) const {
  if (peer >= nodes_) [[unlikely]]
    no_such_peer(peer);
  if (std::bit_cast<std::uint64_t>(reach_[peer]) != std::bit_cast<std::uint64_t>(Reach{0, since}))
    return false;
  return !has_control_ || connected_by_control(peer);
}

bool VerbsWorker::connected_by_control(NodeId peer) const {
  return links_[peer].incarnation == shared_->incarnations[peer].load(std::memory_order_relaxed) &&
         !shared_->is_lost(peer);
}

void VerbsWorker::no_such_peer(NodeId peer) const {
  LOCH_CHECK(peer < nodes_, "a question about node {} of {}", peer, nodes_);
  std::unreachable();
}

void VerbsWorker::post_recv(Transport transport, LocalSlice buffer, std::uint32_t length,
                            std::uint64_t user) {
  LOCH_CHECK(buffer.region != nullptr && buffer.region->node() == node() &&
                 length <= buffer.region->bytes() && buffer.offset <= buffer.region->bytes() - length,
             "a receive buffer lies in a region of its own node");
  Receives& receives = receives_[static_cast<std::size_t>(transport)];
  LOCH_CHECK(transport == Transport::ud || shared_receives(transport) != nullptr,
             "a RECV for {}, of which the worker's spec knows nothing", name(transport));
  LOCH_CHECK(!receives.free.empty(), "more receives are posted than the queue is deep");
  const std::uint32_t slot = receives.free.back();
  receives.free.pop_back();
  receives.slots[slot] = {buffer, length, user};
  StagedReceive& staged = staging_receives_[staged_receives_];
  staged.request.wr_id = receive_id(transport, slot);
  staged.request.next = nullptr;
  staged.slice = {reinterpret_cast<std::uintptr_t>(buffer.data()), length,
                  static_cast<const VerbsRegion*>(buffer.region)->lkey(own_rail_)};
  (receives.first_staged == nullptr ? receives.first_staged : receives.last_staged->next) = &staged.request;
  receives.last_staged = &staged.request;
  ++posted_receives_;
  if (++staged_receives_ >= most_staged_) give_receives();
}

void VerbsWorker::give_receives() {
  for (const Transport transport : {Transport::rc, Transport::uc, Transport::ud}) {
    ibv_recv_wr* const first =
        std::exchange(receives_[static_cast<std::size_t>(transport)].first_staged, nullptr);
    if (first == nullptr) continue;
    ibv_recv_wr* bad = nullptr;
    const int reason = transport == Transport::ud
                           ? ibv_post_recv(datagram_.qp.get(), first, &bad)
                           : ibv_post_srq_recv(shared_receives(transport), first, &bad);
    if (reason != 0) give_up(fmt::format("a RECV was not taken: {}", std::strerror(reason)));
  }
  staged_receives_ = 0;
}

void VerbsWorker::arrive(const ibv_wc& wc) {
  const auto transport = static_cast<Transport>(wc.wr_id >> 32);
  const auto slot = static_cast<std::uint32_t>(wc.wr_id);
  Receives& receives = receives_[static_cast<std::size_t>(transport)];
  const ReceiveSlot posted = receives.slots.at(slot);
  receives.free.push_back(slot);
  --posted_receives_;
  const auto* start = posted.buffer.data();
  std::optional<Source> source;
  if (transport == Transport::ud) {
    const DatagramSources* senders = shared_->datagram_sources[own_rail_].load(std::memory_order_acquire);
    if (wc.status == IBV_WC_SUCCESS && senders != nullptr)
      source = senders->find(wc.src_qp, wc.slid, (wc.wc_flags & IBV_WC_GRH) != 0 ? start : nullptr);
  } else {
    source = sources_.find(wc.qp_num);
  }
  if (wc.status != IBV_WC_SUCCESS || !source) {
    // The RECV failed, or the sender is not part of this run. The buffer is posted again for the next
    // message.
    ++(wc.status != IBV_WC_SUCCESS ? counters_.errors : counters_.unknown_source);
    post_recv(transport, posted.buffer, posted.length, posted.user);
    return;
  }
  Received& message = receives.arrived[receives.wrapped(receives.first + receives.count)];
  ++receives.count;
  message = {};
  message.from = source->node;
  message.from_worker = source->worker;
  message.length = transport == Transport::ud ? wc.byte_len - grh_bytes : wc.byte_len;
  message.has_immediate = (wc.wc_flags & IBV_WC_WITH_IMM) != 0;
  message.immediate = message.has_immediate ? be32toh(wc.imm_data) : 0;
  message.buffer = posted.buffer;
  message.user = posted.user;
}

bool VerbsWorker::drain_receives() {
  if (posted_receives_ == 0) return false;
  const int count = ibv_poll_cq(receive_cq_.get(), static_cast<int>(batch), completed_.data());
  if (count < 0) give_up("a receive completion queue is gone");
  for (int i = 0; i < count; ++i) arrive(completed_[static_cast<std::size_t>(i)]);
  if (staged_receives_ != 0) give_receives();
  return count != 0;
}

bool VerbsWorker::poll_arrivals(Transport transport, ReceiveWait*& waiters) {
  Receives& receives = receives_[static_cast<std::size_t>(transport)];
  if (receives.count == 0 && !drain_receives()) return false;
  bool moved = false;
  while (waiters != nullptr && receives.count != 0) {
    waiters->result = receives.arrived[receives.first];
    receives.first = receives.wrapped(receives.first + 1);
    --receives.count;
    finish_receive(waiters);
    moved = true;
  }
  return moved;
}

// Sets `result` of an atomic that succeeded to the old word, in host byte order, and stores it in the local
// slice if there is one.
void VerbsWorker::take_old_word(const SendSlot& slot, WorkRequest& request) {
  if (lands_in_place(request)) {
    request.result = load_word(request.local.data());
    return;
  }
  request.result = load_word(reinterpret_cast<const std::byte*>(&landing_[slot.landing]));
  if (shared_->device_to(request.peer).swaps_atomic_replies()) request.result = std::byteswap(request.result);
  if (request.local.region != nullptr) store_word_release(request.local.data(), request.result);
}

// Removes the oldest `count` requests from the outstanding ones of the queue pair. They are unsignaled and
// have succeeded, because a request that fails has a completion of its own.
void VerbsWorker::retire_silent(SendQueue& queue, std::uint32_t count) {
  for (const std::uint32_t end = queue.retired + count; queue.retired != end; ++queue.retired) {
    SendSlot& slot = queue.slot_of(queue.retired);
    if (slot.request != nullptr && is_atomic(slot.request->verb)) take_old_word(slot, *slot.request);
    free_landing_word(slot);
  }
}

// Handles a completion in the common case: retires the oldest request of the send queue if it succeeded and
// is no atomic. All other cases are left to retire_any(), which also refuses a completion that no request
// waits for.
[[gnu::always_inline]] inline void VerbsWorker::retire(const ibv_wc& wc) {
  const SendSlot& slot = *reinterpret_cast<const SendSlot*>(wc.wr_id);
  SendQueue& queue = *slot.queue;
  WorkRequest* const request = slot.request;
  // In the numbers of the enum Verb, of the verbs that complete only the atomics have this bit.
  constexpr unsigned atomic_bit = 2;
  static_assert(((static_cast<unsigned>(Verb::read) | static_cast<unsigned>(Verb::write) |
                  static_cast<unsigned>(Verb::send)) &
                 atomic_bit) == 0 &&
                (static_cast<unsigned>(Verb::cas) & static_cast<unsigned>(Verb::faa) & atomic_bit) != 0);
  if (wc.status != IBV_WC_SUCCESS || slot.number != queue.retired || slot.number == queue.end_plain ||
      request == nullptr || request->sink == nullptr ||
      (static_cast<unsigned>(request->verb) & atomic_bit) != 0) [[unlikely]]
    return retire_any(wc);
  ++queue.retired;
  --outstanding_;
  --owed_;
  request->status = WcStatus::success;
  request->sink->fn(request->sink, *request);
}

bool VerbsWorker::is_hopeless(const SendQueue& queue) const {
  const SendQueue::State state = queue.state.load(std::memory_order_acquire);
  if (state == SendQueue::State::failed || state == SendQueue::State::refused) return true;
  return state != SendQueue::State::ready && queue.key.transport != Transport::ud &&
         shared_->is_lost(queue.key.peer);
}

// Ends the requests that wait on a queue pair that cannot be connected. RC requests complete with an error;
// UC requests complete as successes, because the contract allows lost UC messages.
void VerbsWorker::drop_parked(SendQueue& queue) {
  const bool is_reliable = queue.key.transport == Transport::rc;
  if (SendQueue::State refused = SendQueue::State::refused;
      queue.state.compare_exchange_strong(
          refused, is_reliable ? SendQueue::State::failed : SendQueue::State::broken) &&
      is_reliable) {
    ++reach_[queue.key.peer].failed;
  }
  WcStatus status = is_reliable ? WcStatus::retry_exceeded : WcStatus::success;
  while (queue.first_parked != nullptr) {
    Parked* waiting = queue.unpark();
    if (waiting->request != nullptr) finish(*waiting->request, status);
    free_parked_.push_back(waiting);
    if (is_reliable) status = WcStatus::flushed;
  }
}

// Retires the completed request and all outstanding ones before it in its send queue.
void VerbsWorker::retire_any(const ibv_wc& wc) {
  SendSlot& slot = *reinterpret_cast<SendSlot*>(wc.wr_id);
  SendQueue& queue = *slot.queue;
  const std::uint32_t before = slot.number - queue.retired;
  LOCH_CHECK(before < queue.rung - queue.retired, "a completion of request {} with {} to {} outstanding",
             slot.number, queue.retired, queue.rung);
  if (before != 0) retire_silent(queue, before);
  ++queue.retired;
  outstanding_ -= before + 1;
  if (queue.needs_marker) [[unlikely]]
    drain(queue);
  WcStatus status = status_of(wc.status);
  if (status != WcStatus::success) [[unlikely]] {
    if (status == WcStatus::flushed && queue.is_cut) status = WcStatus::retry_exceeded;
    ++counters_.errors;
    mark_failed(queue);
  }
  WorkRequest* const request = slot.request;
  if (request == nullptr) return free_landing_word(slot);
  request->status = status;
  if (is_atomic(request->verb)) {
    if (status == WcStatus::success) take_old_word(slot, *request);
    free_landing_word(slot);
  }
  if (request->sink == nullptr) return;
  --owed_;
  request->sink->fn(request->sink, *request);
}

// Retires the requests whose completions are in the queue, at most as many as one poll takes; returns how
// many completions there were.
[[gnu::always_inline]] inline std::uint32_t VerbsWorker::poll_completions(ibv_cq* cq) {
  const int count = ibv_poll_cq(cq, static_cast<int>(batch), completed_.data());
  if (count < 0) give_up("a send completion queue is gone");
  for (int i = 0; i < count; ++i) retire(completed_[static_cast<std::size_t>(i)]);
  return static_cast<std::uint32_t>(count);
}

// Returns whether a rail but the first had a completion.
[[gnu::noinline]] bool VerbsWorker::poll_further_rails() {
  std::uint32_t count = 0;
  for (std::uint32_t rail = 1; rail < rails_.size(); ++rail) count += poll_completions(send_cq(rail));
  return count != 0;
}

bool VerbsWorker::poll_sends() {
  const std::uint32_t count = poll_completions(first_send_cq_);
  const bool has_more = has_further_rails_ && poll_further_rails();
  if (count != 0 || has_more) {
    silence_.end();
    return true;
  }
  if (owed_ != 0 && outstanding_ != 0 && silence_.is_over([this] { return now(); })) [[unlikely]]
    report_silence();
  return false;
}

// Ends the run with an error, because the device has completed none of the outstanding requests for too long,
// and they cannot be taken back.
void VerbsWorker::report_silence() {
  if (shared_->has_failed.load(std::memory_order_relaxed)) return;
  std::set<NodeId> peers;
  std::set<std::string> devices;
  for (const auto& queue : queues_) {
    if (queue == nullptr || queue->outstanding() == 0) continue;
    if (queue->key.transport != Transport::ud) peers.insert(queue->key.peer);
    devices.insert(shared_->rails[queue->rail]->name());
  }
  if (datagram_.outstanding() != 0) devices.insert(shared_->rails[own_rail_]->name());
  shared_->fail(
      fmt::format("verbs: {} gives no completion of {} requests of worker \"{}\" of node {} to node {} for "
                  "{}: the device "
                  "or its driver hangs (dmesg, ./loch doctor)",
                  fmt::join(devices, ", "), outstanding_, spec().name, node(), fmt::join(peers, ", "),
                  format_duration(silence_most(shared_->capabilities.request_lifetime))));
}

void VerbsWorker::adopt_incarnations() {
  for (std::size_t peer = 0; peer < links_.size(); ++peer)
    links_[peer].incarnation = shared_->incarnations[peer].load();
}

// Cuts the queue pairs to lost peers at once, before the device's time-outs expire. Also cuts queue pairs
// that were connected before a peer restarted, because the addresses of its former regions are void. The link
// to a restarted peer counts as failed until reconnect(), even if it had no connected queue pair.
void VerbsWorker::heed_incarnations() {
  for (std::size_t peer = 0; peer < links_.size(); ++peer) {
    Link& link = links_[peer];
    if (shared_->control != nullptr && shared_->control->is_lost(static_cast<std::uint32_t>(peer))) {
      for (SendQueue* queue : link.queues) cut(*queue);
      continue;
    }
    const std::uint32_t incarnation = shared_->incarnations[peer].load(std::memory_order_acquire);
    if (link.incarnation == incarnation) continue;
    link.incarnation = incarnation;
    for (SendQueue* queue : link.queues) leave(*queue);
    for (SendQueue* queue : unreliable_[peer]) leave(*queue);
    if (reach_[peer].failed == 0) ++reach_[peer].failed;
  }
}

// Asks the connector to connect a queue pair without outstanding requests again. This thread resets the queue
// pair, because the provider then removes its completions from the completion queue that this thread polls.
// An error of the reset is ignored here: the connector meets it again and reports it.
void VerbsWorker::connect_again(SendQueue& queue) {
  if (queue.qp) (void)queue.qp.reset();
  queue.state = SendQueue::State::connecting;
  shared_->connector->connect_later(*this, queue);
}

void VerbsWorker::leave(SendQueue& queue) {
  if (queue.incarnation != links_[queue.key.peer].incarnation) cut(queue);
}

void VerbsWorker::cut(SendQueue& queue) {
  // ring_doorbell() itself cuts the queue pair if the device refuses one of the requests that wait for the
  // doorbell
  if (queue.has_staged()) ring_doorbell(queue);
  if (queue.state != SendQueue::State::ready) return;
  mark_failed(queue);
  queue.is_cut = true;
  if (auto ok = queue.qp.cut(); !ok) ++counters_.errors;  // outstanding requests complete as flushed
  drain(queue);
}

// Posts a last, signaled request to a queue pair that was cut. The device flushes it; its completion retires
// the unsignaled requests before it that were executed before the cut and have no completions of their own.
void VerbsWorker::drain(SendQueue& queue) {
  // True: the send queue is full, so that no request can be posted; the next completion calls drain() again.
  queue.needs_marker = queue.outstanding() != 0 && !queue.has_room();
  queue.end_plain = queue.needs_marker ? queue.retired : queue.rung;
  if (queue.outstanding() == 0 || queue.needs_marker) return;
  SendSlot& slot = queue.take_slot(queue.posted, nullptr);
  ibv_send_wr marker{};
  marker.wr_id = reinterpret_cast<std::uintptr_t>(&slot);
  marker.opcode = IBV_WR_RDMA_WRITE;
  marker.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(queue.qp.get(), &marker, &bad) != 0)
    give_up("a queue pair that was cut takes no request, so that it cannot be drained");
  queue.rung = queue.end_plain = queue.posted;
  ++outstanding_;
}

// Handles a notice that a connection came up, was refused or broke at its other end, or that a peer was lost
// or came back.
void VerbsWorker::heed_notices() {
  heed_incarnations();
  for (const auto& queue : queues_) {
    if (queue->first_parked == nullptr || queue->is_listed) continue;
    queue->is_listed = true;
    waiting_queues_.push_back(queue.get());
  }
}

bool VerbsWorker::poll_device() {
  bool moved = false;
  if (!completions_.empty()) [[unlikely]] {
    completing_.swap(completions_);
    for (WorkRequest* done : completing_) {
      --owed_;
      done->sink->fn(done->sink, *done);
    }
    completing_.clear();
    silence_.end();
    moved = true;
  }
  // If no request awaits a completion, the completion queue is polled only now and then, to find unsignaled
  // requests that failed.
  if (owed_ != 0 || (outstanding_ != 0 && polls_++ % polls_per_error_look == 0)) moved |= poll_sends();
  if (has_notice_.load(std::memory_order_relaxed)) [[unlikely]] {
    has_notice_.store(false, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    heed_notices();
  }
  if (!waiting_queues_.empty()) [[unlikely]]
    moved |= poll_waiting();
  end_turn();
  return moved;
}

void VerbsWorker::mark_failed(SendQueue& queue) {
  if (queue.key.transport == Transport::ud)
    return;  // a UD queue pair has no connection that a peer could break
  SendQueue::State expected = SendQueue::State::ready;
  if (queue.key.transport == Transport::uc) {
    queue.state.compare_exchange_strong(expected, SendQueue::State::broken);
  } else if (queue.state.compare_exchange_strong(expected, SendQueue::State::failed)) {
    ++reach_[queue.key.peer].failed;
  }
}

// Called repeatedly to reconnect to a peer. Once no failed queue pair to the peer has requests outstanding,
// starts connecting them again. Returns true when they are connected; the connection then has a new number
// (epoch()).
bool VerbsWorker::try_reconnect(NodeId peer) {
  Link& link = links_.at(peer);
  if (shared_->is_lost(peer)) return false;
  heed_incarnations();
  if (reach_[peer].failed == 0) return true;
  if (!link.is_reconnecting) {
    for (const SendQueue* queue : link.queues) {
      if (queue->state == SendQueue::State::failed && queue->outstanding() != 0) return false;
    }
    for (SendQueue* queue : link.queues) {
      const SendQueue::State state = queue->state;
      if (state != SendQueue::State::failed && state != SendQueue::State::refused) continue;
      connect_again(*queue);
    }
    link.is_reconnecting = true;
    return false;
  }
  bool is_refused = false;
  for (const SendQueue* queue : link.queues) {
    if (queue->state == SendQueue::State::connecting) return false;
    is_refused |= queue->state == SendQueue::State::refused;
  }
  link.is_reconnecting = false;
  if (is_refused) return false;  // the next call asks the peer again
  for (SendQueue* queue : link.queues) {
    leave(*queue);  // marks the queue pair as failed if it was connected just before the peer restarted
    if (queue->state != SendQueue::State::ready) return false;
  }
  reach_[peer].failed = 0;
  ++reach_[peer].epoch;
  return true;
}

}  // namespace loch::fabric::verbs
