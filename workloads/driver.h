// The load driver: makes a store's clients work as a WorkloadSpec asks and counts what comes out.
// Runs on any fabric; every process of a run has one Driver for its own nodes.
//
// Closed loop: every window slot of every client worker has one operation outstanding. Open loop:
// operations are due at times that do not depend on how the store keeps up, and latency counts from
// the time at which an operation was due (no coordinated omission).
//
// Only operations that end inside the measurement window count. With a number of operations instead
// of a duration, the window begins after the warm-up and ends with the last of them.
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

#include "common/check/history.h"
#include "common/kv/protocol.h"
#include "common/measure/tally.h"
#include "common/measure/timeline.h"
#include "workloads/distribution.h"
#include "workloads/key_table.h"
#include "workloads/records.h"
#include "workloads/script.h"
#include "workloads/spec.h"
#include "workloads/trace.h"

namespace loch::workloads {

class InsertLedger;

// Where one logical client (a window slot) reports its operations. Used by its worker's thread.
class OperationLog {
 public:
  virtual ~OperationLog() = default;
  // A PUT or DELETE is about to be issued.
  virtual void invoked(OpKind kind, std::string_view key, std::optional<std::string_view> value,
                       Nanos invoke_ns) = 0;
  virtual void record(const check::OperationView& operation) = 0;
};
// Makes the log of the given client; null where nothing is recorded.
using LogFactory = std::function<std::unique_ptr<OperationLog>(std::int32_t client)>;
// Logs into a file's writer, which outlives them.
[[nodiscard]] LogFactory file_logs(check::HistoryWriter* writer);

// Failures that a run knows of beforehand, and what it does about them: a simulation's are in its schedule.
struct FailurePlan {
  // What the keeper does once it is `at` (now() time): it fences the nodes of `dead` and scrubs what those
  // clients held; it fences the nodes of `lost` and declares them lost. Repeated until it is complete.
  struct Repair {
    Nanos at = 0;
    std::vector<kv::ClientId> dead;
    std::vector<fabric::NodeId> lost;
  };
  // Keys that need the node (or the server worker of it) may stay out of service.
  struct Excuse {
    fabric::NodeId node = 0;
    std::optional<std::uint32_t> server;
  };
  kv::ClientId keeper;               // never fails; repairs alongside its own clients, and sweeps
  std::vector<kv::ClientId> doomed;  // client workers that die, so that nobody waits for them
  std::vector<fabric::NodeId> crashed;
  std::vector<Repair> repairs;  // by time
  std::vector<Excuse> excuses;
  struct Strike {
    Nanos at = 0;
    std::string what;  // as a measure::TimelineEvent calls it
    fabric::NodeId node = 0;
  };
  std::vector<Strike> strikes;  // failures and returns, for the time series of the result
  Nanos over = 0;               // time after which nothing fails; the final sweep begins later
};

// A trace that is replayed. Each key belongs to one window slot of the cluster, by a hash of its record, and
// a slot issues what is its in the order of the trace: the operations of one key keep their order.
struct Replay {
  std::shared_ptr<const Trace> trace;
  // The trace's times, so many times as fast: an operation is due at its arrival time divided by this, and
  // its latency counts from then. 0: as fast as the slots take them.
  double speed = 0;
};

struct LoadConfig {
  OperationMix mix;
  DistributionSpec distribution;
  // Keys that one GET operation of the mix asks for at once, each on a lane of its own: a slot has so many of
  // DeployConfig::window, which they divide. `rate` and `operations` count such an operation as one.
  std::uint32_t multi_get = 1;
  double rate = 0;          // operations a second over the whole cluster; 0: closed loop
  bool fixed_gaps = false;  // open loop: equal gaps instead of Poisson's
  // Clients spin so long before the warm-up, as at a barrier: time for the scheduler to spread threads and
  // background workers.
  Nanos settle = 0;
  Nanos think = 0;  // closed loop: CPU time that a client computes before each operation
  Nanos warmup = 0;
  Nanos duration = 0;            // 0: the window ends after `operations`
  std::uint64_t operations = 0;  // of the whole cluster; 0: the window ends after `duration`
  std::uint64_t read_only = 0;   // number of records, the first ones, that are never written
  // The number of client workers per node, the last ones, that read the read-only records and nothing else.
  std::uint32_t readers = 0;
  std::uint64_t seed = 1;
  bool verify = false;  // every GET's value
  // The keys of the preloaded records are computed before the run, where they fit KeyTable::bytes_max.
  bool computes_keys_ahead = false;
  bool values_are_judged = true;  // false: they are an emulation's and mean nothing (run_load sets it)
  bool scrub = false;             // repair what lost nodes held, after the load
  // When every client has ended, one of them GETs, PUTs and GETs every preloaded record: what is
  // still in the way then is stuck. Background work goes on until then. One process only.
  bool final_sweep = false;
  Nanos sweep_patience = 40'000'000;                // how long an operation of the sweep is retried
  std::optional<std::vector<std::uint64_t>> swept;  // the records that it looks at; none: every preloaded one
  bool may_be_full = false;                         // that a table is full is an answer to the sweep's PUTs
  std::optional<FailurePlan> failures;
  // What each slot does instead of drawing from the mix; `operations` and `duration` are then of no account.
  std::optional<Script> script;
  // The operations of a trace instead of draws from the mix; `operations` is their number.
  std::optional<Replay> replay;
  // Where the slots note what they do; the run's owner keeps it. One thread only, such as a simulation's.
  Transcript* transcript = nullptr;
  // Nodes that are found lost while the load goes on are repaired so long after that, beside it. Not for
  // failures that are planned.
  std::optional<Nanos> repair_after;
  Nanos timeline = 0;  // width of a bin of the time series; 0: none. With a duration alone
  // So many preloaded records, evenly spread, are written once a bin by the last client worker of the last
  // node, which does nothing else (Driver::unwritable). With a timeline alone.
  std::uint32_t probe_keys = 0;
  // After an operation that ended in error or timeout, the slot waits: this, doubled up to 1,000
  // times as much while errors go on. Bounds the work done against a dead peer.
  Nanos error_pause = 10'000;
};

class Driver {
 public:
  // The objects behind all references outlive the driver. Fails on a workload that cannot be drawn.
  [[nodiscard]] static Result<std::unique_ptr<Driver>> make(const LoadConfig& load,
                                                            const kv::DeployConfig& deploy,
                                                            const Records& records, kv::Store& store,
                                                            fabric::Fabric& fabric, LogFactory logs);
  ~Driver();

