// The repairs planned for the failures of a simulation's schedule, according to the protocol's promises.
#pragma once

#include "common/fabric/sim/faults.h"
#include "common/kv/protocol.h"
#include "workloads/driver.h"

namespace loch::cli {

// Adds to the plan what a fault of the schedule dooms, the repair that `delay` after it (or after the node's
// return) repairs it, and the keys that may stay out of service where nothing is promised.
void plan_repair(const fabric::sim::ScheduledFault& fault, const kv::Module& module,
                 const kv::Options& options, const kv::DeployConfig& deploy, Nanos delay,
                 workloads::FailurePlan& plan);
// The repairs by time; nothing fails or is begun after `over`.
void order_repairs(workloads::FailurePlan& plan);

// The plan of a whole schedule for a run that goes on through it: `keeper` is the last client of the last
// node that drives load and that the schedule does not touch. A node that comes back after it was declared
// lost is declared again, `delay` after its return, so that it is a member. Refuses a schedule that leaves no
// keeper.
[[nodiscard]] Result<workloads::FailurePlan> plan_failures(const fabric::sim::SimFaults& faults,
                                                           const kv::Module& module,
                                                           const kv::Options& options,
                                                           const kv::DeployConfig& deploy, Nanos delay);

}  // namespace loch::cli
