// A decorator that injects the faults that rule 6 of the fabric contract (fabric.h) allows, over any fabric:
// lost and reordered messages on UC and UD, and failed RC requests. (The simulation can inject more kinds of
// faults by itself.)
#pragma once

#include <memory>

#include "common/base/result.h"
#include "common/fabric/fabric.h"

namespace loch::fabric {

// Faults to inject; all are off by default. Rates are probabilities per work request, in [0, 1].
struct FaultConfig {
  std::uint64_t seed = 1;
  // probability that a UC SEND or WRITE is lost while its sender sees success
  double uc_loss = 0;
  double uc_partial_write = 0;  // share of the lost UC WRITEs whose first cache lines are placed nevertheless
  double ud_loss = 0;           // probability that a UD SEND is lost
  // probability that a signaled UD SEND is delayed by ud_reorder_ns, so that later ones overtake it
  double ud_reorder = 0;
  Nanos ud_reorder_ns = 20'000;
  double delay = 0;  // probability that a completion is delayed, by up to delay_ns_max
  Nanos delay_ns_max = 100'000;
  // probability that an RC request ends in retry_exceeded, and all later ones are flushed
  double rc_error = 0;
  double rc_error_executed = 0.5;  // share of the failed RC requests that are executed nevertheless
};

// Takes ownership of the fabric; refuses rates outside [0, 1] and negative times. The report gets the
// counters "fault.uc_lost", "fault.ud_lost", "fault.ud_held", "fault.delayed", "fault.rc_failed".
[[nodiscard]] Result<std::unique_ptr<Fabric>> inject_faults(std::unique_ptr<Fabric> inner,
                                                            const FaultConfig& config);

}  // namespace loch::fabric
