// A queue of requests from one worker to one peer that the contract calls a queue pair: requests start in the
// order of posting, as far as the rules of order ask for it, and end in that order.
//
//   waiting -> posted -> done -> (the sink is called)
//
// After a failure the lane takes nothing until the peer is reconnected: requests that wait are flushed
// without having been posted. Those that the provider has already may be executed; they end as
// retry_exceeded.
#pragma once

#include <cstdint>

#include "common/fabric/fabric.h"
#include "common/fabric/ofi/message.h"

namespace loch::fabric::ofi {

struct Lane;

// One request in flight, and what must stay in place until the provider has done with it.
struct Slot : Context {
  static constexpr std::uint32_t inline_most = 256;
  enum class State : std::uint8_t { waiting, posted, done };
  State state = State::waiting;
  WcStatus status = WcStatus::success;
  bool is_detached = false;
  bool awaits_answer = false;    // a SEND on RC, until the receiver has answered
  bool is_announcing = false;    // a WRITE with immediate whose bytes are placed
  std::uint32_t pending = 0;     // operations of the provider that have not ended
  std::uint32_t sent = 0;        // SEND: bytes given to the provider
  std::uint32_t number = 0;      // of the slot on its worker
  std::uint32_t generation = 0;  // how often the slot was used
  Nanos deadline = 0;            // while an answer is awaited
  Lane* lane = nullptr;
  Slot* next = nullptr;
  void* description = nullptr;  // the provider's handle of this memory; null if it needs none
  WorkRequest* request = nullptr;
  WorkRequest copy;  // of a detached request
  std::uint64_t operand = 0, compare = 0, result = 0;
  std::byte inline_data[inline_most];

  [[nodiscard]] std::uint64_t cookie() const { return std::uint64_t{generation} << 32 | number; }
};

struct Lane {
  NodeId peer = 0;
  Transport transport = Transport::rc;
  std::uint8_t number = 0;
  bool is_listed = false;            // in the worker's list of lanes that have something to do
  bool has_failed = false;           // takes no more requests
  bool has_retired_failure = false;  // a request that failed has ended, so that no later one succeeds
  Slot* first = nullptr;             // the oldest request that has not ended
  Slot* last = nullptr;
  Slot* unposted = nullptr;      // the first that waits
  std::uint32_t writes = 0;      // WRITEs that the provider has
  std::uint32_t fetches = 0;     // READs and atomics that the provider has
  std::uint32_t announcing = 0;  // WRITEs whose immediate is still to be sent

  void append(Slot* slot) {
    slot->next = nullptr;
    (first == nullptr ? first : last->next) = slot;
    last = slot;
    if (unposted == nullptr) unposted = slot;
  }
};

}  // namespace loch::fabric::ofi
