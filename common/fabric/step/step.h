// A fabric that executes one work request at a time, on the caller's command: interleavings are written as
// scripts (tests) or enumerated (app/explore). Memory is sequentially consistent, and what a coroutine does
// between two waits is one step together with the request that was executed before.
//
// Each worker keeps its requests in the order in which it posted them. Requests of one connection (to one
// peer of the worker) are executed in that order, those of different connections in any. Requests can fail
// with or without having been executed, workers can be killed between any two requests, nodes can be cut off,
// and each node's clock can be skewed. SENDs are carried by RC, UC and UD: an RC message waits for a receive
// buffer, a UC or UD message is lost without one.
//
// A READ or WRITE of more than one 64-byte line can be executed in two halves (rule 1 of
// common/fabric/fabric.h): other requests may be executed in between, and later requests on its connection
// wait for the second half.
//
// Time passes when the caller advances it (advance), by StepConfig::request_cost with each executed request,
// and when a worker that has nothing else to do is advanced to its next timer.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/coro/root.h"
#include "common/fabric/fabric.h"

namespace loch::fabric::step {

class StepFabric;

struct StepConfig {
  std::uint32_t nodes = 1;
  std::uint64_t seed = 1;
  Nanos request_cost = 1'000;  // ns by which the execution of a request advances the clock
  // False: one clock for all workers, which a timer that fires advances. True: each worker's clock is
  // advanced by its own requests and timers alone, so that its reading is a function of the worker's own
  // past; advance() advances all clocks.
  bool has_own_time = false;
};

// How the execution of a request ends.
enum class Fate : std::uint8_t {
  executed,      // executed, and completed at the requester
  unheard,       // executed, but the response is lost, which puts an RC connection into error
  not_executed,  // not executed: an RC connection goes into error, a UC or UD message is lost without notice
};

// How a READ or WRITE is torn: into two parts at a boundary of 64-byte lines, executed in either order.
struct Tear {
  // True (only of a READ): all data are fetched at one instant, and the two parts are placed in the
  // requester's memory at two instants. False: the two parts are read from (READ) or written to (WRITE) the
  // peer's memory at two instants.
  bool is_at_landing = false;
  bool is_upper_first = false;
  std::uint32_t lower_bytes = 0;  // length of the part with the lower addresses
};

class StepWorker final : public Worker {
 public:
  StepWorker(StepFabric& fabric, const WorkerSpec& spec, std::uint64_t seed);
  ~StepWorker() override;

  [[nodiscard]] Nanos now() const override;
  [[nodiscard]] Nanos node_clock() const override;
  [[nodiscard]] bool stopping() const override;
  [[nodiscard]] const Capabilities& capabilities() const override;
  void do_post(WorkRequest* chain) override;
  void do_post_detached(const WorkRequest& request) override;
  void post_recv(Transport transport, LocalSlice buffer, std::uint32_t length, std::uint64_t user) override;
  void store_word(Region& region, std::uint64_t offset, std::uint64_t value) override;
  [[nodiscard]] bool connected(NodeId peer) const override;
  [[nodiscard]] std::uint32_t epoch(NodeId peer) const override;
  void begin_timer(TimerWait* wait) override { timers_.push_back(wait); }
  void begin_watch(WatchWait* wait) override;
  void begin_receive(ReceiveWait* wait) override;
  void begin_reconnect(ReconnectWait* wait) override;
  void begin_compute(Nanos, std::coroutine_handle<> waiter) override { ready_.push(waiter); }

 private:
  friend StepFabric;
  struct Parked {
    WorkRequest request;  // a copy of the posted request
    // the posted request; null if it was posted by post_detached(), so that nobody waits for it
    WorkRequest* original = nullptr;
    std::vector<std::byte> payload;  // payload of an inline request, copied when it was posted
    std::optional<Tear> torn;        // set when the first half was executed and the second was not
    std::vector<std::byte> staged;   // torn: the bytes that were fetched and not placed yet
  };
  struct Buffer {
    LocalSlice slice;
    std::uint32_t length = 0;
    std::uint64_t user = 0;
  };
  struct Mailbox {
    std::deque<Buffer> buffers;
    std::deque<Received> arrived;
  };
  // The main coroutine; destroying it destroys every frame that it waits for.
  static coro::Root run(coro::Task<void> task) { co_await std::move(task); }

  [[nodiscard]] Mailbox& mailbox(Transport transport) {
    return mailboxes_[static_cast<std::size_t>(transport)];
  }
  [[nodiscard]] const Mailbox& mailbox(Transport transport) const {
    return mailboxes_[static_cast<std::size_t>(transport)];
  }
  // Whether the wait for a memory word can end; if so, sets its result.
  [[nodiscard]] bool is_ready(WatchWait* wait) const;
  [[nodiscard]] bool can_take(const ReceiveWait& wait) const;
  void take(ReceiveWait* wait);
  void park(const WorkRequest& request, WorkRequest* original);
  // Ends waits for memory words: those whose condition holds or whose peer is disconnected, and all of them
  // if the run is stopping.
  void settle();
  void forget();

