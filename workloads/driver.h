// The load driver: makes a store's clients issue the operations that a LoadConfig asks for, and counts their
// outcomes. Runs on any fabric; every process of a run has one Driver for its own nodes.
//
// Closed loop: every window slot of every client worker has one operation outstanding, whose latency counts
// from the end of the slot's previous operation: in real time it includes the driver's own work. Open loop:
// operations are due at times that do not depend on how fast the store answers, and latency counts from the
// time at which an operation was due (no coordinated omission).
//
// Only operations that end inside the measurement window count. With a number of operations instead of a
// duration, the measurement window begins after the warm-up and ends with the last operation.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "common/check/history.h"
#include "common/kv/conflicts.h"
#include "common/kv/protocol.h"
#include "common/measure/tally.h"
#include "common/measure/timeline.h"
#include "workloads/clock_exchange.h"
#include "workloads/distribution.h"
#include "workloads/key_table.h"
#include "workloads/pinning.h"
#include "workloads/records.h"
#include "workloads/script.h"
#include "workloads/spec.h"
#include "workloads/trace.h"

namespace loch::workloads {

class InsertLedger;

// Receives the operations of one logical client (a window slot) for a history. Called by the thread of that
// client's worker.
class OperationLog {
 public:
  virtual ~OperationLog() = default;
  // Called just before a PUT, INSERT or DELETE is issued.
  virtual void invoked(OpKind kind, std::string_view key, std::optional<std::string_view> value,
                       Nanos invoke_ns) = 0;
  virtual void record(const check::OperationView& operation) = 0;
};
// Makes the log of the given client; returns null if that client's operations are not recorded.
using LogFactory = std::function<std::unique_ptr<OperationLog>(std::int32_t client)>;
// Makes logs that write to `writer`, which has to outlive them.
[[nodiscard]] LogFactory file_logs(check::HistoryWriter* writer);

// Failures that are planned before the run, as in a simulation's fault schedule, and how the driver repairs
// them.
struct FailurePlan {
  // A repair, begun by the client worker `keeper` when now() reaches `at`: it fences off the nodes of the
  // clients in `dead` and repairs what these clients left half-done (Store::scrub); it fences off the nodes
  // in `lost` and declares them lost. It is repeated until the store reports it complete.
  struct Repair {
    Nanos at = 0;
    std::vector<kv::ClientId> dead;
    std::vector<fabric::NodeId> lost;
  };
  // The final sweep (GETs and PUTs of every key after the load) leaves out the keys whose operations need
  // this node (or, if given, this server worker of the node), because a failure may have put them out of
  // service for good.
  struct Excuse {
    fabric::NodeId node = 0;
    std::optional<std::uint32_t> server;
  };
  // The client worker that does the planned repairs beside its load, and the final sweep (GETs and PUTs of
  // every key); it does not fail itself.
  kv::ClientId keeper;
  // Client workers that will be killed: the run does not wait for them to end.
  std::vector<kv::ClientId> doomed;
  std::vector<fabric::NodeId> crashed;
  std::vector<Repair> repairs;  // ordered by their time `at`
  std::vector<Excuse> excuses;
  struct Strike {
    Nanos at = 0;
    std::string what;  // the event's name in measure::TimelineEvent
    fabric::NodeId node = 0;
  };
  std::vector<Strike> strikes;  // failures and restarts, to be shown as events in the result's time series
  Nanos over = 0;  // time (now()) of the last failure or restart; the final check of all keys begins after it
};

// Replay of a trace. Each key belongs to one window slot (place for one operation) of the cluster, chosen by
// a hash of its record number, and a slot issues its keys' operations in the trace's order, so that
// operations on one key keep their order.
struct Replay {
  std::shared_ptr<const Trace> trace;
  // An operation is due at its arrival time in the trace divided by `speed`, and its latency counts from
  // then. With speed 0, window slots (places for one operation each) issue operations as fast as the store
  // answers.
  double speed = 0;
};

// Client workers that take turns: in each interval of `every` ns from the beginning of the load on, as many
// client workers of each node are active as is drawn for the interval, from `least` to `most` with equal
// chances. Those with the lowest indices are; the others end their operations and sleep.
struct ActiveWorkers {
  std::uint32_t least = 0, most = 0;
  Nanos every = 0;  // 0: all client workers are active all the time

