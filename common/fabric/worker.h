// A worker: one thread with its run queue, completion queue and connections, and the operations that
// coroutines await on it. The contract that they may rely on is at the head of fabric.h.
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
  std::uint16_t index = 0;  // unique on its node, dense from 0 over both roles
  int core = -1;            // pinned to this core of its node, or -1
  std::string name;         // "client 3"; shown in traces
  // UD lanes that it posts on; messages arrive on lane 0. A device makes as many queue pairs.
  std::uint32_t ud_lanes = 1;
};

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
  // The node's loosely synchronised clock, skewed and drifting: for timestamps that other nodes read.
  [[nodiscard]] virtual Nanos node_clock() const = 0;
  // The run is over: servers leave their loops.
  [[nodiscard]] virtual bool stopping() const = 0;
  [[nodiscard]] virtual const Capabilities& capabilities() const = 0;

  // Posts a chain (linked by `next`) with one doorbell. Each signaled request's sink is called on
  // its completion; until then the request and its buffer stay put.
  void post(WorkRequest* chain) {
    if (counter_ != nullptr) counter_->count_chain(chain);
    do_post(chain);
  }
  // Posts one unsignaled request that nobody waits for: the fabric keeps its own copy. The local
  // buffer must stay untouched until a later signaled request on the same queue pair completes, or
  // until a watch on the landing buffer has seen its last byte. A failure puts the queue pair in
  // error, which the watch reports.
  void post_detached(const WorkRequest& request) {
    if (counter_ != nullptr) counter_->count(request);
    do_post_detached(request);
  }
  // Gives the NIC a buffer for incoming SENDs of the transport; shared by the worker's queue pairs.
  virtual void post_recv(Transport transport, LocalSlice buffer, std::uint32_t length,
                         std::uint64_t user) = 0;
  // A CPU store to a word that some worker of this node may be watching (release order).
  virtual void store_word(Region& region, std::uint64_t offset, std::uint64_t value) = 0;

  // A peer's message that belongs to an operation of this worker has arrived: a server's reply, which no
  // work request of this worker brought. Where requests are counted, its verb, length and wire bytes are
  // added to its `stats`; `peer` is who sent it.
  void attribute(const WorkRequest& arrived) {
    if (counter_ != nullptr) counter_->attribute(arrived);
  }
  // attribute() for a received message.
  void attribute(const Received& message, Transport transport, OpStats* stats);

  // Something that this worker did from `start` until now, for the trace: a GET, a MIGRATE. `what` lives
  // for ever. Nothing where nothing traces.
  void mark(std::string_view what, Nanos start) {
    if (is_traced_) do_mark(what, start);
  }
  [[nodiscard]] bool is_traced() const { return is_traced_; }

  // What is posted from now on is counted there, once, and not by a worker that this one wraps; null:
  // nowhere. The counter outlives the worker's work.
  void count_into(RequestCounter* counter) { counter_ = counter; }

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
  // do_mark() does something.
  void set_traced() { is_traced_ = true; }
  // As post(), post_detached() and mark() say, without counting.
  virtual void do_post(WorkRequest* chain) = 0;
  virtual void do_post_detached(const WorkRequest& request) = 0;
  virtual void do_mark(std::string_view /*what*/, Nanos /*start*/) {}

 private:
  static constexpr CpuCosts no_costs{};
  WorkerSpec spec_;
  Rng rng_;
  const CpuCosts* costs_ = &no_costs;
  RequestCounter* counter_ = nullptr;
  bool is_traced_ = false;
};

}  // namespace loch::fabric

#include "common/fabric/awaitables.h"
