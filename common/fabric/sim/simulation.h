// What all parts of a simulated cluster share: the queue, the constants in picoseconds, the pools,
// the nodes, and the stages that a request flows through (requester.cc, responder.cc).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "common/base/rng.h"
#include "common/fabric/fabric.h"
#include "common/fabric/sim/cpu.h"
#include "common/fabric/sim/event_queue.h"
#include "common/fabric/sim/memory.h"
#include "common/fabric/sim/request.h"
#include "common/fabric/sim/resource.h"
#include "common/fabric/sim/sim.h"
#include "common/fabric/sim/timing.h"

namespace loch::fabric::sim {

// Where a node's link enters the switch. What finds its way out busy waits here; while there is no room
// left the node's link is paused, and all that is behind is late by as much.
struct SwitchPort {
  struct Waiting {
    Picos gone = 0;    // when the last of it leaves
    Picos amount = 0;  // bytes that wait, as their time on the link
  };
  std::vector<Waiting> waiting;
  std::uint32_t paused_ns = 0;  // in all; wraps around
  Picos paused = 0;             // picoseconds paused since the last reset of the counters
  [[nodiscard]] Picos filled(Picos now) const;
  // When `amount` of it will have left, if it is filled by as much.
  [[nodiscard]] Picos drained(Picos now, Picos amount) const;
};

// A node: its NIC, its link, its memory, its cores. What the stages look at comes first, a cache line
// for the link, one for the NIC's units.
struct alignas(64) SimNode {
  NodeId id = 0;
  bool is_up = true;
  bool was_lost = false;
  std::uint32_t incarnation = 1;  // grows with every restart; rkeys and connections are of one incarnation
  Nanos cut_until = 0;            // its link is down before this
  Nanos stalled_until = 0;        // the node's NIC does nothing before this instant
  Nanos stall_order = 0;
  Server egress, ingress;

  Server requester, responder;   // the NIC's two sides: what it sends out, and what arrives
  Server pcie_read, pcie_write;  // the bus towards the NIC, and from it

  Server fetch;
  ContextCache contexts;
  std::uint64_t tx_bytes = 0, rx_bytes = 0;

  KeyCache translations;
  std::uint64_t requests = 0, responses = 0;

  std::vector<std::unique_ptr<SimRegion>> regions;
  std::vector<SimWorker*> workers;     // by index; null where the index is not used
  std::uint32_t reads_on_the_way = 0;  // work requests that the NIC keeps until their response
  std::uint64_t context_misses = 0, translation_misses = 0, work_request_misses = 0;
  std::uint64_t retries = 0, lost = 0;
  std::vector<Server> atomic_locks;
  SwitchPort port;
  std::int64_t skew = 0;  // of its clock, ns
  std::int64_t drift_ppb = 0;
  std::unique_ptr<NodeCpu> cpu;
  Nanos lossy_until = 0;  // its link loses messages before this, with the probability `loss`
  double loss = 0;
  Nanos no_buffers_until = 0;     // SENDs find no receive buffer before this
  std::vector<Nanos> mute_until;  // by peer: what it sends there is lost before this; empty: nothing is
};

// A watch that is on.
struct alignas(64) SimWatch {
  WatchWait* wait = nullptr;
  SimWorker* worker = nullptr;
  SimRegion* region = nullptr;
  SimWatch *next_of_worker = nullptr, *previous_of_worker = nullptr;
  SimWatch* next_candidate = nullptr;
  SimWatch* next_free = nullptr;
  bool is_candidate = false;  // the watched memory changed; checked when the worker polls next
};
static_assert(sizeof(SimWatch) == 64);

// An instant at which a worker is to be woken: a timer's end, or deadlines to look at.
struct alignas(64) WorkerAlarm : Event {
  WorkerAlarm* next_free = nullptr;
  SimWorker* worker = nullptr;
  TimerWait* timer = nullptr;
};

class Simulation {
 public:
  explicit Simulation(const SimConfig& config);
  ~Simulation();

  [[nodiscard]] Nanos now() const { return queue.now(); }
  [[nodiscard]] Picos now_ps() const { return picos(queue.now()); }
  // Every event says who it is; the running hash is the trace's (SimReport::trace_hash).
  void note(std::uint64_t kind, std::uint64_t node) {
    const std::uint64_t word = static_cast<std::uint64_t>(queue.now()) << 16 ^ kind << 10 ^ node;
    hash = ((hash << 7 | hash >> 57) ^ word) * 0x9E3779B97F4A7C15ULL;
  }