  // Adds the workers of the local nodes: clients first, then servers. Before Fabric::exchange.
  // `pin`: worker i of a node to core i % pin; 0: not pinned.
  [[nodiscard]] Result<> add_workers(std::uint32_t pin, std::uint32_t ud_lanes);
  // Starts every worker's main. After preload.
  void start();

  // ---- After Fabric::run ------------------------------------------------------------------------
  // What the clients of a local node counted.
  [[nodiscard]] measure::Tally tally(fabric::NodeId node) const;
  // Seconds that the measurement window lasted here.
  [[nodiscard]] double window_s() const;
  // What scrub repaired, by kind; empty unless this process did it.
  [[nodiscard]] const std::map<std::string, std::uint64_t>& scrubbed() const { return scrubbed_; }
  [[nodiscard]] bool did_scrub() const { return did_scrub_; }
  // "key: GET conflict": operations of the final sweep that met a conflict, a time-out, a full table or an
  // error in each of a row of tries over `sweep_patience`; and repairs that were never complete.
  [[nodiscard]] const std::vector<std::string>& stuck() const { return stuck_; }
  // Nodes that crashed and whose memory nobody laid out again.
  [[nodiscard]] std::vector<fabric::NodeId> void_nodes() const;
  // Counts of the keeper's actions, by kind: "scrubs", "declarations", "repair_retries", "restarts", and what
  // the store says that it repaired.
  [[nodiscard]] const std::map<std::string, std::uint64_t>& repaired() const { return repaired_; }
  [[nodiscard]] std::uint64_t inserts_refused() const { return inserts_refused_; }
  // Nodes that scrub_lost or the keeper declared lost, with their memory.
  [[nodiscard]] const std::vector<fabric::NodeId>& declared_lost() const { return declared_lost_; }
  // What the local nodes' clients did over time, and what was done about failures; none where nobody asked.
  [[nodiscard]] std::optional<measure::Timeline> timeline();
  // Adds the time series of a node whose process died, as far as it had come, to `into`. Where its memory can
  // still be reached (shm).
  void add_lost(fabric::NodeId node, measure::Timeline& into);
  // Operations that were issued and have not returned: none after a run that finished.
  [[nodiscard]] std::uint64_t outstanding() const;

  // ---- Any thread, any time ---------------------------------------------------------------------
  [[nodiscard]] std::uint64_t operations_so_far() const;
  // Share of the run that is over, 0 … 1.
  [[nodiscard]] double progress() const;

 private:
  struct Slot;
  struct Ended;
  struct Alike;
  struct ClientWorker;
  enum class Action : std::uint8_t { get, put, remove, insert, read_modify_write };

  Driver(const LoadConfig& load, const kv::DeployConfig& deploy, const Records& records, kv::Store& store,
         fabric::Fabric& fabric, LogFactory logs);
  // Keys or values have different sizes, which are counted.
  const bool has_sizes_;

