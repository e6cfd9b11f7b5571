// The fabric contract: what a protocol may ask of RDMA, and what it may rely on.
//
// A *node* owns registered *regions* and *workers*. A worker is one thread (or one simulated
// thread) with a run queue, a completion queue and its connections. Everything asynchronous is
// awaited on a worker; a worker is used by its own thread alone.
//
// What a protocol may rely on, and no more (docs/architecture.md has the reasons):
//  1. A READ or WRITE larger than 8 aligned bytes is not atomic. Its 64-byte lines may be fetched
//     or placed at different instants, in any order unless Capabilities::in_order_placement, with
//     CPU stores and other operations between.
//  2. CAS and FAA are atomic against CAS and FAA through the same NIC only: not against CPU stores
//     or CPU atomics, not against WRITE. A word that is swapped remotely is only ever touched
//     through the NIC, its own node's included.
//  3. A WRITE's completion at the requester does not say that the remote CPU can see it. A receive
//     completion does. A later READ on the same queue pair pushes it out.
//  4. On one RC queue pair, WRITE then READ and WRITE then atomic keep their order; a WRITE posted
//     after a READ or an atomic may overtake it unless fenced. Different queue pairs: no order.
//  5. A posted buffer belongs to the NIC until its completion, inline data excepted. Unsignaled
//     requests retire with a later signaled one; the queue never overflows.
//  6. UC and UD lose messages (a UC WRITE may have been placed in part), UD reorders; the sender
//     hears nothing. RC retries, then errors: the failing request may have executed, all later
//     ones are flushed.
//  7. At most max_rd_atomic READs and atomics are outstanding; the next one stalls the send queue,
//     later WRITEs included.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/rng.h"
#include "common/base/units.h"
#include "common/coro/run_queue.h"
#include "common/coro/scope.h"
#include "common/coro/task.h"
#include "common/fabric/region.h"

