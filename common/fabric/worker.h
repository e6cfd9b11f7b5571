// A worker: one thread with its run queue, completion queue and connections, and the operations that its
// coroutines await. What a protocol may rely on is listed at the head of fabric.h.
#pragma once

#include <coroutine>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/base/rng.h"
#include "common/base/units.h"
#include "common/coro/run_queue.h"
#include "common/fabric/capabilities.h"
#include "common/fabric/cpu_costs.h"
#include "common/fabric/received.h"
#include "common/fabric/region.h"
#include "common/fabric/request_counter.h"
#include "common/fabric/waits.h"
#include "common/fabric/watch.h"
#include "common/fabric/work_request.h"

namespace loch::fabric {

enum class Role : std::uint8_t { client, server };

struct WorkerSpec {
  NodeId node = 0;
  Role role = Role::client;
  std::uint16_t index = 0;  // number on its node, counted from 0 over client and server workers
  int core = -1;            // the core of its node to which the worker is pinned; -1: none
  std::string name;         // the name that traces show, such as "client 3"
  // Number of UD queue pairs that the device makes for the worker. A request's `lane` selects the one on
  // which it is posted; messages arrive on the first (lane 0).
  std::uint32_t ud_lanes = 1;
  // What the worker uses besides datagrams. A device creates queue pairs and receive queues only for what is
  // true here. Without receives_rc no RECVs may be posted for RC, without receives_uc none for UC. Without
  // uses_rc, an RC connection is made at its first use.
  bool uses_rc = true, receives_rc = true, receives_uc = true;
};

// After a warm-up, the virtual functions allocate nothing, take no lock and throw nothing.
class Worker {
 public:
  // `run_queue` has to live as long as the worker; it need not be constructed yet.
  Worker(const WorkerSpec& spec, std::uint64_t seed, coro::RunQueue* run_queue)
      : run_queue_(run_queue),
        spec_(spec),
        rng_(seed, "worker", (std::uint64_t{spec.node} << 16) | spec.index) {}
  virtual ~Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  [[nodiscard]] const WorkerSpec& spec() const { return spec_; }
  [[nodiscard]] NodeId node() const { return spec_.node; }
  [[nodiscard]] std::uint16_t index() const { return spec_.index; }
  // The worker's random generator, the only one that protocol code may draw from.
  [[nodiscard]] Rng& rng() { return rng_; }
  [[nodiscard]] const CpuCosts& costs() const { return *costs_; }

  // The coroutines that are ready to be resumed. A decorated worker shares its inner worker's queue.
  [[nodiscard]] coro::RunQueue& run_queue() { return *run_queue_; }
  // Nanoseconds on this fabric's own clock, which is the same for every worker; for intervals and latencies.
  [[nodiscard]] virtual Nanos now() const = 0;
  // Nanoseconds on the node's loosely synchronised clock, with skew and drift; for timestamps that other
  // nodes read.
  [[nodiscard]] virtual Nanos node_clock() const = 0;
  // Whether the run is over. Servers then leave their loops.
  [[nodiscard]] virtual bool stopping() const = 0;
  [[nodiscard]] virtual const Capabilities& capabilities() const = 0;

  // Posts a chain of requests (linked by `next`) with one doorbell. The sink of each signaled request is
  // called on its completion; until then the request and its buffer must not move.
  void post(WorkRequest* chain) {
    if (counter_ != nullptr) counter_->count_chain(*chain);
    do_post(chain);
  }
  // Posts one unsignaled request that nobody waits for: the fabric keeps its own copy of it. The local buffer
  // must stay untouched until a later signaled request on the same queue pair completes, or until the worker
  // has seen by polling that the last byte of the answer (a READ's data, a server's reply) has arrived. A
  // failure puts the queue pair in error; a wait for a memory word with this peer then ends with
  // WatchOutcome::link_down.
  void post_detached(const WorkRequest& request) {
    if (counter_ != nullptr) counter_->count(request);
    do_post_detached(request);
  }
  // Executes the request before the call returns, if this fabric's CPU moves the bytes itself and the request
  // has to wait for nothing. True: it has ended in success, and its bytes are in place. False: nothing was
  // done, and the caller posts the request. Operation and onesided::Transfer ask this first, so that a
  // protocol that awaits a request is the same on every fabric.
  [[nodiscard]] bool execute_at_once(const WorkRequest& request) {
    if (!executes_at_once_ || !do_execute_at_once(request)) return false;
    if (counter_ != nullptr) counter_->count(request);
    return true;
  }
  // Whether the wait for the words of a set is over before it begins, because the first word that is looked
  // at is ready, and the coroutine may go on without being suspended. False: nothing was done, and the caller
  // begins the wait.
  [[nodiscard]] bool watch_at_once(WatchWait& wait) {
    return watches_at_once_ && do_watch_at_once(wait) && goes_on();
  }
  // Whether a coroutine whose request was executed at once, or whose wait was over before it began, may go on
  // without being suspended. After 16 of these of this worker in a row it has to queue up, so that the
  // polling loop and the worker's other coroutines get their turn.
  [[nodiscard]] bool goes_on() {
    constexpr std::uint32_t most_in_a_row = 16;
    if (++at_once_ <= most_in_a_row) [[likely]]
      return true;
    at_once_ = 0;
    return false;
  }
  // Posts a RECV: a buffer for an incoming SEND of this transport, shared by the worker's queue pairs.
  virtual void post_recv(Transport transport, LocalSlice buffer, std::uint32_t length,
                         std::uint64_t user) = 0;
  // Stores, by the CPU and with release order, a word of this node that a worker may be polling.
  virtual void store_word(Region& region, std::uint64_t offset, std::uint64_t value) = 0;

