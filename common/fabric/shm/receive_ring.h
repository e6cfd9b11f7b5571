// Posted receive buffers as a lock-free ring that senders take from: what a NIC's receive queue and
// the receive side of its completion queue do. One owner posts and consumes; any thread, of any
// process that maps the ring, claims the oldest posted buffer, copies its message straight into it
// and marks it filled. Claim and claimant are one atomic word, so that the owner can take back the
// buffer of a sender that died half-way, and no sender ever waits for another.
//
//   ticket t lives in slot t mod 1024; its state word goes
//   posted(t) -> claimed(t, claimant) -> filled(t)        delivered
//                                     -> returned(t)      message did not fit: buffer posted anew
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/fabric/region.h"
#include "common/fabric/shm/doorbell.h"

namespace loch::fabric::shm {

struct alignas(64) ReceiveSlot {
  std::atomic<std::uint64_t> state;  // ticket << 24 | claimant node << 8 | phase
  // Written by the owner, before it sets `posted`.
  std::uint64_t offset;
  std::uint64_t user;
  std::uint32_t region;
  std::uint32_t capacity;  // bytes
  // Written by the sender, before it sets `filled`.
  std::uint32_t length;  // payload bytes
  std::uint32_t immediate;
  NodeId from;
  std::uint16_t from_worker;
  bool has_immediate;
};
static_assert(sizeof(ReceiveSlot) == 64);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

struct ReceiveRing {
  enum Phase : std::uint8_t { empty, posted, claimed, filled, returned };
  static constexpr std::uint64_t slots = 1024;  // twice the receive queue's depth

  alignas(64) std::atomic<std::uint64_t> next;  // oldest ticket that may be unclaimed
  ReceiveSlot slot[slots];

  [[nodiscard]] static constexpr std::uint64_t word(std::uint64_t ticket, NodeId claimant, Phase phase) {
    return ticket << 24 | std::uint64_t{claimant} << 8 | phase;
  }
  [[nodiscard]] static constexpr Phase phase_of(std::uint64_t state) {
    return static_cast<Phase>(state & 0xff);
  }
  [[nodiscard]] static constexpr NodeId claimant_of(std::uint64_t state) {
    return static_cast<NodeId>(state >> 8);
  }
  [[nodiscard]] static constexpr std::uint64_t ticket_of(std::uint64_t state) { return state >> 24; }

  // Sender: takes the oldest posted buffer, or null where there is none (receiver not ready).
  [[nodiscard]] ReceiveSlot* claim(NodeId claimant) {
    for (;;) {
      std::uint64_t ticket = next.load(std::memory_order_acquire);
      ReceiveSlot& candidate = slot[ticket % slots];
      std::uint64_t state = candidate.state.load(std::memory_order_acquire);
      if (state == word(ticket, 0, posted)) {
        if (candidate.state.compare_exchange_strong(state, word(ticket, claimant, claimed),
                                                    std::memory_order_acq_rel)) {
          next.compare_exchange_strong(ticket, ticket + 1, std::memory_order_acq_rel);
          return &candidate;
        }
      } else if (ticket_of(state) == ticket && phase_of(state) != empty) {
        // Another sender took this ticket and has not advanced `next` yet: help it.
        next.compare_exchange_strong(ticket, ticket + 1, std::memory_order_acq_rel);
      } else if (next.load(std::memory_order_acquire) == ticket) {
        return nullptr;
      }
    }
  }
  // Sender: ends its claim; the payload and the slot's fields are visible to the owner.
  static void finish(ReceiveSlot& mine, Phase outcome) {
    const std::uint64_t ticket = ticket_of(mine.state.load(std::memory_order_relaxed));
    mine.state.store(word(ticket, 0, outcome), std::memory_order_release);
  }
};

// A worker's shared memory for senders: one ring per transport (rc, uc, ud), and its doorbell. Zeroed memory
// is a valid one.
struct ReceiveArea {
  Doorbell doorbell;
  ReceiveRing ring[3];
};

// The owner's side of one ring; its state is private to the owner's thread.
class ReceiveQueue {
 public:
  explicit ReceiveQueue(ReceiveRing* ring) : ring_(ring) { waiting_.reserve(ReceiveRing::slots); }

  // Gives a buffer of `capacity` bytes to senders. A sender that lost its core between claim and end of copy
  // holds up the ring's oldest slot, and after another 1023 messages the ring has no free one: the buffer
  // then waits in the owner's own list for a poll that frees a slot, and senders find the receiver not ready
  // meanwhile.
  void post(std::uint32_t region, std::uint64_t offset, std::uint32_t capacity, std::uint64_t user) {
    waiting_.push_back({region, offset, capacity, user});
    publish();
  }
  // Calls deliver(slot) for each message that has arrived, at most `most`; `is_lost(node)` says whose
  // claims will never end. Returns how many were delivered. Messages of one sender keep their order.
  template <typename IsLost, typename Deliver>
  std::uint32_t poll(std::uint32_t most, IsLost is_lost, Deliver deliver) {
    const std::uint64_t end = ring_->next.load(std::memory_order_acquire);
    std::uint32_t delivered = 0;
    for (std::uint64_t ticket = head_; ticket < end && delivered < most; ++ticket) {
      if (consumed_[ticket % ReceiveRing::slots]) continue;
      const ReceiveSlot& slot = ring_->slot[ticket % ReceiveRing::slots];
      const std::uint64_t state = slot.state.load(std::memory_order_acquire);
      const auto phase = ReceiveRing::phase_of(state);
      if (phase == ReceiveRing::filled) {
        consumed_[ticket % ReceiveRing::slots] = true;
        deliver(slot);
        ++delivered;
      } else if (phase == ReceiveRing::returned || is_lost(ReceiveRing::claimant_of(state))) {
        consumed_[ticket % ReceiveRing::slots] = true;
        waiting_.push_back({slot.region, slot.offset, slot.capacity, slot.user});
      }
    }
    while (head_ < end && consumed_[head_ % ReceiveRing::slots]) ++head_;
    publish();
    return delivered;
  }
  [[nodiscard]] bool has_arrivals() const { return ring_->next.load(std::memory_order_acquire) != head_; }
  // Posted buffers that senders cannot take yet.
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Buffer {
    std::uint32_t region;
    std::uint64_t offset;
    std::uint32_t capacity;  // bytes
    std::uint64_t user;
  };

  // Moves waiting buffers into the ring, the oldest first, as far as it has free slots.
  void publish() {
    std::size_t published = 0;
    for (; published < waiting_.size() && tail_ - head_ < ReceiveRing::slots; ++published, ++tail_) {
      const Buffer& buffer = waiting_[published];
      ReceiveSlot& target = ring_->slot[tail_ % ReceiveRing::slots];
      target.region = buffer.region;
      target.offset = buffer.offset;
      target.capacity = buffer.capacity;
      target.user = buffer.user;
      consumed_[tail_ % ReceiveRing::slots] = false;
      target.state.store(ReceiveRing::word(tail_, 0, ReceiveRing::posted), std::memory_order_release);
    }
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(published));
  }

  ReceiveRing* ring_;
  std::uint64_t head_ = 0;  // oldest ticket not yet consumed
  std::uint64_t tail_ = 0;  // next ticket to post
  bool consumed_[ReceiveRing::slots] = {};
  std::vector<Buffer> waiting_;  // posted while the ring had no free slot
};

}  // namespace loch::fabric::shm