  StepFabric& fabric_;
  coro::RunQueue ready_;
  std::deque<Parked> parked_;
  std::vector<std::byte> parked_payload_;  // inline payload of the request that is being executed
  std::vector<WatchWait*> watches_;
  std::vector<TimerWait*> timers_;
  std::vector<ReceiveWait*> receives_;
  std::array<Mailbox, 3> mailboxes_;
  std::map<NodeId, std::uint32_t> epochs_;
  std::map<NodeId, bool> broken_;
  std::coroutine_handle<> main_;
  Nanos ahead_ = 0;                 // ns by which the worker's own clock is ahead (StepConfig::has_own_time)
  std::map<NodeId, bool> refused_;  // by peer: whether the next reconnect() to it fails
  bool is_killed_ = false;
};

class StepFabric final : public Fabric {
 public:
  explicit StepFabric(const StepConfig& config);
  explicit StepFabric(std::uint32_t nodes, std::uint64_t seed = 1)
      : StepFabric(StepConfig{.nodes = nodes, .seed = seed}) {}
  ~StepFabric() override;

  // ---- scripts
  // Runs the worker until it has executed one more work request. Returns false if the worker has executed
  // none, because its main coroutine has ended or waits for other workers (or for a timer, if
  // `lets_time_pass` is false).
  bool step(Worker& worker, bool lets_time_pass = true);
  // Executes the worker's requests until its main coroutine has ended; aborts if it has not ended after a
  // million requests.
  void finish(Worker& worker);
  [[nodiscard]] bool is_done(Worker& worker) const;
  // The request that step() would execute next, or null.
  [[nodiscard]] const WorkRequest* next(Worker& worker);
  // Makes the worker's oldest posted request fail, which puts the connection to its peer into error.
  // `takes_effect`: the peer executes the request, but the response is lost.
  void fail_next(Worker& worker, bool takes_effect);
  // Kills the worker: it never runs again, and its posted requests that were not executed are dropped.
  void kill(Worker& worker);
  void advance(Nanos span) { now_ += span; }
  void skew(NodeId node, Nanos ahead) { skews_[node] = ahead; }
  void cut_off(NodeId node, bool is_cut) { cut_[node] = is_cut; }
  void set_in_order(bool in_order) {
    capabilities_.in_order_placement = capabilities_.in_order_reads = in_order;
  }
  // To be called before the workers are made.
  void set_capabilities(const Capabilities& capabilities) { capabilities_ = capabilities; }
  [[nodiscard]] Nanos now() const { return now_; }
  [[nodiscard]] std::uint64_t executed() const { return executed_; }

  // ---- single moves, for a caller that enumerates all possible ones. A worker that was killed has no moves.
  // Resumes the worker's ready coroutines until all of them wait.
  void drain(Worker& worker) { own(worker).ready_.drain(); }
  // The number of the worker's requests that were posted and not executed yet; index 0 is the oldest.
  [[nodiscard]] std::size_t posted(Worker& worker) const { return own(worker).parked_.size(); }
  [[nodiscard]] const WorkRequest& request(Worker& worker, std::size_t i) const {
    return own(worker).parked_[i].request;
  }
  // Whether request `i` is the oldest on its connection and, if it is an RC message, has a buffer to go to.
  [[nodiscard]] bool is_executable(Worker& worker, std::size_t i) const;
  // Executes the worker's request `i`; an RC request is flushed instead if its connection is in error, and
  // fails if its peer is cut off, whatever `fate` is. Does not resume coroutines. Returns the completed
  // request with its status and, for an atomic, the old word.
  WorkRequest execute(Worker& worker, std::size_t i, Fate fate);
  // Number of pieces between which the request can be torn, at most eight as in the simulator; 1 if it cannot
  // be torn, or if one half was executed already. Pieces are whole 64-byte lines, of the requester's buffer
  // if `is_at_landing`, else of the peer's memory.
  [[nodiscard]] std::uint32_t pieces(Worker& worker, std::size_t i, bool is_at_landing) const;
  // How request `i` would be torn in two before its piece number `piece` (1 to pieces() - 1).
  [[nodiscard]] Tear tear_at(Worker& worker, std::size_t i, bool is_at_landing, bool is_upper_first,
                             std::uint32_t piece) const;
  // Executes one half of request `i` without completing it. A later execute() executes the other half, unless
  // it makes the request fail.
  void execute_half(Worker& worker, std::size_t i, const Tear& tear);
  // How request `i` is split into halves, if one half of it was executed; otherwise null.
  [[nodiscard]] const Tear* torn(Worker& worker, std::size_t i) const {
    const auto& parked = own(worker).parked_[i];
    return parked.torn ? &*parked.torn : nullptr;
  }
  [[nodiscard]] const std::vector<std::byte>& staged(Worker& worker, std::size_t i) const {
    return own(worker).parked_[i].staged;
  }
  // Whether a wait of the worker for a memory word can end, or a message has arrived that a coroutine waits
  // for.
  [[nodiscard]] bool has_news(Worker& worker) const;
  void take_news(Worker& worker);
  // The alarms that next_alarm() and ring() consider: timers, deadlines of waits for memory words and
  // messages, or both.
  enum class Alarms : std::uint8_t { timers, deadlines, all };
  struct Alarm {
    Nanos at = forever;
    // whether the alarm is the deadline of a wait for a memory word or a message; otherwise it is a timer
    bool is_deadline = false;
  };
  [[nodiscard]] Alarm next_alarm(Worker& worker, Alarms which) const;
  // Advances time to the worker's earliest alarm, and makes the coroutine that waited for the alarm ready.
  void ring(Worker& worker, Alarms which);
  // The number of the worker's timers; index 0 was set first.
  [[nodiscard]] std::size_t timers(Worker& worker) const;
  void ring_timer(Worker& worker, std::size_t i);
  // Makes the worker's next reconnect() to `peer` fail at its deadline.
  void refuse_reconnect(Worker& worker, NodeId peer) { own(worker).refused_[peer] = true; }
  // Advances the worker's own clock (StepConfig::has_own_time).
  void age(Worker& worker, Nanos span) { own(worker).ahead_ += span; }
  // Messages that have arrived and have not been consumed.
  [[nodiscard]] const std::deque<Received>& arrived(Worker& worker, Transport transport) const {
    return own(worker).mailboxes_[static_cast<std::size_t>(transport)].arrived;
  }
  // Ends the run: stopping() of all workers becomes true.
  void stop() { is_stopping_ = true; }
  // Frees the coroutines of all workers wherever they wait; to be called before the objects that they refer
  // to are destroyed.
  void abandon();