  // How many client workers of each node are active in an interval: the same number for all workers and
  // nodes, whoever asks, since it is drawn for the interval alone.
  [[nodiscard]] std::uint32_t in(std::uint64_t interval, std::uint64_t seed) const {
    Rng rng(seed, "active workers", interval);
    return least + static_cast<std::uint32_t>(rng.below(std::uint64_t{most} - least + 1));
  }
};

struct LoadConfig {
  OperationMix mix;
  DistributionSpec distribution;
  // Keys per multi-get: one GET drawn from the mix asks for this many keys at once, each in a window slot
  // (place for one operation) of its own. DeployConfig::window, the number of slots, has to be a multiple of
  // this number. `rate` and `operations` count a multi-get as one operation.
  std::uint32_t multi_get = 1;
  double rate = 0;          // operations a second over the whole cluster; 0: closed loop
  bool fixed_gaps = false;  // true: open loop: equal gaps between operations instead of a Poisson process
  // Time in ns that clients spin before the warm-up, so that the scheduler can spread threads and background
  // workers over the cores.
  Nanos settle = 0;
  Nanos think = 0;  // closed loop: CPU time that a client computes before each operation
  // closed loop: time that a window slot (place for one operation) waits before each operation, while its
  // core spins
  Nanos pause = 0;
  ActiveWorkers active;  // closed loop with a `duration`: which client workers issue operations when
  // How operations wait after a CAS that failed because of another client (conflicts.h); nullopt: as the
  // protocol does by itself
  std::optional<kv::ConflictConfig> conflicts;
  Nanos warmup = 0;
  Nanos duration = 0;  // ns of the measurement window; 0: it ends after `operations`
  // Number of operations of all clients together; 0: the measurement window ends after `duration`.
  std::uint64_t operations = 0;
  std::uint64_t read_only = 0;  // the first `read_only` records are never written
  // The last `readers` client workers of each node only read, and they read only the first `read_only`
  // records.
  std::uint32_t readers = 0;
  std::uint64_t seed = 1;
  // true: `seed` also decides, from the start of the load on, what the workers draw for the protocol. Without
  // it they go on with what the fabric's seed decided, as when the whole run has one seed.
  bool reseeds_workers = false;
  bool verify = false;  // true: check the value that every GET returns
  // true: compute the keys of the preloaded records before the run, if they take at most KeyTable::bytes_max.
  bool computes_keys_ahead = false;
  KeyTable keys;  // the keys computed before the run (set by run_load)
  // false: GETs return meaningless bytes, as those of an emulation do, and are not verified (set by run_load)
  bool values_are_judged = true;
  bool scrub = false;  // true: repair what lost nodes left half-done (scrub), once the load has ended
  // When every client has ended, one client GETs, PUTs and GETs every preloaded record; an operation that
  // keeps failing is listed in Driver::stuck(). The stores' background coroutines run until then. For runs of
  // one process only.
  bool final_sweep = false;
  Nanos sweep_patience = 40'000'000;  // ns for which a failing operation of the final sweep is retried
  // The records that the final sweep (GETs and PUTs after the load) visits; nullopt: every preloaded record.
  std::optional<std::vector<std::uint64_t>> swept;
  bool may_be_full = false;  // the final sweep accepts "table full" as the answer to a PUT
  std::optional<FailurePlan> failures;
  // Each window slot (place for one operation) executes its list of operations in this script instead of
  // drawing from the mix; `operations` and `duration` are then ignored.
  std::optional<Script> script;
  // The operations come from a trace instead of the mix; `operations` is the number of the trace's
  // operations.
  std::optional<Replay> replay;
  // If not null, receives every operation that the window slots (places for one operation each) issue. Owned
  // by the caller; not thread-safe, so all clients have to run on one thread, as in a simulation.
  Transcript* transcript = nullptr;
  // If given: a node found lost during the load is fenced off, and what its clients left half-done is
  // repaired, this many ns after its loss was noticed, while the load goes on. Not used together with planned
  // failures.
  std::optional<Nanos> repair_after;
  Nanos timeline = 0;  // ns per bin of the time series; 0: no time series. Requires `duration`
  // Number of preloaded records, evenly spread, that the last client worker of the last node writes once per
  // bin of the time series, to count unwritable keys; that worker drives no load. Requires `timeline`.
  std::uint32_t probe_keys = 0;
  // Pause in ns of a window slot (place for one operation) after an operation that ended in error, timeout or
  // "table full". It doubles with each further failure in a row, up to 1,024 times this value, and bounds the
  // work done against a dead peer.
  Nanos error_pause = 10'000;
};

class Driver {
 public:
  // The objects behind the references have to outlive the driver. Fails if the load's records cannot be drawn
  // by the requested distribution.
  [[nodiscard]] static Result<std::unique_ptr<Driver>> make(const LoadConfig& load,
                                                            const kv::DeployConfig& deploy,
                                                            const Records& records, kv::Store& store,
                                                            fabric::Fabric& fabric, LogFactory logs);
  ~Driver();