namespace loch::fabric {

enum class Transport : std::uint8_t { rc, uc, ud };
enum class Verb : std::uint8_t { read, write, cas, faa, send, recv };
enum class AtomicScope : std::uint8_t { none, nic, global };

[[nodiscard]] std::string_view name(Transport transport);
[[nodiscard]] std::string_view name(Verb verb);

// What a work completion says. Anything but success leaves the queue pair in error (RC) until
// Worker::reconnect.
enum class WcStatus : std::uint8_t {
  success,
  flushed,         // was behind a failed request; certainly not executed after the failure
  retry_exceeded,  // the peer did not answer; the request MAY have executed
  rnr_exceeded,    // the peer had no receive buffer
  remote_access,   // bad rkey, range or rights: not executed
  local_error,     // bad local buffer or a full queue: not executed
};
[[nodiscard]] std::string_view name(WcStatus status);

// Queried when a device opens; recorded with every result.
struct Capabilities {
  std::string fabric;  // "sim", "shm", "verbs"
  std::string device;  // profile or device name
  bool rc = true, uc = true, ud = true;
  AtomicScope atomic_scope = AtomicScope::nic;
  std::uint32_t untorn_bytes = 8;   // aligned bytes that are always fetched or placed at once
  bool in_order_placement = false;  // a WRITE's (READ's) bytes appear in address order
  std::uint32_t max_rd_atomic = 16;
  std::uint32_t max_inline_bytes = 0;
  std::uint32_t mtu_bytes = 4096;
  std::uint32_t send_queue_depth = 128;  // of one queue pair
  std::uint32_t recv_queue_depth = 512;
  std::uint32_t datagram_queue_pairs = 1;  // of a worker: its lanes of datagrams share them
  // How long after it was posted an RC request may still be executed: all of the NIC's tries. 0: not known.
  Nanos request_lifetime = 0;
  bool simulated = false;  // decides labels of results, never protocol behaviour
};

// What a protocol needs; check() names the first thing that is missing.
struct Requirements {
  bool rc = false, uc = false, ud = false;
  AtomicScope atomic_scope = AtomicScope::none;
  std::uint32_t untorn_bytes = 8;
  bool in_order_placement = false;
  std::uint32_t max_inline_bytes = 0;
  std::uint32_t max_rd_atomic = 0;
  std::uint32_t ud_lanes = 1;  // of a worker
  // An RC request must not be executed so long after it was posted; 0: it does not matter.
  Nanos request_lifetime_below = 0;
};
[[nodiscard]] Result<> check(const Requirements& needs, const Capabilities& has);

// Work requests and bytes of one operation of a store (one GET, say). A protocol hangs it on each
// work request that it posts for the operation; the count decorator fills it in.
struct OpStats {
  std::uint32_t read = 0, write = 0, cas = 0, faa = 0, send = 0, recv = 0;
  std::uint64_t payload_bytes = 0;  // data that crosses the network for it, both ways, no headers
  std::uint64_t wire_bytes = 0;     // with every header, ACK and response (wire.h)
  std::uint32_t index_read = 0;     // the part of `read` that reads index entries (protocol's word)
  std::uint32_t index_cas = 0;
  std::uint32_t cache_hits = 0;
  std::uint32_t local_accesses = 0;  // served from this node's memory without RDMA
};

struct WorkRequest;

// Who hears of a completion. `fn` runs on the worker's thread, outside any coroutine.
struct CompletionSink {
  void (*fn)(CompletionSink* self, WorkRequest& done) = nullptr;
};

// One work request. It lives in its awaiter's frame until its completion (rule 5).
struct WorkRequest {
  Verb verb = Verb::read;
  Transport transport = Transport::rc;
  bool is_signaled = true;
  bool is_inline = false;
  bool is_fenced = false;
  bool has_immediate = false;
  WcStatus status = WcStatus::success;  // out
  std::uint8_t lane = 0;                // which of the worker's queue pairs to that peer
  NodeId peer = 0;
  std::uint16_t peer_worker = 0;  // SEND: the receiving worker's index on its node
  std::uint32_t length = 0;       // bytes; 8 for CAS and FAA
  std::uint32_t immediate = 0;
  // Local buffer: source of WRITE and SEND, destination of READ. CAS and FAA: where the old word is
  // placed, or no region; either way `result` holds it after the completion, in host byte order.
  LocalSlice local;
  RemoteRegion remote;  // READ, WRITE, CAS, FAA
  std::uint64_t remote_offset = 0;
  std::uint64_t compare = 0;       // CAS
  std::uint64_t operand = 0;       // CAS: the new word; FAA: what is added
  std::uint64_t result = 0;        // out: CAS, FAA: the old word, once it is retired
  OpStats* stats = nullptr;        // may be null
  WorkRequest* next = nullptr;     // the rest of the chain
  CompletionSink* sink = nullptr;  // null: nobody waits (unsignaled)
};

struct Completion {
  WcStatus status = WcStatus::success;
  std::uint64_t result = 0;  // CAS, FAA: the old word
  [[nodiscard]] bool ok() const { return status == WcStatus::success; }
};

// A received message. The buffer is the protocol's again.
struct Received {
  enum class Outcome : std::uint8_t { message, timed_out, stopping };
  Outcome outcome = Outcome::message;
  NodeId from = 0;
  std::uint16_t from_worker = 0;
  std::uint32_t length = 0;
  bool has_immediate = false;
  std::uint32_t immediate = 0;
  LocalSlice buffer;       // as it was posted; UD: the payload starts 40 bytes in (the GRH)
  std::uint64_t user = 0;  // as it was posted
};

enum class WatchOutcome : std::uint8_t {
  ready,      // the predicate holds
  timed_out,  // the deadline passed
  stopping,   // the run is over: servers leave their loops
  link_down,  // the connection to `peer` failed while the watch was on
};

// One 8-byte aligned word of a region of this node.
struct WatchWord {
  const Region* region = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t mask = ~std::uint64_t{0};
  std::uint64_t value = 0;
  bool until_equal = true;     // ready when (word & mask) == value; else when it differs
  std::optional<NodeId> peer;  // end early when the connection to this node fails
};

// `count` words of one region, `stride` bytes apart: the request slots of a server. `ready` is asked of
// each, and may look at the whole slot that the word ends: the `stride` bytes up to its last.
struct WatchSet {
  const Region* region = nullptr;
  std::uint64_t offset = 0;
  std::uint32_t stride = 8;
  std::uint32_t count = 0;
  bool (*ready)(void* context, std::uint32_t index, std::uint64_t word) = nullptr;
  void* context = nullptr;
};

struct WatchAny {
  WatchOutcome outcome = WatchOutcome::ready;
  std::uint32_t index = 0;
};

constexpr Nanos forever = INT64_MAX;

// ---- What a worker's awaiters leave with the fabric; they live in the awaiting frame. ----------
struct TimerWait {
  Nanos at = 0;
  bool is_spinning = false;  // true: burns the core meanwhile; false: gives it up
  std::coroutine_handle<> waiter;
  TimerWait* next = nullptr;
};
struct WatchWait {
  WatchWord word;  // used when set.count == 0
  WatchSet set;
  std::uint32_t start = 0;   // first index to look at
  Nanos deadline = forever;  // Worker::now() time
  WatchAny result;
  std::coroutine_handle<> waiter;
  WatchWait* next = nullptr;
  void* fabric = nullptr;  // the fabric's own
};
struct ReceiveWait {
  Transport transport = Transport::rc;
  Nanos deadline = forever;
  Received result;
  std::coroutine_handle<> waiter;
  ReceiveWait* next = nullptr;
  void* fabric = nullptr;
};
struct ReconnectWait {
  NodeId peer = 0;
  Nanos deadline = forever;
  bool connected = false;
  std::coroutine_handle<> waiter;
  ReconnectWait* next = nullptr;
};

// CPU time that protocol steps cost, in nanoseconds, for compute(). All zero on real fabrics, where
// the work costs what it costs.
struct CpuCosts {
  double hash_fixed = 0, hash_byte = 0;
  double compare_fixed = 0, compare_byte = 0;
  double copy_fixed = 0, copy_byte = 0;
  double crc_byte = 0;
  double memory_fixed = 0;     // a random access to memory: what prefetching hides
  double line_fixed = 0;       // to get a cache line that another core has changed
  double operation_fixed = 0;  // a store operation's own bookkeeping: request set-up, random draw
  [[nodiscard]] Nanos hash(std::uint64_t bytes) const { return span(hash_fixed, hash_byte, bytes); }
  [[nodiscard]] Nanos compare(std::uint64_t bytes) const { return span(compare_fixed, compare_byte, bytes); }
  [[nodiscard]] Nanos copy(std::uint64_t bytes) const { return span(copy_fixed, copy_byte, bytes); }
  [[nodiscard]] Nanos crc(std::uint64_t bytes) const { return span(0, crc_byte, bytes); }
  [[nodiscard]] Nanos memory() const { return static_cast<Nanos>(memory_fixed); }
  [[nodiscard]] Nanos line() const { return static_cast<Nanos>(line_fixed); }
  [[nodiscard]] Nanos operation() const { return static_cast<Nanos>(operation_fixed); }

