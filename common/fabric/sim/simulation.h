// The state that all parts of a simulated cluster share: the event queue, the constants in picoseconds, the
// pools, the nodes, and the steps that a request goes through (requester.cc, responder.cc).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/rng.h"
#include "common/coro/frame_pool.h"
#include "common/fabric/fabric.h"
#include "common/fabric/sim/cpu.h"
#include "common/fabric/sim/doorbells.h"
#include "common/fabric/sim/event_queue.h"
#include "common/fabric/sim/memory.h"
#include "common/fabric/sim/request.h"
#include "common/fabric/sim/resource.h"
#include "common/fabric/sim/sim.h"
#include "common/fabric/sim/timing.h"

namespace loch::fabric::sim {

// The port at which a node's link enters the switch, with the buffer for the node's messages whose output
// port is busy. While the buffer is full, the node's link is paused, which delays all its later messages.
struct SwitchPort {
  struct Waiting {
    Picos gone = 0;    // when the message has left the switch completely
    Picos amount = 0;  // the message's bytes in the buffer, as picoseconds of link time
  };
  // entries of messages that have left the buffer may remain until remove_left()
  std::vector<Waiting> waiting;
  // The sum of the amounts in `waiting`, an upper bound of what is in the buffer: if even this bound leaves
  // room for a message, the entries need not be inspected.
  Picos at_most = 0;
  std::uint32_t paused_ns = 0;  // total time for which the node's link was paused, modulo 2^32 ns
  Picos paused = 0;  // picoseconds for which the link was paused since the last reset of the counters
  [[nodiscard]] Picos filled(Picos now) const;
  void remove_left(Picos now);  // removes the entries of messages that have left the buffer
  // The earliest time at which one of the waiting messages has freed `amount` (picoseconds of link time) of
  // the buffer, or has left completely.
  [[nodiscard]] Picos drained(Picos now, Picos amount) const;
  // The earliest time from `from` on at which no more than `level` is in the buffer, if nothing is added.
  [[nodiscard]] Picos falls_to(Picos from, Picos level) const;

  // With SimConfig::threads: messages of the node that have met a busy output port, which the node hears of a
  // network delay later and takes into account before it sends again. In the order of (at, receiver).
  struct Notice {
    Picos at = 0;    // when the node hears of it
    Picos turn = 0;  // from the message's arrival until its transmission begins
    Picos span = 0;  // how long the transmission takes
    NodeId sender = 0, receiver = 0;
  };
  std::vector<Notice> notices;
  void hear(const Notice& notice);
};

// A node: its NIC, link, memory and cores. The members that every request uses come first, with a cache line
// for the link and one for the NIC's units.
struct alignas(64) SimNode {
  NodeId id = 0;
  std::uint8_t part = 0;  // index of the part of the simulation to which the node belongs
  bool is_up = true;
  // number of the incarnation, which grows with every restart; rkeys and connections belong to one
  // incarnation
  std::uint32_t incarnation = 1;
  Nanos cut_until = 0;      // the node's link is down before this instant
  Nanos stalled_until = 0;  // the NIC processes nothing before this instant
  Nanos stall_order = 0;
  Server egress, ingress;

  Server requester, responder;   // the NIC's two units: for outgoing requests, and for arriving messages
  Server pcie_read, pcie_write;  // the PCIe bus towards the NIC, and from the NIC

  Server fetch;
  ContextCache contexts;
  std::uint64_t tx_bytes = 0, rx_bytes = 0;

  KeyCache translations;
  std::uint64_t requests = 0, responses = 0;

