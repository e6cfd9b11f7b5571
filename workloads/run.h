// Runs a store under load on a fabric: registers memory, drives load, gathers the counts.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/load_counts.h"
#include "common/kv/further_loads.h"
#include "common/kv/protocol.h"
#include "common/kv/slotted.h"
#include "common/measure/result.h"
#include "workloads/driver.h"

namespace loch::workloads {

struct RunPlan {
  const kv::Module* module = nullptr;
  kv::Options options;
  std::string mutant;  // name of the known-bad variant to switch on; empty: none
  kv::DeployConfig deploy;
  LoadConfig load;
  Records::Shape records;
  // true: a protocol that relies on bytes being placed in address order may run on a fabric that does not
  // promise it, so that the fuzzer can show the consequences.
  bool waives_order = false;
  Pinning pinning;  // which core each worker is pinned to
  // Nanoseconds to wait for the other processes at each collective call of the control plane.
  Nanos control_timeout = 120'000'000'000;
  LogFactory logs;                              // histories of the clients; empty: none are recorded
  std::function<void(const Driver&)> on_start;  // called before the run, for a progress display
  // Called after the run, before the store and the driver are torn down.
  std::function<void(const Driver&)> on_end;
};

// How the clocks of the processes were compared; indexed by rank, which is also the node's number.
struct ClockReport {
  std::uint32_t reference = 0;
  std::map<std::uint32_t, std::vector<check::ClockSample>> samples;
  // For each rank, the last comparison of clocks that its process sent to the reference process; used for
  // processes that died.
  std::map<std::uint32_t, check::ClockSample> told;
  // the largest bound, over all processes, on the error in ns of clocks that were compared by messages of the
  // control plane
  Nanos control_error = 0;
  bool is_one_clock = false;  // true: all processes use one clock (Fabric::has_one_clock)
};

struct RunOutcome {
  fabric::RunEnd end = fabric::RunEnd::finished;
  double window_s = 0;
  // ns from the beginning of the measurement window to the reset of this process's counters
  Nanos counters_late = 0;
  bool is_joint = true;                  // false: another process reports the merged results of the run
  std::vector<measure::NodePart> nodes;  // results by node; of all processes if is_joint
  std::map<std::string, double> protocol_counters, fabric_counters;
  std::optional<fabric::SimReport> sim;
  std::string transport;  // the transport as named by Store::transport()
  std::vector<std::uint32_t> lost_nodes;
  std::optional<std::map<std::string, std::uint64_t>> scrubbed;
  std::vector<std::string> notes;
  std::uint64_t outstanding = 0;  // number of operations that never returned
  // Whether this process's store is fit for a further load: it serves further loads, the run finished, no
  // node was lost, and no operation of this process's clients may still be under way.
  bool is_fit_for_more = false;
  std::vector<std::string> stuck;  // what Driver::stuck() returned in this process
  // Errors that Store::audit found; filled only after a final check of all keys, when no operation is under
  // way.
  std::vector<std::string> unsound;
  std::map<std::string, std::uint64_t> repaired;  // the counts that Driver::repaired() returned
  std::vector<std::uint32_t> declared_lost;
  std::optional<measure::Timeline> timeline;  // set if LoadConfig::timeline asks for it
  std::optional<ClockReport> clocks;          // set if several processes recorded histories
};

[[nodiscard]] std::string_view name(fabric::RunEnd end);

// How the protocol is to size the slots of its tables for these records. Fails with `unsupported` if the
// records have several sizes and the protocol takes only one.
[[nodiscard]] Result<kv::SlotUse> slots_of(const kv::Module& module, const kv::Options& options,
                                           const Records::Shape& records);

// Whether a deployed store can serve one load after another (kv::FurtherLoads).
[[nodiscard]] bool serves_further_loads(const kv::Store& store);

// A store that is deployed on a fabric and preloaded.
struct Deployed {
  Records records;
  KeyTable keys;  // computed once for all loads; empty if they compute keys as they use them
  std::unique_ptr<kv::Store> store;
  std::unique_ptr<Driver> driver;
  LoadCounts counts;  // of store->counters()
};

// The first part of run_load(): deploys the store on the fabric and preloads it.
[[nodiscard]] Result<std::unique_ptr<Deployed>> set_up(fabric::Fabric& fabric, const RunPlan& plan);
// Replaces the load that the workers of `deployed` are to run by that of `plan`, which has to equal the plan
// given to set_up() in everything else. The former load has not begun; or it has ended, and the store serves
// further loads (serves_further_loads).
[[nodiscard]] Result<> change_load(fabric::Fabric& fabric, const RunPlan& plan, Deployed& deployed);
// The second part of run_load(): runs the load on the deployed store and gathers the results.
[[nodiscard]] Result<RunOutcome> run_deployed(fabric::Fabric& fabric, const RunPlan& plan,
                                              Deployed& deployed);

// Runs the plan. Every process of a run calls it; the process with the lowest rank alive gets the merged
// outcome, and every process learns which nodes were lost. Errors: bad input (invalid_argument, unsupported)
// or a failure of the system; a run that ends early is not an error but an outcome.
[[nodiscard]] Result<RunOutcome> run_load(fabric::Fabric& fabric, const RunPlan& plan);

}  // namespace loch::workloads