 private:
  static Nanos span(double fixed, double per_byte, std::uint64_t bytes) {
    return static_cast<Nanos>(fixed + per_byte * static_cast<double>(bytes));
  }
};

enum class Role : std::uint8_t { client, server };

struct WorkerSpec {
  NodeId node = 0;
  Role role = Role::client;
  std::uint16_t index = 0;  // unique on its node, dense from 0 over both roles
  int core = -1;            // pinned to this core of its node, or -1
  std::string name;         // "client 3"; shown in traces
  // UD lanes that it posts on; messages arrive on lane 0. A device makes as many queue pairs.
  std::uint32_t ud_lanes = 1;
};

class Fabric;

// ---- Data path -------------------------------------------------------------------------------
// The virtual functions allocate nothing, lock nothing and throw nothing once warm.
class Worker {
 public:
  Worker(const WorkerSpec& spec, std::uint64_t seed)
      : spec_(spec), rng_(seed, "worker", (std::uint64_t{spec.node} << 16) | spec.index) {}
  virtual ~Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  [[nodiscard]] const WorkerSpec& spec() const { return spec_; }
  [[nodiscard]] NodeId node() const { return spec_.node; }
  [[nodiscard]] std::uint16_t index() const { return spec_.index; }
  // Protocol code draws from here and nowhere else.
  [[nodiscard]] Rng& rng() { return rng_; }
  [[nodiscard]] const CpuCosts& costs() const { return *costs_; }

  // Coroutines that are ready to go on (a decorated worker shares its inner worker's queue).
  [[nodiscard]] virtual coro::RunQueue& run_queue() = 0;
  // Nanoseconds on this fabric's own clock, the same for every worker: intervals, latencies.
  [[nodiscard]] virtual Nanos now() const = 0;
  // This node's loosely synchronised clock: skewed and drifting. For stamps that others read.
  [[nodiscard]] virtual Nanos node_clock() const = 0;
  // The run is over: servers leave their loops.
  [[nodiscard]] virtual bool stopping() const = 0;
  [[nodiscard]] virtual const Capabilities& capabilities() const = 0;

  // Posts a chain (linked by `next`) with one doorbell. Each signaled request's sink is called on
  // its completion; until then the request and its buffer stay put.
  virtual void post(WorkRequest* chain) = 0;
  // Posts one unsignaled request that nobody waits for: the fabric keeps its own copy. The local
  // buffer must stay untouched until a later signaled request on the same queue pair completes, or
  // until a watch on the landing buffer has seen its last byte. A failure puts the queue pair in
  // error, which the watch reports.
  virtual void post_detached(const WorkRequest& request) = 0;
  // Gives the NIC a buffer for incoming SENDs of the transport; shared by the worker's queue pairs.
  virtual void post_recv(Transport transport, LocalSlice buffer, std::uint32_t length,
                         std::uint64_t user) = 0;
  // A CPU store to a word that some worker of this node may be watching (release order).
  virtual void store_word(Region& region, std::uint64_t offset, std::uint64_t value) = 0;

