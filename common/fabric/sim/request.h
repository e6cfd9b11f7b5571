// A work request in transit, and its queue pair. Both are taken from pools.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/fabric/fabric.h"
#include "common/fabric/sim/doorbells.h"
#include "common/fabric/sim/event.h"
#include "common/fabric/sim/memory.h"
#include "common/fabric/sim/resource.h"

namespace loch::fabric::sim {

class Simulation;
class SimWorker;
struct SimNode;
struct QueuePair;

constexpr std::uint32_t most_pieces = 8;  // upper bound of the pieces into which a message is torn

// A work request in transit; one event carries it through all steps of the model (struct Stages in
// simulation.h). `wr` is valid until its completion has been polled. Layout in five cache lines: the event,
// the members that every step reads, the others, and two for the simulation's own copy of the work request.
struct alignas(64) SimRequest : Event {
  QueuePair* qp = nullptr;

  Simulation* sim = nullptr;
  WorkRequest* wr = nullptr;
  SimNode* from = nullptr;  // the requester's node
  SimNode* to = nullptr;    // the responder's node
  Staged* data = nullptr;
  SimRegion* target = nullptr;  // the responder's region
  std::uint32_t request_wire = 0, response_wire = 0;
  Verb verb = Verb::read;
  WcStatus status = WcStatus::success;
  // number of pieces in which a torn message is read or written, and index of the next one
  std::uint8_t pieces = 1, piece = 0;
  bool is_cancelled = false;  // true: the request was flushed in transit; its pending event only releases it
  // true: this is a copy of a UC or UD request that carries its message, or of a WRITE whose bytes become
  // visible late
  bool is_carrier = false;
  bool is_executed = false;  // true: the request was executed, and a retry only repeats the response
  bool has_mmio = false;     // true: the work request was written by MMIO and is not fetched

  SimRequest* next_free = nullptr;
  SimRequest* next_in_qp = nullptr;  // the next request in the posted order of the queue pair
  // the next request in its list: of requests that are stalled in the send queue, or of completions that wait
  // to be polled
  SimRequest* next_waiting = nullptr;
  std::uint64_t result = 0;
  Nanos piece_gap = 0;
  std::array<std::uint8_t, most_pieces> order{};  // order in which the pieces are read or written
  std::uint32_t sequence = 0;                     // identifies the request on its queue pair
  std::uint32_t paused_seen = 0;  // value of SwitchPort::paused_ns when the link took the request
  std::uint8_t tries = 0, rnr_tries = 0;
  bool owns_wr = false;  // whether `wr` is `copy`
  // true: the request has ended; it is retired (taken off its queue pair) after all earlier ones of the queue
  // pair
  bool is_done = false;
  // whether the message (UD) was delayed so that others overtake it, which happens at most once
  bool is_delayed = false;
  bool is_counted = false;  // whether the request is counted in QueuePair::outstanding_reads
  // true: an atomic that a fault splits has read and not written yet, and holds a lock of the NIC
  bool has_lock : 1 = false;
  bool is_posted : 1 = false;  // whether the request is counted in SimNode::posted (posted and unanswered)
  // true: the request was posted while its queue pair had another one outstanding, so the NIC fetches it
  // instead of taking it by MMIO (nic.busy_fetch)
  bool is_fetched : 1 = false;
  std::uint8_t part = 0;  // the part of the simulation whose pool owns this request
  // The simulation's own copy of the work request, for one that nobody waits for and for a request that is a
  // copy itself.
  WorkRequest copy;
  Nanos late_by = 0;  // time from a WRITE's acknowledgement until its bytes are visible

  void refer_to(WorkRequest* original) {
    wr = original;
    needs[1] = original;
  }
  // Makes the request one of its own copy of the work request.
  void own(const WorkRequest& original) {
    copy = original;
    owns_wr = true;
    refer_to(&copy);
  }
};
static_assert(sizeof(SimRequest) == 320);

// Payload bytes from the requester to the responder; response_payload() returns those in the other direction.
[[nodiscard]] inline std::uint32_t request_payload(const SimRequest& r) {
  return r.verb == Verb::write || r.verb == Verb::send ? r.wr->length : 0;
}
[[nodiscard]] inline std::uint32_t response_payload(const SimRequest& r) {
  return r.verb == Verb::read && r.status == WcStatus::success ? r.wr->length : 0;
}

// A connection of one worker to one node (RC, UC), or a datagram queue of the worker (UD). Three cache lines:
// the members that posting uses and both ends read, those of the requester's NIC, and those of the
// responder's NIC, which another thread may simulate.
struct alignas(64) QueuePair {
  SimWorker* owner = nullptr;
  SimNode* home = nullptr;  // the node of the worker that owns the queue pair
  SimRequest* oldest = nullptr;
  SimRequest* newest = nullptr;
  Nanos submitted_at = 0;  // when the NIC sees the last posted request; later ones are seen after it
  std::uint32_t next_sequence = 0;
  std::uint32_t used_slots = 0;  // used entries of the send queue
  // unsignaled requests that have ended but still take up entries of the send queue
  std::uint32_t unretired = 0;
  std::uint32_t target_incarnation = 0;  // incarnation of the peer when the connection was made
  NodeId peer = 0;
  Transport transport = Transport::rc;
  std::uint8_t lane = 0;
  bool is_error = false;   // true: requests are flushed until the queue pair is reconnected
  bool is_broken = false;  // true: a request was refused or given up, and no further one is executed
  bool is_fenced = false;  // true: the owner was fenced, and none of its requests takes effect any more

  SimRequest* blocker = nullptr;  // the request that is being retried; later ones wait behind it
  Nanos departed_at = 0;          // time of the last departure to the link; later requests depart after it
  // when the NIC's processing unit for this queue pair is free for the next work request that it fetches
  Picos unit_until = 0;
  SimRequest* stalled_first = nullptr;
  SimRequest* stalled_last = nullptr;
  SimNode* target = nullptr;  // UD: the destination of the latest request
  // this queue pair's entry in the context cache of the requester's NIC
  CachedContext requester;
  // number of READs and atomics in transit, which the NIC limits (max_rd_atomic)
  std::uint32_t outstanding_reads = 0;
  std::uint16_t doorbell =
      Doorbells::unlocked;  // the queue pair's doorbell register, where threads share registers (doorbells.h)

  Nanos executed_at = 0;  // time of the last execution at the responder; later requests are executed after it
  // when the responder executes the last READ or atomic: these keep their order among themselves, but WRITEs
  // may overtake them
  Nanos read_at = 0;
  // this queue pair's entry in the context cache of the responder's NIC; the entry of a receiver of UD
  // messages is SimWorker::datagram_context
  CachedContext responder;
  Nanos blocked_until = 0;
  QueuePair* next_free = nullptr;
};
static_assert(offsetof(QueuePair, blocker) == 64 && offsetof(QueuePair, executed_at) == 128);

}  // namespace loch::fabric::sim