  // Adds the workers of each local node, its clients before its servers. To be called before
  // Fabric::exchange. `needs`: what the protocol's workers use of a device.
  [[nodiscard]] Result<> add_workers(const Pinning& pinning, const fabric::Requirements& needs);
  // Takes over the workers that another driver of the same deployment has added and not started, instead of
  // adding its own.
  [[nodiscard]] Result<> take_workers(const Driver& other);
  // Starts the main coroutine of every local worker. To be called after the preload.
  void start();

  // ---- To be called after Fabric::run ---------------------------------------------------------
  // The counts of operations by all client workers of a local node.
  [[nodiscard]] measure::Tally tally(fabric::NodeId node) const;
  // Length of the measurement window in seconds, as this process's workers measured it.
  [[nodiscard]] double window_s() const;
  // How many ns after the beginning of the measurement window this process reset its counters: whichever
  // worker is first to see that the window has begun does it.
  [[nodiscard]] Nanos counters_late() const { return counters_late_; }
  // What the repair after the load (scrub) repaired, counted by kind; empty unless this process did the
  // repair.
  [[nodiscard]] const std::map<std::string, std::uint64_t>& scrubbed() const { return scrubbed_; }
  [[nodiscard]] bool did_scrub() const { return did_scrub_; }
  // Lines such as "key: GET conflict", one for each operation of the final sweep that met a conflict,
  // time-out, full table or error in every retry within `sweep_patience`; and one for each repair that never
  // completed.
  [[nodiscard]] const std::vector<std::string>& stuck() const { return stuck_; }
  // Nodes that crashed and did not restart, or that restarted without an empty store in their memory.
  [[nodiscard]] std::vector<fabric::NodeId> void_nodes() const;
  // Counts by kind: of this driver's repairs of what dead clients left half-done ("scrubs"), declarations of
  // losses ("declarations"), repeated repairs ("repair_retries") and restarts ("restarts"), and of the
  // repairs that the store reports.
  [[nodiscard]] const std::map<std::string, std::uint64_t>& repaired() const { return repaired_; }
  [[nodiscard]] std::uint64_t inserts_refused() const { return inserts_refused_; }
  // Nodes that this driver declared lost, together with their memory.
  [[nodiscard]] const std::vector<fabric::NodeId>& declared_lost() const { return declared_lost_; }
  // Throughput and latency of the local nodes' clients over time, with failure and repair events; nullopt
  // unless LoadConfig::timeline asks for it.
  [[nodiscard]] std::optional<measure::Timeline> timeline();
  // Adds to `into` the time series that a dead process's node recorded until its death. Only where that
  // node's memory is still mapped (shm).
  void add_lost(fabric::NodeId node, measure::Timeline& into);
  // Number of operations that were issued and have not returned; 0 after a run that finished.
  [[nodiscard]] std::uint64_t outstanding() const;

  // Whether an operation of this process's clients ended in error, timeout or "table full", the warm-up
  // included. A request of such an operation may still be on its way.
  [[nodiscard]] bool had_trouble() const;

  // How this process's clock was compared with those of the others; null unless several processes record
  // histories.
  [[nodiscard]] const ClockExchange* clocks() const { return clocks_.get(); }

  // ---- May be called by any thread at any time --------------------------------------------------
  [[nodiscard]] std::uint64_t operations_so_far() const;
  // Share of the run that is over, from 0 to 1.
  [[nodiscard]] double progress() const;

 private:
  struct Slot;
  struct Ended;
  struct Alike;
  struct ClientWorker;
  enum class Action : std::uint8_t { get, put, remove, insert, read_modify_write, insert_if_absent };

  Driver(const LoadConfig& load, const kv::DeployConfig& deploy, const Records& records, kv::Store& store,
         fabric::Fabric& fabric, LogFactory logs);
  // Whether keys or values differ in size, so that their sizes are recorded.
  const bool has_sizes_;