  // A peer's message that belongs to an operation of this worker has arrived: a server's reply, which no
  // work request of this worker brought. Whoever counts adds verb, length and wire bytes to its `stats`;
  // `peer` is who sent it.
  virtual void attribute(const WorkRequest& /*arrived*/) {}
  // The same for a message that was received.
  void attribute(const Received& message, Transport transport, OpStats* stats);

  // Something that this worker did from `start` until now, for the trace: a GET, a MIGRATE. `what` lives
  // for ever. Nothing where nothing traces.
  virtual void mark(std::string_view /*what*/, Nanos /*start*/) {}

  [[nodiscard]] virtual bool connected(NodeId peer) const = 0;
  // Grows by one with every reconnection; regions looked up under an older epoch are void.
  [[nodiscard]] virtual std::uint32_t epoch(NodeId peer) const = 0;

  // The awaiters below end here.
  virtual void begin_timer(TimerWait* wait) = 0;
  virtual void begin_watch(WatchWait* wait) = 0;
  virtual void begin_receive(ReceiveWait* wait) = 0;
  virtual void begin_reconnect(ReconnectWait* wait) = 0;
  // CPU work of `span` > 0 ns: charged in simulation, spun elsewhere (where all costs() are 0).
  virtual void begin_compute(Nanos span, std::coroutine_handle<> waiter) = 0;

  // ---- Awaitables: const Completion done = co_await worker.read(…); ---------------------------
  class Operation;
  class Chain;
  class Sleep;
  class Compute;
  class WatchOne;
  class WatchMany;
  class Receive;
  class Reconnect;

  [[nodiscard]] Operation execute(const WorkRequest& request);
  // READ `length` bytes at `offset` of `source` into `destination`.
  [[nodiscard]] Operation read(const RemoteRegion& source, std::uint64_t offset, LocalSlice destination,
                               std::uint32_t length, OpStats* stats = nullptr);
  [[nodiscard]] Operation write(const RemoteRegion& target, std::uint64_t offset, LocalSlice source,
                                std::uint32_t length, OpStats* stats = nullptr);
  // Completion::result is the old word: the swap took place iff it equals `expected`.
  [[nodiscard]] Operation cas(const RemoteRegion& target, std::uint64_t offset, std::uint64_t expected,
                              std::uint64_t desired, OpStats* stats = nullptr);
  [[nodiscard]] Operation faa(const RemoteRegion& target, std::uint64_t offset, std::uint64_t add,
                              OpStats* stats = nullptr);
  // Posts all of `requests` with one doorbell and waits until every signaled one has completed. The
  // last one must be signaled. Returns the first status that is not success.
  [[nodiscard]] Chain post_and_wait(std::span<WorkRequest> requests);
  // Gives up the core until `at` (now() time).
  [[nodiscard]] Sleep sleep_until(Nanos at);
  // Burns the core until `at`: short back-offs.
  [[nodiscard]] Sleep spin_until(Nanos at);
  // Charges CPU time, or spends it; ready at once where span is 0.
  [[nodiscard]] Compute compute(Nanos span);
  // Polls: burns the core until the word answers, or the deadline (now() time) passes.
  [[nodiscard]] WatchOne watch(const WatchWord& word, Nanos deadline = forever);
  // Polls the set round robin from index `start`.
  [[nodiscard]] WatchMany watch_any(const WatchSet& set, std::uint32_t start, Nanos deadline = forever);
  [[nodiscard]] Receive receive(Transport transport, Nanos deadline = forever);
  // After an error on the RC connection to `peer`: connects anew. False when the deadline passed.
  [[nodiscard]] Reconnect reconnect(NodeId peer, Nanos deadline);

 protected:
  void set_costs(const CpuCosts* costs) { costs_ = costs; }