  struct Memory {
    Region* region = nullptr;
    const RegionSpec* spec = nullptr;
    const std::byte* data = nullptr;  // the stored bytes of the region
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] std::vector<Memory> memories() const;

  // ---- implementation of fabric::Fabric
  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] std::uint32_t nodes() const override { return config_.nodes; }
  [[nodiscard]] bool is_local(NodeId) const override { return true; }
  [[nodiscard]] Result<Region*> register_region(NodeId node, const RegionSpec& spec) override;
  [[nodiscard]] Result<Worker*> add_worker(const WorkerSpec& spec) override;
  [[nodiscard]] Result<> exchange(Nanos) override { return {}; }
  [[nodiscard]] Result<RemoteRegion> lookup(NodeId node, std::string_view region) const override;
  [[nodiscard]] Region* direct(NodeId node, std::string_view region) override;
  [[nodiscard]] Result<> barrier(std::string_view, Nanos) override { return {}; }
  [[nodiscard]] Result<std::vector<std::string>> gather(const std::string& mine, Nanos) override {
    return std::vector<std::string>{mine};
  }
  void start(Worker& worker, coro::Task<void> main) override;
  [[nodiscard]] Result<RunEnd> run() override;
  void interrupt() override { is_stopping_ = true; }
  // Nothing has to be fenced: a killed worker's requests were dropped when it died.
  [[nodiscard]] Result<> fence(NodeId) override { return {}; }
  void reset_counters() override {}
  [[nodiscard]] FabricReport report() const override { return {}; }

 private:
  friend StepWorker;
  struct OwnedRegion {
    RegionSpec spec;
    std::vector<std::uint64_t> memory;
    std::unique_ptr<Region> region;
  };
  static StepWorker& own(Worker& worker) { return static_cast<StepWorker&>(worker); }
  [[nodiscard]] StepWorker* find(NodeId node, std::uint16_t index) const;
  void apply(StepWorker& worker, StepWorker::Parked& parked);
  [[nodiscard]] Region& target_of(const WorkRequest& request) const;
  void deliver(const StepWorker& from, const WorkRequest& message);
  void complete(StepWorker& worker, StepWorker::Parked& parked, WcStatus status);
  [[nodiscard]] bool is_cut(NodeId node) const {
    const auto found = cut_.find(node);
    return found != cut_.end() && found->second;
  }

  StepConfig config_;
  Capabilities capabilities_;
  Nanos now_ = 1'000'000;
  std::uint64_t executed_ = 0;
  bool is_stopping_ = false;
  std::map<NodeId, Nanos> skews_;
  std::map<NodeId, bool> cut_;
  std::vector<std::vector<std::unique_ptr<OwnedRegion>>> regions_;  // indexed by node, then by region id
  std::vector<std::unique_ptr<StepWorker>> workers_;
};

}  // namespace loch::fabric::step