  // ---- Requests (requester.cc) --------------------------------------------------------------
  // Takes a request that its worker has built; `at`: when the NIC has the doorbell or the MMIO.
  void submit(SimRequest* request, Nanos at);
  [[nodiscard]] SimRequest* new_request(QueuePair* qp, WorkRequest* wr);
  // A request that is not executed: `status` is delivered in its turn.
  void refuse(SimRequest* request, WcStatus status);
  void reset(QueuePair* qp);  // after a reconnection
  // ---- Failures (failures.cc) ----------------------------------------------------------------
  void schedule_faults();
  void crash(SimNode* node);  // down until its restart, if one is scheduled
  void begin_stopping();      // every client has ended, or an interrupt: servers leave their loops
  [[nodiscard]] bool reachable(const SimNode& a, const SimNode& b) const {
    return delivers(a, b) && delivers(b, a);
  }
  // What `from` sends to `to` arrives.
  [[nodiscard]] bool delivers(const SimNode& from, const SimNode& to) const {
    if (!from.is_up || !to.is_up) return false;
    if (from.id == to.id) return true;
    if (now() < from.cut_until || now() < to.cut_until) return false;
    return from.mute_until.empty() || now() >= from.mute_until[to.id];
  }
  // Draws: is this message lost in a burst?
  [[nodiscard]] bool is_lost(const SimNode& from, const SimNode& to) {
    if (from.id == to.id) return false;
    const double first = now() < from.lossy_until ? from.loss : 0,
                 second = now() < to.lossy_until ? to.loss : 0;
    return (first > 0 || second > 0) && fault_rng.chance(std::max(first, second));
  }
  [[nodiscard]] bool may_fault() const { return config.faults.heal_at == 0 || now() < config.faults.heal_at; }
  // Draws: does a fault of this probability strike now?
  [[nodiscard]] bool strikes(double probability) {
    return probability > 0 && may_fault() && fault_rng.chance(probability);
  }
  [[nodiscard]] Nanos up_to(Nanos span) {
    return span <= 0 ? 0 : 1 + static_cast<Nanos>(fault_rng.below(static_cast<std::uint64_t>(span)));
  }
  [[nodiscard]] std::uint32_t make_rkey(const SimNode& node, std::uint32_t region) const;

  SimConfig config;
  Timing timing;
  EventQueue queue;
  StagingPool staging;
  Pool<SimRequest> requests;
  Pool<QueuePair> queue_pairs;
  struct alignas(64) WorkRequestCopy {
    WorkRequest request;  // the first member: the copy is found by the request's address
    WorkRequestCopy* next_free = nullptr;
  };
  Pool<WorkRequestCopy> copies;
  Pool<SimWatch> watches;
  Pool<WorkerAlarm> alarms;
  std::vector<std::unique_ptr<SimNode>> nodes;
  std::vector<std::unique_ptr<SimWorker>> workers;
  std::uint64_t hash = 0;
  Rng fault_rng;
  bool has_faults = false;
  // Scheduled and drawn, and their ends; shared_ptr, because it destroys what was made, not an Event.
  std::vector<std::shared_ptr<Event>> failures;
  std::uint32_t kills_done = 0;
  std::function<void(NodeId)> tell_restart;  // a crashed node is back; may be empty
  bool stopping = false;
  std::uint32_t live_clients = 0, live_tasks = 0;
  std::uint32_t late_writes = 0;  // acknowledged and not visible yet
};

// What happens to a request. Its events, in order, are the hops of the diagram in docs/simulator.md; the rest
// are their steps. Three files have them: the requester's NIC (requester.cc), the switch (switch_port.cc),
// the responder's NIC (responder.cc).
struct Stages {
  // ---- Events
  static void at_requester(Event* event);  // requester.cc: the NIC sees the work request
  static void depart(Event* event);        // requester.cc: its payload is fetched: onto the link
  static void arrive(Event* event);        // responder.cc: its first bytes reach the responder's link
  static void execute(Event* event);       // responder.cc: memory is touched
  static void land_late(Event* event);  // responder.cc: a WRITE that was acknowledged before it was visible
  static void answered(Event* event);   // requester.cc: the response's first bytes reach the requester's link
  static void land(Event* event);       // requester.cc: READ data and completion are in memory

  // ---- requester.cc
  static void start(SimRequest* request);
  static void resume_stalled(Simulation& sim, QueuePair* qp);
  static void unreachable(SimRequest* request, void (*again)(Event*));
  static void complete(SimRequest* request);
  static void retire(Simulation& sim, QueuePair* qp);
  static void release(SimRequest* request);
  static Picos context(Simulation& sim, SimNode& node, CachedContext* context);
  static Picos translation(Simulation& sim, SimNode& node, const Region& region, std::uint64_t offset,
                           std::uint64_t length);
  static Nanos slow(Simulation& sim) {
    if (!sim.has_faults || !sim.strikes(sim.config.faults.slow_dma)) return 0;
    return sim.up_to(sim.config.faults.slow_dma_span);
  }
  // Requests behind one that is being retried on their queue pair wait for it, in their order.
  static bool held_back(SimRequest* request, void (*stage)(Event*)) {
    return request->qp->blocker != nullptr && is_behind_blocker(request, stage);
  }
  static bool is_behind_blocker(SimRequest* request, void (*stage)(Event*));

  // ---- switch_port.cc
  // True when a message from `sender` is not at the switch yet after all, because its link was paused, or
  // finds no room there: it comes back later.
  static bool paused_at_switch(SimRequest* request, SimNode& sender);
  // Queues a message at the switch: its transmission begins `turn` from now and takes `span`.
  static void wait_at_switch(Simulation& sim, SimNode& sender, Picos turn, Picos span);

  // ---- responder.cc
  static void respond(SimRequest* request);
  static void plan_pieces(SimRequest* request, std::uint64_t offset, double probability);
  static void touch_piece(SimRequest* request, std::uint64_t offset, std::uint32_t* begin,
                          std::uint32_t* end);
  static WcStatus validate(SimRequest* request);
  static bool take_receive(SimRequest* request);
  static void touch_memory(SimRequest* request);
};

enum EventKind : std::uint64_t {
  kind_requester = 1,
  kind_depart,
  kind_arrive,
  kind_execute,
  kind_answered,
  kind_land,
  kind_late,
  kind_wake,
  kind_timer,
  kind_deadline,
  kind_fault,
  kind_scheduled
};

}  // namespace loch::fabric::sim
