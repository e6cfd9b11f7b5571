// A work request on its way, and the queue pair that it is on. Both are pooled.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/fabric/fabric.h"
#include "common/fabric/sim/event.h"
#include "common/fabric/sim/memory.h"
#include "common/fabric/sim/resource.h"

namespace loch::fabric::sim {

class Simulation;
class SimWorker;
struct SimNode;
struct QueuePair;

constexpr std::uint32_t most_pieces = 8;  // of a torn message

// One request. Exactly one event carries it through the stages; what it needs of the poster's
// WorkRequest it reads there while that is alive, that is until the completion is polled.
// Three cache lines: the event, what every stage looks at, the rest.
struct alignas(64) SimRequest : Event {
  Simulation* sim = nullptr;
  QueuePair* qp = nullptr;

  WorkRequest* wr = nullptr;
  SimNode* from = nullptr;  // the requester's node
  SimNode* to = nullptr;    // the responder's
  Staged* data = nullptr;
  SimRegion* target = nullptr;  // the responder's region
  std::uint64_t result = 0;
  std::uint32_t request_wire = 0, response_wire = 0;
  Verb verb = Verb::read;
  WcStatus status = WcStatus::success;
  std::uint8_t pieces = 1, piece = 0;  // of a torn fetch or placement
  bool is_cancelled = false;           // flushed while on its way: ends at its next event
  bool is_carrier = false;             // the message of a UC or UD request, or a late placement
  bool is_executed = false;            // a repeated try is only answered
  bool has_mmio = false;               // the work request came by MMIO: no fetch

  SimRequest* next_free = nullptr;
  SimRequest* next_in_qp = nullptr;    // posted order, until retired
  SimRequest* next_waiting = nullptr;  // stalled in the send queue, or polled completions
  Nanos piece_gap = 0;
  Nanos late_by = 0;                              // time from the acknowledgement until the bytes are visible
  std::array<std::uint8_t, most_pieces> order{};  // order in which the pieces are read or written
  std::uint32_t sequence = 0;                     // number of the request on its queue pair
  std::uint32_t paused_seen = 0;                  // SwitchPort::paused_ns when its link took it
  std::uint8_t tries = 0, rnr_tries = 0;
  bool owns_wr = false;     // wr is the simulation's own copy
  bool is_done = false;     // waits for its elders on the queue pair
  bool is_delayed = false;  // was reordered already
  bool is_counted = false;  // among the READs and atomics that are on their way
  bool has_lock = false;    // a split atomic has read and not yet written
};
static_assert(sizeof(SimRequest) == 192);

// Payload bytes on the way out, and on the way back.
[[nodiscard]] inline std::uint32_t request_payload(const SimRequest& r) {
  return r.verb == Verb::write || r.verb == Verb::send ? r.wr->length : 0;
}
[[nodiscard]] inline std::uint32_t response_payload(const SimRequest& r) {
  return r.verb == Verb::read && r.status == WcStatus::success ? r.wr->length : 0;
}

// A connection of one worker to one node (RC, UC), or a datagram queue of the worker (UD). Two cache lines:
// what posting looks at, what the stages do; and what is rarely needed.
struct alignas(64) QueuePair {
  SimWorker* owner = nullptr;
  SimNode* home = nullptr;  // the owner's node
  SimRequest* oldest = nullptr;
  SimRequest* newest = nullptr;
  Nanos submitted_at = 0;  // order of posting
  std::uint32_t next_sequence = 0;
  std::uint32_t used_slots = 0;          // of the send queue
  std::uint32_t unretired = 0;           // unsignaled ones that are done
  std::uint32_t target_incarnation = 0;  // of the peer, when connected
  NodeId peer = 0;
  Transport transport = Transport::rc;
  std::uint8_t lane = 0;
  bool is_error = false;   // flushed, until reconnected
  bool is_broken = false;  // the responder refused a request: it does nothing more
  bool is_fenced = false;  // the owner was fenced: none of its requests takes effect any more

  SimRequest* blocker = nullptr;       // is being retried; those behind it wait
  Nanos departed_at = 0;               // order on the way out …
  Nanos executed_at = 0;               // … and at the responder
  CachedContext requester, responder;  // in the two NICs' caches; UD: SimWorker::datagram_context
  Picos unit_until = 0;  // the processing unit that its fetched work requests go through is busy
  SimRequest* stalled_first = nullptr;
  std::uint32_t outstanding_reads = 0;  // READs and atomics beyond the send queue

  SimRequest* stalled_last = nullptr;
  SimNode* target = nullptr;  // UD: the node that the latest request was sent to
  Nanos blocked_until = 0;
  Nanos read_at = 0;  // order of READs and atomics at the responder, which WRITEs may have overtaken
  QueuePair* next_free = nullptr;
};
static_assert(offsetof(QueuePair, blocker) == 64 && offsetof(QueuePair, target) == 128);

}  // namespace loch::fabric::sim