  [[nodiscard]] fabric::WorkerSpec worker_spec(fabric::NodeId node, fabric::Role role,
                                               std::uint32_t index) const;
  void add_slots(ClientWorker& own, std::uint32_t first_number);
  // A crashed node is back: starts workers on it again, if the store can lay it out.
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
  coro::Task<void> replay_main(ClientWorker* own, Slot* slot);
  void deal_trace();
  [[nodiscard]] Nanos replay_due(const TraceEvent& event) const;
  coro::Task<void> server_main(fabric::Worker* worker, std::uint32_t index);
  // The next turn of a slot: nothing more, an operation of the warm-up, or one that counts.
  enum class Turn : std::uint8_t { stop, warm_up, measured };
  coro::Task<bool> wait_and_operate(ClientWorker* own, Slot* slot);
  coro::Task<void> insert(ClientWorker* own, Slot* slot, Nanos due);
  coro::Task<void> operate(ClientWorker* own, Slot* slot, OpKind kind, std::uint64_t record, Nanos due);
  // What operate() does before, in and behind its only suspension that every operation has.
  void begin_operation(ClientWorker& own, Slot& slot, OpKind kind, std::uint64_t record, Nanos invoked);
  [[nodiscard]] coro::Task<kv::OpResult> issue(Slot& slot, OpKind kind) const;
  // Returns the time.
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
  // What is probed when, and what came of it, by bin and key.
  enum Probe : std::uint8_t { probe_written = 1, probe_waiting = 2 };
  [[nodiscard]] bool is_prober(const ClientWorker& own) const;
  [[nodiscard]] Result<> make_rows();
  [[nodiscard]] std::span<std::uint32_t> rows_of(fabric::NodeId node);
  coro::Task<void> probe_main(ClientWorker* own, Slot* slot, std::uint32_t index);
  void note_probe(std::uint64_t key, Nanos from, Nanos to, bool is_written);
  [[nodiscard]] std::vector<std::uint32_t> unwritable() const;
  coro::Task<void> sweep(ClientWorker* own);
  [[nodiscard]] Turn next_turn(ClientWorker& own, const Slot& slot, Nanos now);
  [[nodiscard]] std::vector<ScriptedOperation> scripted(const ScriptedClient& who) const;
  void transcribe(const ClientWorker& own, const Slot& slot, OpKind kind, std::uint64_t record);
  [[nodiscard]] Action choose(ClientWorker& own) const;
  // A PUT or DELETE of a record that is never written is a GET.
  [[nodiscard]] OpKind kind_of(Action action, std::uint64_t record) const;
  [[nodiscard]] std::uint64_t choose_record(ClientWorker& own);
  [[nodiscard]] Nanos next_due(ClientWorker& own) const;
  void prepare(Slot& slot, OpKind kind, std::uint64_t record);
  // When an operation was due, or issued where nothing says so, and when it was issued.
  struct Began {
    Nanos due = 0, invoked = 0;
  };
  void account(ClientWorker& own, Slot& slot, OpKind kind, Nanos now, Began began,
               const kv::OpResult& result);
  void begin(fabric::Worker& worker);
  [[nodiscard]] Nanos pause_after(Slot& slot, const kv::OpResult& result) const;
  [[nodiscard]] Nanos earliest(Nanos invoked) const;
  void log(Slot& slot, OpKind kind, Nanos invoked, Nanos returned, const kv::OpResult& result,
           std::optional<std::string_view> read);

  LoadConfig load_;
  kv::DeployConfig deploy_;
  const Records& records_;
  kv::Store& store_;
  fabric::Fabric& fabric_;
  LogFactory logs_;
  const bool judges_values_;  // of GETs: of every slot, or of those with a log
  const bool is_plain_;       // each turn of a slot is one GET, PUT or DELETE, at once behind the one before
  KeyTable keys_;
  // Records are drawn uniformly from the first so many, and by every worker alike; 0: choose_record() has
  // more to look at.
  std::uint64_t draws_below_ = 0;
  std::unique_ptr<Chooser> chooser_;
  std::unique_ptr<InsertLedger> inserts_;
  std::vector<std::unique_ptr<ClientWorker>> clients_;
  std::vector<fabric::Worker*> servers_;
  std::atomic<Nanos> begin_ns_{-1};        // when the first client started
  std::atomic<bool> is_measuring_{false};  // counters were reset at the end of the warm-up
  std::atomic<std::uint64_t> inserts_refused_{0};
  std::map<std::string, std::uint64_t> scrubbed_, repaired_;
  std::vector<fabric::NodeId> declared_lost_, tended_;
  std::optional<measure::TimelineShape> shape_;            // of the timeline
  std::vector<std::uint32_t> rows_;                        // rows of one process
  std::map<fabric::NodeId, fabric::Region*> row_regions_;  // of several, which outlive theirs
  std::vector<std::uint8_t> probes_;                       // bins x keys
  std::mutex events_mutex_;
  std::vector<measure::TimelineEvent> events_;  // by Worker::now() yet
  std::unique_ptr<OperationLog> losses_;
  std::vector<fabric::NodeId> revived_;
  std::uint32_t next_number_ = 0;  // of a slot that is added while the load runs
  std::uint32_t ud_lanes_ = 1;
  std::atomic<bool> is_swept_{false};
  bool did_scrub_ = false;
  std::atomic<std::size_t> workers_left_{0};
  std::vector<std::string> stuck_;
};

}  // namespace loch::workloads