  [[nodiscard]] fabric::WorkerSpec worker_spec(fabric::NodeId node, fabric::Role role,
                                               std::uint32_t index) const;
  // The client worker `index` of a node, before its first operation.
  [[nodiscard]] std::unique_ptr<ClientWorker> client_of(fabric::Worker* worker, std::uint32_t index);
  void reseed_workers();
  void add_slots(ClientWorker& own, std::uint32_t first_number);
  // Starts workers on a crashed node that has restarted, if the store can initialise the node's memory again.
  void revive(fabric::NodeId node);
  void revive_clients(fabric::NodeId node);
  coro::Task<void> keep(ClientWorker* own);
  coro::Task<bool> repair(fabric::Worker* worker, const FailurePlan::Repair* step, bool is_first);
  coro::Task<void> finish(ClientWorker* own);
  [[nodiscard]] bool others_have_ended() const;
  [[nodiscard]] bool is_keeper(const ClientWorker& own) const;
  [[nodiscard]] bool is_excused(std::uint64_t record) const;
  void log_loss(fabric::NodeId node, Nanos from, Nanos to);
  coro::Task<void> client_main(ClientWorker* own);
  coro::Task<void> slot_main(ClientWorker* own, Slot* slot);
  coro::Task<void> bare_main(ClientWorker* own, Slot* slot);
  coro::Task<void> replay_main(ClientWorker* own, Slot* slot);
  void deal_trace();
  [[nodiscard]] Nanos replay_due(const TraceEvent& event) const;
  coro::Task<void> server_main(fabric::Worker* worker, std::uint32_t index);
  // What a window slot (place for one operation) does next: stop, issue an operation of the warm-up, or issue
  // one that counts.
  enum class Turn : std::uint8_t { stop, warm_up, measured };
  coro::Task<bool> wait_and_operate(ClientWorker* own, Slot* slot);
  // Until when this worker is not to begin an operation, because it is not active (LoadConfig::active): the
  // next interval in which it is, or the end of the load; at most `now` if it is active.
  [[nodiscard]] Nanos rests_until(const ClientWorker& own, Nanos now) const;
  coro::Task<void> insert(ClientWorker* own, Slot* slot, Nanos due);
  coro::Task<void> operate(ClientWorker* own, Slot* slot, OpKind kind, std::uint64_t record, Nanos due);
  // The part of operate() before its only suspension, the await of issue(); end_operation() is the part after
  // it.
  void begin_operation(ClientWorker& own, Slot& slot, OpKind kind, std::uint64_t record, Nanos invoked);
  [[nodiscard]] coro::Task<kv::OpResult> issue(Slot& slot, OpKind kind) const;
  [[nodiscard]] Nanos time_of(const ClientWorker& own) const;
  // Ends the operation that was due at `due` and issued at `invoked`; returns the current time.
  Nanos end_operation(ClientWorker& own, Slot& slot, OpKind kind, Nanos due, Nanos invoked,
                      const kv::OpResult& result);
  coro::Task<void> multi_get(ClientWorker* own, Slot* slot, Nanos due);
  void choose_distinct(ClientWorker& own, std::vector<std::uint64_t>* records);
  [[nodiscard]] bool is_in_window(const ClientWorker& own, const Slot& slot, Nanos at) const;
  coro::Task<void> scrub_lost(fabric::Worker* worker);
  coro::Task<void> tend(ClientWorker* own);
  [[nodiscard]] std::vector<fabric::NodeId> lost_nodes() const;
  [[nodiscard]] bool repairs_first(fabric::NodeId node) const;
  coro::Task<bool> repair_lost(fabric::Worker* worker, std::vector<fabric::NodeId> lost);
  void note(const fabric::Worker& worker, std::string_view what, fabric::NodeId node);
  // Marks of a bin of the time series for a key that the prober PUTs: a PUT ended ok in the bin; a PUT failed
  // in it or was under way during all of it.
  enum Probe : std::uint8_t { probe_written = 1, probe_waiting = 2 };
  [[nodiscard]] bool is_prober(const ClientWorker& own) const;
  [[nodiscard]] Result<> make_rows();
  [[nodiscard]] Result<> make_clocks();
  coro::Task<void> align_first(ClientWorker* own);
  [[nodiscard]] std::span<std::uint32_t> rows_of(fabric::NodeId node);
  coro::Task<void> probe_main(ClientWorker* own, Slot* slot, std::uint32_t index);
  void note_probe(std::uint64_t key, Nanos from, Nanos to, bool is_written);
  [[nodiscard]] std::vector<std::uint32_t> unwritable() const;
  coro::Task<void> sweep(ClientWorker* own);
  [[nodiscard]] Turn next_turn(ClientWorker& own, const Slot& slot, Nanos now);
  [[nodiscard]] std::vector<ScriptedOperation> scripted(const ScriptedClient& who) const;
  void transcribe(const ClientWorker& own, const Slot& slot, OpKind kind, std::uint64_t record);
  [[nodiscard]] Action choose(ClientWorker& own) const;
  // The operation that `action` stands for; on a read-only record it is always a GET.
  [[nodiscard]] OpKind kind_of(Action action, std::uint64_t record) const;
  [[nodiscard]] std::uint64_t choose_record(ClientWorker& own);
  [[nodiscard]] Nanos next_due(ClientWorker& own) const;
  [[nodiscard]] Nanos first_pause(ClientWorker& own) const;
  void prepare(Slot& slot, OpKind kind, std::uint64_t record);
  // When an operation was due and when it was issued; in a closed loop both times are the same.
  struct Began {
    Nanos due = 0, invoked = 0;
  };
  void account(ClientWorker& own, Slot& slot, OpKind kind, Nanos now, Began began,
               const kv::OpResult& result);
  void account_bare(ClientWorker& own, Slot& slot, OpKind kind, Nanos now, Nanos invoked,
                    const kv::OpResult& result);
  void begin(fabric::Worker& worker);
  // Resets the counters, once: whoever first sees that the measurement window has begun calls it.
  void end_warmup(fabric::Worker& worker);
  [[nodiscard]] Nanos pause_after(Slot& slot, const kv::OpResult& result) const;
  void log(Slot& slot, OpKind kind, Nanos invoked, Nanos returned, const kv::OpResult& result,
           std::optional<std::string_view> read);