  // Reports a message from a peer, such as a server's reply, that belongs to an operation of this worker and
  // that no work request of this worker fetched. If this worker has a RequestCounter, the message's verb,
  // length and wire bytes are added to `arrived.stats`. `arrived.peer` is the sender.
  void attribute(const WorkRequest& arrived) {
    if (counter_ != nullptr) counter_->attribute(arrived);
  }
  // Reports a received SEND that belongs to an operation of this worker, as attribute(WorkRequest) does.
  void attribute(const Received& message, Transport transport, OpStats* stats);

  // Records an activity of this worker, such as a GET, in the trace as an interval from `start` until now.
  // `what`, the name of the activity, has to be a string literal. Without a tracing decorator the call has no
  // effect.
  void mark(std::string_view what, Nanos start) {
    if (is_traced_) do_mark(what, start);
  }
  [[nodiscard]] bool is_traced() const { return is_traced_; }

  // From now on, `counter` counts every request that is posted; null: requests are not counted. The counter
  // must outlive the worker's run. To count requests once, give a counter either to a worker or to one of its
  // decorators, not to both.
  void count_into(RequestCounter* counter) { counter_ = counter; }

  [[nodiscard]] virtual bool connected(NodeId peer) const = 0;
  // Number of the present connection to the peer, which grows with each reconnection. Remote regions that
  // were looked up under an older number are no longer valid.
  [[nodiscard]] virtual std::uint32_t epoch(NodeId peer) const = 0;
  // Whether the connection to the peer that had the number `since` stands: asked before each request to a
  // region that was looked up under that number.
  [[nodiscard]] virtual bool is_connected_since(NodeId peer, std::uint32_t since) const {
    return connected(peer) && epoch(peer) == since;
  }

  // Starts the wait of a coroutine for a time: the implementation of Sleep, which sleep_until() and
  // spin_until() return.
  virtual void begin_timer(TimerWait* wait) = 0;
  virtual void begin_watch(WatchWait* wait) = 0;
  virtual void begin_receive(ReceiveWait* wait) = 0;
  virtual void begin_reconnect(ReconnectWait* wait) = 0;
  // Starts CPU work of `span` > 0 ns: simulated time on a simulated fabric, a busy loop on the others, whose
  // costs() are all 0.
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
  // Suspends the coroutine and yields the core until `at` (now() time).
  [[nodiscard]] Sleep sleep_until(Nanos at);
  // Suspends the coroutine until `at` (now() time) and occupies the core meanwhile; for short back-offs.
  [[nodiscard]] Sleep spin_until(Nanos at);
  // Spends `span` ns of CPU time, which a simulation charges; ready at once if span is 0.
  [[nodiscard]] Compute compute(Nanos span);
  // Polls the word and occupies the core until the condition in `word` holds or the deadline (now() time)
  // passes.
  [[nodiscard]] WatchOne watch(const WatchWord& word, Nanos deadline = forever);
  // Polls the words of the set in turn, beginning with index `start`, until one is ready or the deadline
  // (now() time) passes.
  [[nodiscard]] WatchMany watch_any(const WatchSet& set, std::uint32_t start, Nanos deadline = forever);
  [[nodiscard]] Receive receive(Transport transport, Nanos deadline = forever);
  // Connects anew to `peer` after an error of the RC connection. Returns false if the deadline passed first.
  [[nodiscard]] Reconnect reconnect(NodeId peer, Nanos deadline);

 protected:
  void set_costs(const CpuCosts* costs) { costs_ = costs; }
  // Makes mark() call do_mark(). A worker that overrides do_mark() calls this function in its constructor.
  void set_traced() { is_traced_ = true; }
  // Makes execute_at_once() call do_execute_at_once(). A decorator does not call this function, so that no
  // request passes it by.
  void set_executes_at_once() { executes_at_once_ = true; }
  // Makes watch_at_once() call do_watch_at_once(). A decorator does not call this function either, so that it
  // sees every wait.
  void set_watches_at_once() { watches_at_once_ = true; }
  // The fabric's part of execute_at_once(), watch_at_once(), post(), post_detached() and mark().
  [[nodiscard]] virtual bool do_execute_at_once(const WorkRequest& /*request*/) { return false; }
  [[nodiscard]] virtual bool do_watch_at_once(WatchWait& /*wait*/) { return false; }
  virtual void do_post(WorkRequest* chain) = 0;
  virtual void do_post_detached(const WorkRequest& request) = 0;
  virtual void do_mark(std::string_view /*what*/, Nanos /*start*/) {}

 private:
  static constexpr CpuCosts no_costs{};
  coro::RunQueue* run_queue_;
  WorkerSpec spec_;
  Rng rng_;
  const CpuCosts* costs_ = &no_costs;
  RequestCounter* counter_ = nullptr;
  std::uint32_t at_once_ = 0;  // requests executed at once, and waits over at once, in a row
  bool executes_at_once_ = false;
  bool watches_at_once_ = false;
  bool is_traced_ = false;
};

}  // namespace loch::fabric

#include "common/fabric/awaitables.h"
