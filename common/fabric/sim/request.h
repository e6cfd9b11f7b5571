// A work request in transit, and its queue pair. Both are taken from pools.
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

constexpr std::uint32_t most_pieces = 8;  // most pieces into which a message is torn

// One request. One event carries it through the stages. The poster's WorkRequest can be read while it is
// alive, that is, until the completion has been polled. Three cache lines: the event, the members that every
// stage reads, the others.
struct alignas(64) SimRequest : Event {
  Simulation* sim = nullptr;
  QueuePair* qp = nullptr;

  WorkRequest* wr = nullptr;
  SimNode* from = nullptr;  // the requester's node
  SimNode* to = nullptr;    // the responder's node
  Staged* data = nullptr;
  SimRegion* target = nullptr;  // the responder's region
  std::uint64_t result = 0;
  std::uint32_t request_wire = 0, response_wire = 0;
  Verb verb = Verb::read;
  WcStatus status = WcStatus::success;
  std::uint8_t pieces = 1, piece = 0;  // number of pieces of a torn fetch or placement, and the current one
  bool is_cancelled = false;           // the request was flushed while in transit; its next event ends it
  // a copy that carries the message of a UC or UD request, or a WRITE's bytes that become visible late
  bool is_carrier = false;
  bool is_executed = false;  // was executed already: a retry only gets its response again
  bool has_mmio = false;     // the work request was written by MMIO, so that it is not fetched

  SimRequest* next_free = nullptr;
  SimRequest* next_in_qp = nullptr;  // the next request in posted order, until it is retired
  // the next request in the list of those that are stalled in the send queue, or of those whose completions
  // wait to be polled
  SimRequest* next_waiting = nullptr;
  Nanos piece_gap = 0;
  Nanos late_by = 0;  // time from a WRITE's acknowledgement until its bytes are visible
  std::array<std::uint8_t, most_pieces> order{};  // order in which the pieces are read or written
  std::uint32_t sequence = 0;                     // number of the request on its queue pair
  std::uint32_t paused_seen = 0;  // value of SwitchPort::paused_ns when the link took the request
  std::uint8_t tries = 0, rnr_tries = 0;
  bool owns_wr = false;     // wr is the simulation's own copy
  bool is_done = false;     // has ended, and waits for earlier requests of the queue pair
  bool is_delayed = false;  // has been reordered once
  bool is_counted = false;  // is counted among the READs and atomics in transit
  bool has_lock = false;    // a split atomic that has read and not written yet
};
static_assert(sizeof(SimRequest) == 192);

// Payload bytes from the requester to the responder; response_payload is the other direction.
[[nodiscard]] inline std::uint32_t request_payload(const SimRequest& r) {
  return r.verb == Verb::write || r.verb == Verb::send ? r.wr->length : 0;
}
[[nodiscard]] inline std::uint32_t response_payload(const SimRequest& r) {
  return r.verb == Verb::read && r.status == WcStatus::success ? r.wr->length : 0;
}

// A connection of one worker to one node (RC, UC), or a datagram queue of the worker (UD). Two cache lines:
// members that posting and the stages use often, and the others.
struct alignas(64) QueuePair {
  SimWorker* owner = nullptr;
  SimNode* home = nullptr;  // the node of the worker that owns the queue pair
  SimRequest* oldest = nullptr;
  SimRequest* newest = nullptr;
  Nanos submitted_at = 0;  // time of the last posted request; keeps requests in order
  std::uint32_t next_sequence = 0;
  std::uint32_t used_slots = 0;          // used entries of the send queue
  std::uint32_t unretired = 0;           // unsignaled requests that have ended but are not retired
  std::uint32_t target_incarnation = 0;  // incarnation of the peer when the connection was made
  NodeId peer = 0;
  Transport transport = Transport::rc;
  std::uint8_t lane = 0;
  bool is_error = false;   // requests are flushed until the queue pair is reconnected
  bool is_broken = false;  // the responder refused a request, and executes no further one
  bool is_fenced = false;  // the owner was fenced: none of its requests takes effect any more

  SimRequest* blocker = nullptr;  // the request that is being retried; later ones wait behind it
  Nanos departed_at = 0;          // time of the last departure to the link; keeps requests in order
  Nanos executed_at = 0;          // time of the last execution at the responder; keeps requests in order
  // entries in the context caches of the two NICs; UD: SimWorker::datagram_context
  CachedContext requester, responder;
  // until when the processing unit is busy that handles the work requests fetched for this queue pair
  Picos unit_until = 0;
  SimRequest* stalled_first = nullptr;
  // READs and atomics in transit, which the send queue counts separately
  std::uint32_t outstanding_reads = 0;

  SimRequest* stalled_last = nullptr;
  SimNode* target = nullptr;  // UD: the destination of the latest request
  Nanos blocked_until = 0;
  // time of the last READ or atomic at the responder, which keep their order; WRITEs may have overtaken them
  Nanos read_at = 0;
  QueuePair* next_free = nullptr;
};
static_assert(offsetof(QueuePair, blocker) == 64 && offsetof(QueuePair, target) == 128);

}  // namespace loch::fabric::sim