  LoadConfig load_;
  kv::DeployConfig deploy_;
  const Records& records_;
  kv::Store& store_;
  fabric::Fabric& fabric_;
  LogFactory logs_;
  // whether the value that a GET returns is checked: with --verify in every window slot (place for one
  // operation), otherwise only in slots that write a history
  const bool judges_values_;
  // whether every operation of a window slot (place for one operation) is a GET, PUT, DELETE or INSERT,
  // issued as soon as the previous one has ended
  const bool is_plain_;
  const KeyTable keys_;
  // The number N of records, if every worker draws uniformly from the first N; 0: choose_record() draws them.
  std::uint64_t draws_below_ = 0;
  // choose() draws 53 random bits; if they are below this number, the operation is a GET.
  std::uint64_t gets_below_ = 0;
  // Whether window slots (places for one operation each) run bare_main(): a closed loop over preloaded
  // records of one size, drawn uniformly, whose keys are known, without a history, a check of values or a
  // transcript.
  bool is_bare_ = false;
  std::unique_ptr<Chooser> chooser_;
  std::unique_ptr<InsertLedger> inserts_;
  std::vector<std::unique_ptr<ClientWorker>> clients_;
  std::vector<fabric::Worker*> servers_;
  std::atomic<Nanos> begin_ns_{-1};        // time at which the first client began; -1 before
  std::atomic<bool> is_measuring_{false};  // whether the counters were reset at the end of the warm-up
  std::atomic<Nanos> counters_late_{0};
  std::atomic<std::uint64_t> inserts_refused_{0};
  std::map<std::string, std::uint64_t> scrubbed_, repaired_;
  std::vector<fabric::NodeId> declared_lost_, tended_;
  std::optional<measure::TimelineShape> shape_;  // bins of the time series, if there is one
  std::vector<std::uint32_t> rows_;  // time-series counters of all nodes, if the run has one process
  // time-series counters by node, if the run has several processes: readable by the other processes
  std::map<fabric::NodeId, fabric::Region*> row_regions_;
  std::unique_ptr<ClockExchange> clocks_;
  // marks (Probe) of the keys that the prober PUTs, one byte for each bin of the time series and key
  std::vector<std::uint8_t> probes_;
  std::mutex events_mutex_;
  // Failures and repairs for the time series. Their times are Worker::now() times until timeline() makes them
  // relative to the beginning of the measurement window.
  std::vector<measure::TimelineEvent> events_;
  std::unique_ptr<OperationLog> losses_;
  std::vector<fabric::NodeId> revived_;
  // client number of the next window slot (place for one operation) that is added during the load
  std::uint32_t next_number_ = 0;
  fabric::Requirements needs_;  // the protocol's requirements
  std::atomic<bool> is_swept_{false};
  bool did_scrub_ = false;
  std::atomic<std::size_t> workers_left_{0};
  std::vector<std::string> stuck_;
};

}  // namespace loch::workloads
