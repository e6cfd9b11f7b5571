// A decorator that injects what rule 6 of the contract allows, and nothing else, over any fabric.
// (The simulation has finer faults of its own.)
#pragma once

#include <memory>

#include "common/base/result.h"
#include "common/fabric/fabric.h"

namespace loch::fabric {

// Faults to inject; all are off by default. Rates are probabilities per work request, in [0, 1].
struct FaultConfig {
  std::uint64_t seed = 1;
  double uc_loss = 0;           // UC SEND or WRITE is lost; its sender hears success
  double uc_partial_write = 0;  // of the lost UC WRITEs: share of which a prefix of lines is placed
  double ud_loss = 0;           // UD SEND is lost
  double ud_reorder = 0;        // signaled UD SEND is held back for ud_reorder_ns, others overtake it
  Nanos ud_reorder_ns = 20'000;
  double delay = 0;  // completion comes up to delay_ns_max late
  Nanos delay_ns_max = 100'000;
  double rc_error = 0;             // RC request ends in retry_exceeded, all later ones are flushed
  double rc_error_executed = 0.5;  // share of the failed RC requests that were executed all the same
};

// Refuses rates outside [0, 1] and negative times. Takes the fabric over. Its report adds the
// counters "fault.uc_lost", "fault.ud_lost", "fault.ud_held", "fault.delayed", "fault.rc_failed".
[[nodiscard]] Result<std::unique_ptr<Fabric>> inject_faults(std::unique_ptr<Fabric> inner,
                                                            const FaultConfig& config);

}  // namespace loch::fabric