  std::vector<std::unique_ptr<SimRegion>> regions;
  std::vector<SimWorker*> workers;  // by index; null if there is no such worker
  // number of READs and atomics in transit; the NIC caches their work requests until the response
  std::uint32_t reads_on_the_way = 0;
  std::uint32_t posted = 0;  // requests of the node's workers that are posted and not answered
  // queue pairs made by the node's workers, or to the node, and not fenced
  std::uint32_t queue_pairs_in_use = 0;
  Doorbells doorbells;
  std::uint64_t context_misses = 0, translation_misses = 0, work_request_misses = 0;
  std::uint64_t retries = 0, lost = 0;
  std::vector<Server> atomic_locks;
  // When each of the NIC's places for atomics is free (nic.atomic_places; empty: they are unlimited), until
  // when an atomic that waits for one holds up what arrives, and for how long one did since the last reset of
  // the counters.
  std::vector<Picos> atomic_places;
  Picos held_until = 0, held_by_atomics = 0;
  // used instead of `requester` on a NIC with several units that transmit
  std::vector<Server> transmit_units;
  SwitchPort port;
  bool was_lost = false;
  std::int64_t skew = 0;  // ns by which the node's clock differs from virtual time
  std::int64_t drift_ppb = 0;
  std::unique_ptr<NodeCpu> cpu;
  Nanos lossy_until = 0;  // before this instant the link loses messages with the probability `loss`
  double loss = 0;
  Nanos no_buffers_until = 0;     // before this instant SENDs find no receive buffer
  std::vector<Nanos> mute_until;  // by peer: before this instant messages to it are lost; empty: none are
};

// A wait of a worker until a word of its memory, or one word of a set, has changed.
struct alignas(64) SimWatch {
  WatchWait* wait = nullptr;
  SimWorker* worker = nullptr;
  SimRegion* region = nullptr;
  SimWatch *next_of_worker = nullptr, *previous_of_worker = nullptr;
  SimWatch* next_candidate = nullptr;
  SimWatch* next_free = nullptr;
  // whether the awaited memory has changed, so that the condition is checked at the worker's next poll
  bool is_candidate = false;
};
static_assert(sizeof(SimWatch) == 64);

// An instant at which a worker is woken, for a timer or for checking deadlines.
struct alignas(64) WorkerAlarm : Event {
  WorkerAlarm* next_free = nullptr;
  SimWorker* worker = nullptr;
  TimerWait* timer = nullptr;
};

// What the trace hash covers: each read and write of memory, and each event that a worker notices, with its
// time.
enum class Effect : std::uint8_t {
  read = 1,   // the responder's NIC reads memory for a READ
  written,    // the responder's NIC writes the bytes of a WRITE
  atomic,     // the responder's NIC executes a CAS or FAA
  received,   // a SEND or a WRITE with immediate takes a receive buffer
  landed,     // the data of a READ or the old word of an atomic are in the requester's memory
  stored,     // a worker stores a word
  completed,  // a request has ended
  handled,    // a worker has polled a completion
  taken,      // a worker has polled a message
  watched,    // a worker's wait for a memory word has ended
  failed,     // a failure begins or ends
};

// What all parts of a simulated cluster share.
struct Cluster {
  explicit Cluster(const SimConfig& sim_config);
  ~Cluster();
  SimConfig config;
  Timing timing;
  std::vector<std::unique_ptr<SimNode>> nodes;
  std::vector<std::unique_ptr<SimWorker>> workers;
};

// What a part of the simulation has for another one, by the window in which it was sent: while a part fills
// one slot, the other part may read those of the windows before (threads.cc).
struct Outbox {
  // A message, or an object that goes back to the other part's pools; one cache line.
  struct alignas(64) Item {
    enum class Kind : std::uint8_t { message, answer, request, staged };
    void* object = nullptr;  // messages, answers: the SimRequest
    Nanos at = 0;            // messages, answers: when they arrive
    std::uint64_t order = 0;
    // messages, answers: what the receiver will need of the request, to be prefetched
    QueuePair* qp = nullptr;
    WorkRequest* wr = nullptr;
    Staged* data = nullptr;
    Kind kind = Kind::message;
  };
  // A thread is at most one window ahead of another one, which may still read what was sent two windows
  // before its own.
  static constexpr unsigned windows = 4;
  struct alignas(64) Slot {
    std::vector<Item> items;
    std::vector<SwitchPort::Notice> notices;
  };
  Slot slots[windows];
};

// A simulated cluster or, if SimConfig::threads is more than 1, the part of it that one thread simulates: the
// nodes whose number is `part` modulo the number of parts.
class Simulation {
 public:
  Simulation(Cluster& shared, std::uint8_t number);

  [[nodiscard]] Nanos now() const { return queue.now(); }
  [[nodiscard]] Picos now_ps() const { return picos(queue.now()); }
  // Adds an effect to the trace hash (SimReport::trace_hash); `what`: for memory, the offset of its first
  // byte. The hash is a sum over all effects, so that it does not depend on how many events lead to them.
  void note(Effect effect, NodeId node, Nanos at, std::uint64_t what) {
    const std::uint64_t place = std::uint64_t{node} << 8 | static_cast<std::uint64_t>(effect);
    hash += mix64((static_cast<std::uint64_t>(at) * 0x9E3779B97F4A7C15ULL ^ what) + (place << 40));
  }

