// Plans repairs for the failures that a simulation schedules, according to what the protocol promises.
#pragma once

#include "common/fabric/sim/faults.h"
#include "common/kv/protocol.h"
#include "workloads/driver.h"

namespace loch::cli {

// Adds to the plan, for one scheduled fault: the clients that it kills; the repair, `delay` ns after the
// fault (or after the node's restart); and, where the protocol does not promise to serve all keys afterwards,
// the keys that may stay unavailable.
void plan_repair(const fabric::sim::ScheduledFault& fault, const kv::Module& module,
                 const kv::Options& options, const kv::DeployConfig& deploy, Nanos delay,
                 workloads::FailurePlan& plan);
// Orders the repairs by time, and makes `over` the time of the last failure or repair, whichever is later.
void order_repairs(workloads::FailurePlan& plan);

// Plans a whole schedule for a run that continues through its failures. The `keeper`, which makes all
// repairs, is the last client of the last node that drives load and is not in the schedule. A node that
// restarts after it was declared lost is declared lost again `delay` ns after its restart, so that it becomes
// a member again. Fails if the schedule leaves no node for the keeper.
[[nodiscard]] Result<workloads::FailurePlan> plan_failures(const fabric::sim::SimFaults& faults,
                                                           const kv::Module& module,
                                                           const kv::Options& options,
                                                           const kv::DeployConfig& deploy, Nanos delay);

}  // namespace loch::cli
