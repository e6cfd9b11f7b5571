// A lane is the queue of requests from one worker to one peer that the fabric's contract calls a queue pair:
// requests start in the order of posting, as far as the rules of order ask for it, and end in that order. A
// request is first waiting, then posted (given to the provider), then done; its completion is delivered when
// all earlier requests of the lane have ended.
//
// After a failure the lane gives the provider no more requests until the peer is reconnected: waiting
// requests are flushed without having been posted. Posted ones may still be executed; they end as
// retry_exceeded.
#pragma once

#include <cstdint>

#include "common/fabric/fabric.h"
#include "common/fabric/ofi/message.h"

namespace loch::fabric::ofi {

struct Lane;

// One request from its posting to its completion, with the memory that the provider uses meanwhile.
struct Slot : Context {
  static constexpr std::uint32_t inline_most = 256;
  enum class State : std::uint8_t { waiting, posted, done };
  State state = State::waiting;
  WcStatus status = WcStatus::success;
  bool is_detached = false;
  bool awaits_answer = false;  // whether the request is an RC message that its receiver has not answered yet
  // whether the request is a WRITE whose bytes are placed and whose immediate is still to be sent
  bool is_announcing = false;
  std::uint32_t pending = 0;  // number of the provider's operations for this request that have not ended
  std::uint32_t sent = 0;     // index of this slot (request) among those of its worker
  // changes with each use of the slot for a request, so that a late answer is recognised
  std::uint32_t number = 0;
  std::uint32_t generation = 0;  // changes with each use of the slot, so that a late answer is recognised
  Nanos deadline = 0;            // time in ns at which a request that awaits an answer fails
  Lane* lane = nullptr;
  Slot* next = nullptr;
  void* description = nullptr;  // the provider's handle of this memory; null if it needs none
  WorkRequest* request = nullptr;
  // copy of a request of post_detached(), which the poster need not keep
  WorkRequest copy;
  std::uint64_t operand = 0, compare = 0, result = 0;
  std::byte inline_data[inline_most];

  [[nodiscard]] std::uint64_t cookie() const { return std::uint64_t{generation} << 32 | number; }
};

struct Lane {
  NodeId peer = 0;
  Transport transport = Transport::rc;
  std::uint8_t number = 0;
  // true: the lane (queue of requests to one peer) is in OfiWorker::listed_, so the next poll visits it
  bool is_listed = false;
  // true: an RC request failed: waiting and new requests are flushed until reconnection
  bool has_failed = false;
  // true: a failed request has ended, so every later request has to fail too
  bool has_retired_failure = false;
  Slot* first = nullptr;  // the oldest request that has not ended
  Slot* last = nullptr;
  Slot* unposted = nullptr;      // the oldest request whose messages the provider has not all taken
  std::uint32_t writes = 0;      // posted WRITEs whose bytes are not placed, or immediates not sent, yet
  std::uint32_t fetches = 0;     // READs and atomics given to the provider that have not completed
  std::uint32_t announcing = 0;  // WRITEs whose bytes are placed and whose immediate is still to be sent

  void append(Slot* slot) {
    slot->next = nullptr;
    (first == nullptr ? first : last->next) = slot;
    last = slot;
    if (unposted == nullptr) unposted = slot;
  }
};

}  // namespace loch::fabric::ofi