  // ---- Requests (requester.cc) --------------------------------------------------------------
  // Starts a work request that its worker has built; `at` is the time at which the NIC has the doorbell or
  // the work request written by MMIO.
  void submit(SimRequest* request, Nanos at);
  // Makes a request; the caller sets its work request.
  [[nodiscard]] SimRequest* new_request(QueuePair* qp, const WorkRequest& wr);
  // Completes a request with `status` without executing it, after all earlier requests of its queue pair.
  void refuse(SimRequest* request, WcStatus status);
  void reset(QueuePair* qp);  // clears the state of a queue pair that was reconnected
  // ---- Failures (failures.cc) ----------------------------------------------------------------
  void schedule_faults();
  void crash(SimNode* node);  // takes the node down until its restart, if one is scheduled, or else for ever
  // tells servers to leave their loops, because every client has ended or after an interrupt
  void begin_stopping();
  [[nodiscard]] bool reachable(const SimNode& a, const SimNode& b) const {
    return delivers(a, b) && delivers(b, a);
  }
  // Whether a message from `from` to `to` arrives, given cuts and crashes.
  [[nodiscard]] bool delivers(const SimNode& from, const SimNode& to) const {
    if (!from.is_up || !to.is_up) return false;
    if (from.id == to.id) return true;
    if (now() < from.cut_until || now() < to.cut_until) return false;
    return from.mute_until.empty() || now() >= from.mute_until[to.id];
  }
  // Draws whether a lossy link of either node loses the message.
  [[nodiscard]] bool is_lost(const SimNode& from, const SimNode& to) {
    if (from.id == to.id) return false;
    const double first = now() < from.lossy_until ? from.loss : 0,
                 second = now() < to.lossy_until ? to.loss : 0;
    return (first > 0 || second > 0) && fault_rng.chance(std::max(first, second));
  }
  [[nodiscard]] bool may_fault() const { return config.faults.heal_at == 0 || now() < config.faults.heal_at; }
  // Draws whether a fault of this probability strikes now.
  [[nodiscard]] bool strikes(double probability) {
    return probability > 0 && may_fault() && fault_rng.chance(probability);
  }
  [[nodiscard]] Nanos up_to(Nanos span) {
    return span <= 0 ? 0 : 1 + static_cast<Nanos>(fault_rng.below(static_cast<std::uint64_t>(span)));
  }
  [[nodiscard]] std::uint32_t make_rkey(const SimNode& node, std::uint32_t region) const;

  // ---- Parts (threads.cc) ----------------------------------------------------------------------
  // Whether the simulation follows the rules for several threads (SimConfig::threads).
  [[nodiscard]] bool is_divisible() const { return divisible; }
  // Schedules the arrival of a message at another node, `sender` being the node that sends it.
  void send(SimRequest* request, const SimNode& sender, const SimNode& receiver, Nanos at) {
    if (!is_divisible()) return queue.push(request, at);
    send_across(request, sender, receiver, at);
  }
  void send_across(SimRequest* request, const SimNode& sender, const SimNode& receiver, Nanos at);
  void notify(const SwitchPort::Notice& notice, SimNode& sender);
  // Ends the run with an error at the end of this window, since what has happened concerns the nodes of two
  // parts at one instant.
  void give_up(const std::string& why) {
    if (gave_up.empty()) gave_up = why;
  }
  // Give an object back to the pool that it was taken from, which may be another part's.
  void give(SimRequest* request);
  void give(Staged* staged);
  // Hands an object to the part `owner`, for its pool.
  void give_back(std::uint8_t owner, void* object, Outbox::Item::Kind kind);
  void take(const Outbox::Item& item);  // takes in what another part had for this one

