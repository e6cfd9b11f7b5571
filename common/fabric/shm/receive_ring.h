// Posted receive buffers as a lock-free ring from which senders take: the counterpart of a NIC's receive
// queue and of its receive completions. One owner posts and consumes. Any thread, of any process that maps
// the ring, claims the oldest posted buffer, copies its message into it and marks it filled. Claim and
// claimant are one atomic word, so that the owner can take back the buffer of a sender that died half-way,
// and no sender waits for another.
//
//   ticket t lives in slot t mod 1024; its state word goes
//   posted(t) -> claimed(t, claimant) -> filled(t)        delivered
//                                     -> returned(t)      message did not fit: buffer posted again
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/fabric/region.h"
#include "common/fabric/shm/doorbell.h"

namespace loch::fabric::shm {

struct alignas(64) ReceiveSlot {
  // ticket (sequence number of the posted buffer) << 24 | node of the claiming sender << 8 | phase
  std::atomic<std::uint64_t> state;
  // Fields that the owner writes before it sets the slot's phase to `posted`.
  std::uint64_t offset;
  std::uint64_t user;
  std::uint32_t region;
  std::uint32_t capacity;  // size of the buffer in bytes
  // Fields that the sender writes before it sets the slot's phase to `filled`.
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

  // The lowest ticket (sequence number of a posted buffer) that may be unclaimed; all lower ones have been
  // claimed by senders.
  alignas(64) std::atomic<std::uint64_t> next;
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

  // Called by a sender: claims the oldest posted buffer; null if there is none (receiver not ready).
  [[nodiscard, gnu::always_inline]] ReceiveSlot* claim(NodeId claimant) {
    for (;;) {
      std::uint64_t ticket = next.load(std::memory_order_acquire);
      ReceiveSlot& candidate = slot[ticket % slots];
      std::uint64_t state = candidate.state.load(std::memory_order_acquire);
      if (state == word(ticket, 0, posted)) {
        if (candidate.state.compare_exchange_strong(state, word(ticket, claimant, claimed),
                                                    std::memory_order_acq_rel)) {
          __builtin_prefetch(&slot[(ticket + 1) % slots],
                             1);  // most likely the next one that this sender claims
          next.compare_exchange_strong(ticket, ticket + 1, std::memory_order_acq_rel);
          return &candidate;
        }
      } else if (ticket_of(state) == ticket && phase_of(state) != empty) {
        // Another sender has claimed this ticket but not advanced `next` yet; advance it on its behalf.
        next.compare_exchange_strong(ticket, ticket + 1, std::memory_order_acq_rel);
      } else if (next.load(std::memory_order_acquire) == ticket) {
        return nullptr;
      }
    }
  }
  // Called by a sender: ends its claim, and makes the payload and the slot's fields visible to the owner.
  static void finish(ReceiveSlot& mine, Phase outcome) {
    const std::uint64_t ticket = ticket_of(mine.state.load(std::memory_order_relaxed));
    mine.state.store(word(ticket, 0, outcome), std::memory_order_release);
  }
};

// The shared memory in which a worker receives messages: one ring for each transport (RC, UC, UD), and the
// worker's doorbell. All bytes zero is a valid state.
struct ReceiveArea {
  Doorbell doorbell;
  ReceiveRing ring[3];
};

// The owner's side of one ring, with state that is private to the owner's thread.
class ReceiveQueue {
 public:
  explicit ReceiveQueue(ReceiveRing* ring) : ring_(ring) { waiting_.reserve(ReceiveRing::slots); }

  // Posts a buffer of `capacity` bytes. A sender that lost its core between claim and end of copy holds up
  // the ring's oldest slot; after another 1023 messages the ring has no free slot. The buffer then waits in
  // the owner's own list until a poll frees a slot, and senders find the receiver not ready meanwhile.
  // `data`: where the buffer is in this process.
  void post(std::uint32_t region, std::uint64_t offset, std::uint32_t capacity, std::uint64_t user,
            const std::byte* data = nullptr) {
    const Buffer buffer{region, offset, capacity, user, data};
    if (waiting_.empty() && has_room()) [[likely]]
      return publish(buffer);
    waiting_.push_back(buffer);
    publish_waiting();
  }
  // Calls deliver(slot) for each message that has arrived, at most `most` of them; `is_lost(node)` tells
  // whether a claimant is dead, so that its claim will never end. Returns the number of messages delivered.
  // Messages of one sender keep their order.
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
        if (ticket + 1 < end) prefetch(ticket + 1);
        consumed_[ticket % ReceiveRing::slots] = true;
        deliver(slot);
        ++delivered;
      } else if (phase == ReceiveRing::returned || is_lost(ReceiveRing::claimant_of(state))) {
        consumed_[ticket % ReceiveRing::slots] = true;
        waiting_.push_back(
            {slot.region, slot.offset, slot.capacity, slot.user, data_[ticket % ReceiveRing::slots]});
      }
    }
    while (head_ < end && consumed_[head_ % ReceiveRing::slots]) ++head_;
    if (!waiting_.empty()) [[unlikely]]
      publish_waiting();
    return delivered;
  }
  [[nodiscard]] bool has_arrivals() const { return ring_->next.load(std::memory_order_acquire) != head_; }
  // Number of posted buffers that are not in the ring yet.
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Buffer {
    std::uint32_t region;
    std::uint64_t offset;
    std::uint32_t capacity;  // size of the buffer in bytes
    std::uint64_t user;
    const std::byte* data;
  };

  // Fetches a message, whose cache lines the sender has, before it is looked at: its slot and 128 bytes of
  // its buffer.
  void prefetch(std::uint64_t ticket) const {
    constexpr std::ptrdiff_t line = 64;
    __builtin_prefetch(&ring_->slot[ticket % ReceiveRing::slots]);
    const std::byte* const message = data_[ticket % ReceiveRing::slots];
    if (message == nullptr) return;  // a buffer outside the owner's regions, as tests of the ring post them
    __builtin_prefetch(message);
    __builtin_prefetch(message + line);
  }
  [[nodiscard]] bool has_room() const { return tail_ - head_ < ReceiveRing::slots; }
  // Puts a buffer into the ring, which has a free slot.
  void publish(const Buffer& buffer) {
    ReceiveSlot& target = ring_->slot[tail_ % ReceiveRing::slots];
    target.region = buffer.region;
    target.offset = buffer.offset;
    target.capacity = buffer.capacity;
    target.user = buffer.user;
    consumed_[tail_ % ReceiveRing::slots] = false;
    data_[tail_ % ReceiveRing::slots] = buffer.data;
    target.state.store(ReceiveRing::word(tail_, 0, ReceiveRing::posted), std::memory_order_release);
    ++tail_;
  }
  // Moves waiting buffers into the ring, oldest first, as long as it has free slots.
  void publish_waiting() {
    std::size_t published = 0;
    for (; published < waiting_.size() && has_room(); ++published) publish(waiting_[published]);
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(published));
  }

  ReceiveRing* ring_;
  std::uint64_t head_ = 0;  // lowest ticket (sequence number of a buffer) that is not consumed yet
  std::uint64_t tail_ = 0;  // ticket of the next buffer to be posted
  bool consumed_[ReceiveRing::slots] = {};
  const std::byte* data_[ReceiveRing::slots] = {};  // by ticket: where its buffer is in this process
  std::vector<Buffer> waiting_;  // buffers that were posted while the ring had no free slot
};

}  // namespace loch::fabric::shm