 private:
  static constexpr CpuCosts no_costs{};
  WorkerSpec spec_;
  Rng rng_;
  const CpuCosts* costs_ = &no_costs;
};

// ---- Control path ------------------------------------------------------------------------------
struct RegionSpec {
  std::string name;  // unique on its node
  std::uint64_t bytes = 0;
  bool remote_read = false, remote_write = false, remote_atomic = false;  // least rights
  Elision elision;  // simulation only; ignored elsewhere
};

struct NodeReport {
  std::uint64_t tx_wire_bytes = 0, rx_wire_bytes = 0;     // since the last reset_counters
  double cpu_busy = 0, client_busy = 0, server_busy = 0;  // fractions of the node's (role's) cores
  double power_w = 0;                                     // mean; 0 where nobody measures
  bool is_lost = false;                                   // crashed or killed during the run
  std::map<std::string, double> counters;                 // the fabric's own, by name
};

struct SimReport {
  std::uint64_t events = 0;
  double virtual_s = 0, wall_s = 0;
  std::uint64_t trace_hash = 0;
  std::uint64_t request_allocations = 0;  // heap allocations made for requests after warm-up
};

struct FabricReport {
  std::vector<NodeReport> nodes;  // by NodeId; remote nodes' entries are empty until gathered
  std::optional<SimReport> sim;
  std::map<std::string, double> counters;
};

// Why a run ended.
enum class RunEnd : std::uint8_t { finished, deadlock, deadline, interrupted };

// Life of a fabric: register_region and add_worker for every local node; exchange; look up remote
// regions and preload; start a main coroutine on every worker; run; report. All of it on one
// thread; Result errors leave the fabric fit only for destruction.
class Fabric {
 public:
  virtual ~Fabric() = default;

  [[nodiscard]] virtual const Capabilities& capabilities() const = 0;
  [[nodiscard]] virtual std::uint32_t nodes() const = 0;
  // Is this node hosted by this process? (All are, on sim and on shm with threads.)
  [[nodiscard]] virtual bool is_local(NodeId node) const = 0;

  // Zeroed memory, registered with the node's NIC; owned by the fabric.
  [[nodiscard]] virtual Result<Region*> register_region(NodeId node, const RegionSpec& spec) = 0;
  [[nodiscard]] virtual Result<Worker*> add_worker(const WorkerSpec& spec) = 0;
  // Tells every node of every region and connects all workers with all nodes (each its own too, by
  // loopback). Names the nodes that are missing when the deadline (a span) passes.
  [[nodiscard]] virtual Result<> exchange(Nanos within) = 0;
  [[nodiscard]] virtual Result<RemoteRegion> lookup(NodeId node, std::string_view region) const = 0;
  // Where a *remote* region's memory can be reached directly (sim; shm), for fast preload; null
  // where it cannot (verbs, or another machine).
  [[nodiscard]] virtual Region* direct(NodeId node, std::string_view region) = 0;

  // All processes meet; names who is missing after `within`.
  [[nodiscard]] virtual Result<> barrier(std::string_view what, Nanos within) = 0;
  // Every process gives a text; the lowest one alive (0, if it is) gets all of them by rank, the others
  // get nothing. A process that died is an empty text.
  [[nodiscard]] virtual Result<std::vector<std::string>> gather(const std::string& mine, Nanos within) = 0;
  [[nodiscard]] virtual std::uint32_t rank() const { return 0; }
  [[nodiscard]] virtual std::uint32_t ranks() const { return 1; }

  virtual void start(Worker& worker, coro::Task<void> main) = 0;
  // Runs until every *client* worker's main has ended, then tells servers to stop and waits for
  // them. A simulation whose queue runs empty with live tasks is a deadlock.
  [[nodiscard]] virtual Result<RunEnd> run() = 0;
  // Ends the run early (signal handler safe): workers see stopping().
  virtual void interrupt() = 0;

  // By how much Worker::now() of this process may differ from that of the others, after the exchange: what
  // several of them wrote down may be put in order no finer than this.
  [[nodiscard]] virtual Nanos clock_error() const { return 0; }

  // Cuts off what a dead node (or the dead workers of a node) may still have on the way: afterwards no
  // request of theirs executes anywhere. Before Store::scrub ("fence, then scrub").
  [[nodiscard]] virtual Result<> fence(NodeId dead) {
    (void)dead;
    return fail(ErrorCode::unsupported, "this fabric cannot fence a node");
  }

  // `tell` is called, on the thread that runs the fabric, whenever a node of this process that had crashed is
  // back: its memory is zeroed, its regions have new rkeys, and it has no workers; add_worker and start give
  // it some. Before run(). A simulation alone restarts nodes; elsewhere nobody is ever told.
  virtual void on_restart(std::function<void(NodeId)> tell) { static_cast<void>(tell); }

  // End of warm-up: NodeReport counters start from zero.
  virtual void reset_counters() = 0;
  [[nodiscard]] virtual FabricReport report() const = 0;
};

}  // namespace loch::fabric

#include "common/fabric/awaitables.h"