  Cluster& cluster;
  const SimConfig& config;
  const Timing& timing;
  const std::uint8_t part;
  const bool divisible;
  // by part: what this part has for the others; in a cache line that nobody writes during a run
  alignas(64) std::vector<Outbox> outboxes;
  alignas(64) unsigned slot = 0;  // which slot of its outboxes this part fills
  // by slot: when the first message arrives that was sent in its window
  Nanos next_sent[Outbox::windows] = {forever, forever, forever, forever};
  bool has_client_on_core = false;  // whether a client worker has been on a core
  std::string gave_up;              // why the run cannot go on; empty: it can
  coro::FramePool frames;  // with SimConfig::threads: the pool of the workers' coroutines during the run
  EventQueue queue;
  StagingPool staging;
  Pool<SimRequest> requests;
  Pool<QueuePair> queue_pairs;
  Pool<SimWatch> watches;
  Pool<WorkerAlarm> alarms;
  std::vector<std::unique_ptr<SimNode>>& nodes;
  std::vector<std::unique_ptr<SimWorker>>& workers;
  std::uint64_t hash = 0;
  Rng fault_rng;
  bool has_faults = false;
  // Events that begin or end a failure, whether scheduled or drawn at random. They are held by shared_ptr,
  // which deletes an object as the type with which it was made: Event has no virtual destructor.
  std::vector<std::shared_ptr<Event>> failures;
  std::uint32_t kills_done = 0;
  std::function<void(NodeId)> tell_restart;  // called when a crashed node has restarted; may be empty
  bool stopping = false;
  std::uint32_t live_clients = 0, live_tasks = 0;
  std::uint32_t late_writes = 0;  // number of WRITEs that were acknowledged and are not visible yet
};

// Makes the nodes of a cluster and assigns them to the parts of its simulation.
void make_nodes(Cluster& cluster, const std::vector<std::unique_ptr<Simulation>>& parts);

// What happens to a request: first its events, in the order of the hops in the diagram of docs/simulator.md,
// then the functions that they call. They are in three files: requester.cc (the requester's NIC),
// switch_port.cc (the switch) and responder.cc (the responder's NIC).
struct Stages {
  // ---- The events of a request, in order
  static void at_requester(Event* event);  // requester.cc: the NIC sees the work request
  // requester.cc: the payload has been fetched, and the message goes onto the link
  static void depart(Event* event);
  static void arrive(Event* event);   // responder.cc: the message's first bytes reach the responder's link
  static void execute(Event* event);  // responder.cc: memory is read or written
  // responder.cc: the bytes of a WRITE that was acknowledged early are stored
  static void land_late(Event* event);
  static void answered(Event* event);  // requester.cc: the response's first bytes reach the requester's link
  static void land(Event* event);      // requester.cc: READ data and completion are in memory

  // ---- Functions defined in requester.cc
  static void start(SimRequest* request);
  static void resume_stalled(Simulation& sim, QueuePair* qp);
  static void unreachable(SimRequest* request, void (*again)(Event*));
  static void complete(SimRequest* request);
  static void retire(Simulation& sim, QueuePair* qp);
  static void release(SimRequest* request);
  // Takes the request out of the count SimNode::posted (posted and unanswered) if it is counted there.
  static void unpost(SimRequest* request);
  static Picos context(Simulation& sim, SimNode& node, CachedContext* context);
  // Queues a message of the queue pair, a request of the node or the answer to a READ, at the node's unit
  // that transmits it for `gap`, which it reaches at `now`. Returns the time from then until the unit begins.
  static Picos transmit_turn(Simulation& sim, SimNode& node, const QueuePair& qp, Picos now, Picos gap);
  static Picos translation(Simulation& sim, SimNode& node, const SimRegion& region, std::uint64_t offset,
                           std::uint64_t length);
  static Nanos slow(Simulation& sim) {
    if (!sim.has_faults || !sim.strikes(sim.config.faults.slow_dma)) return 0;
    return sim.up_to(sim.config.faults.slow_dma_span);
  }
  // Whether the request has to wait because an earlier one of its queue pair is being retried; if so,
  // `stage`, the handler of the request's present step, is scheduled to run later.
  static bool held_back(SimRequest* request, void (*stage)(Event*)) {
    return request->qp->blocker != nullptr && is_behind_blocker(request, stage);
  }
  static bool is_behind_blocker(SimRequest* request, void (*stage)(Event*));

  // ---- Functions defined in switch_port.cc
  // Whether a message from `sender` arrives at the switch later than scheduled, because the sender's link was
  // paused, or because the switch's buffer is full, which pauses the link. If so, the event of the message's
  // arrival is scheduled anew.
  static bool paused_at_switch(SimRequest* request, SimNode& sender);
  // Queues a message at the switch: its transmission begins `turn` picoseconds from now and takes `span`
  // picoseconds. Returns for how long the transmission stands still because the sender's link is paused.
  static Picos wait_at_switch(Simulation& sim, SimNode& sender, Picos turn, Picos span);
  // As wait_at_switch(); with SimConfig::threads the sender hears of it later, and a transmission never
  // stands still.
  static Picos meet_port(Simulation& sim, SimNode& sender, const SimNode& receiver, Picos turn, Picos span);
  // With SimConfig::threads: takes the notices into account that the node has heard by now.
  static void take_notices(Simulation& sim, SimNode& node);

  // ---- Functions defined in responder.cc
  static void respond(SimRequest* request);
  static void plan_pieces(SimRequest* request, std::uint64_t offset, double probability);
  static void touch_piece(SimRequest* request, std::uint64_t offset, std::uint32_t* begin,
                          std::uint32_t* end);
  static WcStatus validate(SimRequest* request);
  static bool take_receive(SimRequest* request);
  static void touch_memory(SimRequest* request);
};

}  // namespace loch::fabric::sim
