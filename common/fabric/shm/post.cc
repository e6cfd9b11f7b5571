// Executes work requests on the issuing thread, as a NIC would.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstring>

#include "common/base/check.h"
#include "common/fabric/memory.h"
#include "common/fabric/shm/worker.h"

namespace loch::fabric::shm {
namespace {

constexpr std::uint32_t grh_bytes = 40;  // the global routing header at the start of a UD receive buffer

[[nodiscard]] std::uint64_t lane_bit(const WorkRequest& request) {
  LOCH_CHECK(request.lane < 64, "a worker has at most 64 queue pairs to a peer");
  return std::uint64_t{1} << request.lane;
}

[[nodiscard]] std::uint32_t right_for(Verb verb) {
  if (verb == Verb::read) return MappedRegion::can_read;
  return verb == Verb::write ? MappedRegion::can_write : MappedRegion::can_atomic;
}

std::uint64_t swap_word(std::byte* word, const WorkRequest& request) {
  const std::atomic_ref<std::uint64_t> target(*reinterpret_cast<std::uint64_t*>(word));
  if (request.verb == Verb::faa) return target.fetch_add(request.operand, std::memory_order_acq_rel);
  std::uint64_t seen = request.compare;
  target.compare_exchange_strong(seen, request.operand, std::memory_order_acq_rel, std::memory_order_acquire);
  return seen;
}

// Whether a request is a READ over RC, or a WRITE over RC or UC without an immediate, whose inline data are
// not too long; compared as one word, from `verb` to `lane`.
[[gnu::always_inline]] inline bool is_plain(const WorkRequest& request) {
  using Head = std::array<std::uint8_t, 8>;
  static_assert(offsetof(WorkRequest, verb) == 0 && offsetof(WorkRequest, transport) == 1 &&
                offsetof(WorkRequest, is_inline) == 3 && offsetof(WorkRequest, has_immediate) == 5 &&
                sizeof(WorkRequest::verb) == 1 && static_cast<int>(Verb::write) == 1 &&
                static_cast<int>(Transport::rc) == 0 && static_cast<int>(Transport::uc) == 1);
  // A mask of all bits except those that tell READ from WRITE, RC from UC, and how the request ends.
  constexpr auto other = std::bit_cast<std::uint64_t>(Head{0xFE, 0xFE, 0, 0xFF, 0, 0xFF, 0, 0});
  std::uint64_t head;
  std::memcpy(&head, &request, sizeof head);
  const bool is_write = request.verb == Verb::write;
  if ((head & other) != 0) {
    constexpr auto inlined = std::bit_cast<std::uint64_t>(Head{0xFE, 0xFE, 0, 0, 0, 0xFF, 0, 0});
    return (head & inlined) == 0 && is_write && request.length <= ShmWorker::max_inline_bytes;
  }
  return is_write || request.transport == Transport::rc;
}

// Copies in ascending order of addresses between memories of which one does not begin with a whole 8-byte
// word: words of the memory at `words`, which is `to` or `from`, are loaded or stored at once.
void copy_askew(std::byte* to, const std::byte* from, std::size_t bytes, const std::byte* words) {
#if defined(__x86_64__) && !defined(LOCH_TSAN) && !defined(LOCH_ASAN)
  const std::size_t head = std::min<std::size_t>(-reinterpret_cast<std::uintptr_t>(words) & 7, bytes);
  copy_shared(to, from, head);
  to += head, from += head, bytes -= head;
  for (; bytes >= 8; bytes -= 8, to += 8, from += 8) {
    std::uint64_t word;
    asm volatile("movq (%2), %0\n\tmovq %0, (%1)" : "=&r"(word) : "r"(to), "r"(from) : "memory");
  }
#else
  (void)words;
#endif
  copy_shared(to, from, bytes);
}

// Copies the payload of a READ or WRITE. Eight aligned bytes are copied by one acquire load and one release
// store; other lengths by relaxed accesses between two fences. Requests of one queue pair thus take effect in
// order. `remote` is the one of `to` and `from` that lies in the peer's memory.
void transfer(std::byte* to, const std::byte* from, std::uint32_t bytes, const std::byte* remote) {
  if (bytes == 8 &&
      ((reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) & 7) == 0) {
    store_word_release(to, load_word(from));
    return;
  }
  std::atomic_thread_fence(std::memory_order_release);
  if (((reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) & 7) == 0) {
    copy_shared(to, from, bytes);
  } else {
    copy_askew(to, from, bytes, remote);
  }
  std::atomic_thread_fence(std::memory_order_acquire);
}

}  // namespace

WcStatus ShmWorker::check_local(const WorkRequest& request) const {
  if (request.peer >= links_.size()) return WcStatus::local_error;
  const Capabilities& can = shared_->capabilities;
  if (request.is_inline && (request.length > can.max_inline_bytes || request.verb == Verb::read)) {
    return WcStatus::local_error;
  }
  if (request.transport == Transport::ud && request.length > can.mtu_bytes) return WcStatus::local_error;
  const LocalSlice& local = request.local;
  if (local.region == nullptr) {
    return is_atomic(request.verb) || request.length == 0 ? WcStatus::success : WcStatus::local_error;
  }
  const std::uint64_t length = is_atomic(request.verb) ? 8 : request.length;
  if (local.region->node() != node() || length > local.region->bytes() ||
      local.offset > local.region->bytes() - length) {
    return WcStatus::local_error;
  }
  return WcStatus::success;
}

WcStatus ShmWorker::one_sided(WorkRequest& request, const std::byte* inline_data) {
  const NodeTable& table = shared_->nodes[request.peer];
  const RemoteRegion& remote = request.remote;
  const std::uint64_t length = is_atomic(request.verb) ? 8 : request.length;
  if (remote.node != request.peer || remote.id >= table.regions.size()) return WcStatus::remote_access;
  const MappedRegion& target = table.regions[remote.id];
  if (target.rkey != remote.rkey || (target.rights & right_for(request.verb)) == 0 || length > target.bytes ||
      request.remote_offset > target.bytes - length) {
    return WcStatus::remote_access;
  }
  std::byte* there = target.data + request.remote_offset;
  if (is_atomic(request.verb)) {
    if (request.remote_offset % 8 != 0) return WcStatus::remote_access;
    request.result = swap_word(there, request);
    if (request.local.region != nullptr) copy_to_shared(request.local.data(), &request.result, 8);
    ring_doorbells(request.peer, remote.id, request.remote_offset, 8);
  } else if (length != 0) {
    if (request.verb == Verb::read) {
      transfer(request.local.data(), there, request.length, there);
    } else {
      transfer(there, inline_data != nullptr ? inline_data : request.local.data(), request.length, there);
      ring_doorbells(request.peer, remote.id, request.remote_offset, length);
    }
  }
  return WcStatus::success;
}

void ShmWorker::ring_doorbells(NodeId node, std::uint32_t region, std::uint64_t offset, std::uint64_t bytes) {
  if (!shared_->is_crowded.load(std::memory_order_relaxed)) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (ReceiveArea* area : shared_->nodes[node].receive_areas) {
    if (area != nullptr && area->doorbell.awaits(region, offset, offset + bytes)) area->doorbell.ring();
  }
}

// Fills in the fields of a receive slot that describe its message, which has been copied to the slot's
// buffer, and gives the slot to the receiving worker.
[[gnu::always_inline]] inline void ShmWorker::hand_over(ReceiveSlot& slot, const WorkRequest& request,
                                                        Doorbell& doorbell) {
  slot.length = request.length;
  slot.from = node();
  slot.from_worker = index();
  slot.has_immediate = request.has_immediate;
  slot.immediate = request.immediate;
  ReceiveRing::finish(slot, ReceiveRing::filled);
  if (!shared_->is_crowded.load(std::memory_order_relaxed)) [[likely]]
    return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (doorbell.state.load(std::memory_order_relaxed) == Doorbell::asleep) doorbell.ring();
}

// Delivers a message, or the immediate of a WRITE, to a receive buffer of the peer's worker.
ShmWorker::Attempt ShmWorker::deliver(WorkRequest& request, const std::byte* payload,
                                      std::uint32_t payload_bytes) {
  const bool is_reliable = request.transport == Transport::rc;
  request.status = WcStatus::success;
  const auto& areas = shared_->nodes[request.peer].receive_areas;
  if (request.peer_worker >= areas.size() || areas[request.peer_worker] == nullptr) {
    if (is_reliable) request.status = WcStatus::retry_exceeded;
    return Attempt::done;
  }
  if (shared_->is_lost(request.peer)) {
    if (is_reliable) request.status = WcStatus::retry_exceeded;
    return Attempt::done;
  }
  ReceiveRing& ring = areas[request.peer_worker]->ring[static_cast<std::size_t>(request.transport)];
  ReceiveSlot* slot = ring.claim(node());
  if (slot == nullptr) return is_reliable ? Attempt::not_ready : Attempt::done;
  const std::uint32_t head = request.transport == Transport::ud ? grh_bytes : 0;
  if (std::uint64_t{payload_bytes} + head > slot->capacity) {
    ReceiveRing::finish(*slot, ReceiveRing::returned);
    if (is_reliable) request.status = WcStatus::remote_access;
    return Attempt::done;
  }
  if (payload_bytes != 0) {
    std::byte* to = shared_->nodes[request.peer].regions[slot->region].data + slot->offset + head;
    copy_message(to, payload, payload_bytes);
  }
  hand_over(*slot, request, areas[request.peer_worker]->doorbell);
  return Attempt::done;
}

ShmWorker::Attempt ShmWorker::perform(WorkRequest& request, const std::byte* inline_data) {
  request.status = check_local(request);
  if (request.status != WcStatus::success) return Attempt::done;
  switch (request.verb) {
    case Verb::read:
    case Verb::cas:
    case Verb::faa:
      LOCH_CHECK(request.transport == Transport::rc, "{} needs RC", name(request.verb));
      request.status = one_sided(request, inline_data);
      return Attempt::done;
    case Verb::write:
      LOCH_CHECK(request.transport != Transport::ud, "UD has no WRITE");
      request.status = one_sided(request, inline_data);
      if (request.transport == Transport::uc && request.status != WcStatus::success) {
        request.status = WcStatus::success;  // on UC the sender does not learn of an error
        return Attempt::done;
      }
      if (request.status != WcStatus::success || !request.has_immediate) return Attempt::done;
      return deliver(request, nullptr, 0);
    case Verb::send:
      if (inline_data == nullptr && request.length != 0) inline_data = request.local.data();
      return deliver(request, inline_data, request.length);
    case Verb::recv:
      break;
  }
  LOCH_CHECK(false, "a RECV is posted by post_recv");
  return Attempt::done;
}

void ShmWorker::retire(WorkRequest& request, bool is_detached) {
  if (request.status != WcStatus::success && request.transport == Transport::rc &&
      request.peer < links_.size()) {
    links_[request.peer].failed_lanes |= lane_bit(request);
  }
  if (!is_detached && request.sink != nullptr) complete(request);
}

void ShmWorker::stall(WorkRequest& request, bool is_detached) {
  Stalled entry{&request, nullptr, 0, is_detached};
  if (is_detached || request.is_inline) {
    if (free_copies_.empty()) {
      copies_.push_back(std::make_unique<Copy>());
      free_copies_.reserve(copies_.size());
      free_copies_.push_back(copies_.back().get());
    }
    entry.copy = free_copies_.back();
    free_copies_.pop_back();
    if (is_detached) {
      entry.copy->request = request;
      entry.request = &entry.copy->request;
    }
    if (request.is_inline && request.length != 0 && check_local(request) == WcStatus::success) {
      copy_from_shared(entry.copy->inline_data, request.local.data(), request.length);
    }
  }
  links_[request.peer].stalled_lanes |= lane_bit(request);
  stalled_.push_back(entry);
}

void ShmWorker::submit(WorkRequest& request, bool is_detached) {
  if (request.transport == Transport::rc && request.peer < links_.size()) [[likely]] {
    const Link& link = links_[request.peer];
    if ((link.failed_lanes & lane_bit(request)) != 0) {
      request.status = WcStatus::flushed;
      retire(request, is_detached);
      return;
    }
    if ((link.stalled_lanes & lane_bit(request)) != 0) {
      stall(request, is_detached);
      return;
    }
  }
  if (perform(request, nullptr) == Attempt::not_ready) {
    stall(request, is_detached);
  } else {
    retire(request, is_detached);
  }
}

[[gnu::always_inline]] inline bool ShmWorker::perform_plain(const WorkRequest& request) {
  static_assert(1U << static_cast<unsigned>(Verb::read) == MappedRegion::can_read &&
                1U << static_cast<unsigned>(Verb::write) == MappedRegion::can_write);
  if (!is_plain(request) || request.peer >= nodes_ || request.local.region == nullptr) return false;
  const Link& link = links_[request.peer];
  const RemoteRegion& remote = request.remote;
  const auto& local = *static_cast<const ShmRegion*>(request.local.region);
  const std::uint64_t length = request.length;
  if ((link.failed_lanes | link.stalled_lanes) != 0 || remote.node != request.peer ||
      remote.id >= link.region_count || local.node() != node())
    return false;
  const MappedRegion& target = link.regions[remote.id];
  const std::uint32_t right = 1U << static_cast<unsigned>(request.verb);
  if (target.rkey != remote.rkey || (target.rights & right) == 0 || length > target.bytes ||
      request.remote_offset > target.bytes - length || length > local.bytes() ||
      request.local.offset > local.bytes() - length)
    return false;
  if (length == 0) return true;
  std::byte* const there = target.data + request.remote_offset;
  std::byte* const here = local.data() + request.local.offset;
  if (request.verb == Verb::read) {
    transfer(here, there, request.length, there);
  } else {
    transfer(there, here, request.length, there);
    if (shared_->is_crowded.load(std::memory_order_relaxed)) [[unlikely]]
      ring_doorbells(request.peer, remote.id, request.remote_offset, length);
  }
  return true;
}

// A datagram that finds no receive buffer, or one that is too small for it, is lost.
[[gnu::always_inline]] inline bool ShmWorker::perform_datagram(const WorkRequest& request) {
  if (request.transport != Transport::ud || request.peer >= nodes_ || request.local.region == nullptr)
    return false;
  const auto& local = *static_cast<const ShmRegion*>(request.local.region);
  const std::uint64_t begin = request.local.offset, end = begin + request.length;
  const Link& link = links_[request.peer];
  if (local.node() != node() || end < begin || end > local.bytes() ||
      request.length > shared_->capabilities.mtu_bytes ||
      (request.is_inline && request.length > max_inline_bytes) || request.peer_worker >= link.area_count ||
      shared_->is_lost(request.peer))
    return false;
  ReceiveArea* const area = link.areas[request.peer_worker];
  if (area == nullptr) return false;
  ReceiveSlot* const slot = area->ring[static_cast<std::size_t>(Transport::ud)].claim(node());
  if (slot == nullptr) return true;
  if (std::uint64_t{request.length} + grh_bytes > slot->capacity) [[unlikely]] {
    ReceiveRing::finish(*slot, ReceiveRing::returned);
    return true;
  }
  copy_message(link.regions[slot->region].data + slot->offset + grh_bytes, local.data() + begin,
               request.length);
  hand_over(*slot, request, area->doorbell);
  return true;
}

// Executes the request if it is a valid READ or WRITE, else leaves it to submit(). A function of its own, as
// post_datagram() is, so that each saves only the registers that it needs.
[[gnu::noinline]] void ShmWorker::post_plain(WorkRequest& request) {
  if (!perform_plain(request)) [[unlikely]]
    return submit(request, false);
  request.status = WcStatus::success;
  if (request.sink != nullptr) complete(request);
}

[[gnu::noinline]] void ShmWorker::post_datagram(WorkRequest& request) {
  if (!perform_datagram(request)) [[unlikely]]
    return submit(request, false);
  request.status = WcStatus::success;
  if (request.sink != nullptr) complete(request);
}

void ShmWorker::do_post(WorkRequest* chain) {
  const auto post_one = [this](WorkRequest& request) {
    return request.verb == Verb::send ? post_datagram(request) : post_plain(request);
  };
  while (chain != nullptr) {
    WorkRequest* const next = chain->next;
    if (next == nullptr) return post_one(*chain);
    post_one(*chain);
    chain = next;
  }
}

void ShmWorker::do_post_detached(const WorkRequest& request) {
  struct Copied {
    [[gnu::noinline]] static void submit(ShmWorker& worker, const WorkRequest& request) {
      WorkRequest copy = request;
      copy.is_signaled = false;
      copy.sink = nullptr;
      copy.next = nullptr;
      worker.submit(copy, true);
    }
  };
  if (!perform_plain(request)) [[unlikely]]
    Copied::submit(*this, request);
}

bool ShmWorker::do_execute_at_once(const WorkRequest& request) {
  return completions_ == nullptr && perform_plain(request);
}

// Retries the requests that wait for a receive buffer of the peer, in order of posting on each queue pair.
// Returns whether any has completed.
bool ShmWorker::poll_stalled() {
  refresh_time();
  for (Link& link : links_) link.stalled_lanes = 0;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < stalled_.size(); ++i) {
    Stalled entry = stalled_[i];
    WorkRequest& request = *entry.request;
    Link& link = links_[request.peer];
    const std::byte* inline_data =
        request.is_inline && entry.copy != nullptr ? entry.copy->inline_data : nullptr;
    if ((link.failed_lanes & lane_bit(request)) != 0) {
      request.status = WcStatus::flushed;
    } else if ((link.stalled_lanes & lane_bit(request)) != 0) {
      stalled_[kept++] = entry;
      continue;
    } else if (perform(request, inline_data) == Attempt::not_ready) {
      if (entry.deadline == 0) entry.deadline = recent_time() + rnr_patience;
      if (recent_time() < entry.deadline) {
        link.stalled_lanes |= lane_bit(request);
        stalled_[kept++] = entry;
        continue;
      }
      request.status = WcStatus::rnr_exceeded;
    }
    retire(request, entry.is_detached);
    if (entry.copy != nullptr) free_copies_.push_back(entry.copy);
  }
  const bool moved = kept != stalled_.size();
  stalled_.resize(kept);
  return moved;
}

}  // namespace loch::fabric::shm
