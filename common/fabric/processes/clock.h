// One clock for all processes of a run, for the times that nodes tell each other; the times of histories are
// aligned more closely by workloads/clock_exchange.h. The reference is the clock of the live process with the
// lowest rank. Processes on the same machine as that process, in its time namespace, read the same
// CLOCK_MONOTONIC. Any other compares its clock with the reference by asking for readings over the control
// plane. Control path.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/cluster/control.h"

namespace loch::fabric::processes {

// A process's clock as sent to the other processes: the boot id of its machine and its time namespace, and
// the reading of CLOCK_MONOTONIC in ns at which the process's own time was zero.
struct ClockRecord {
  std::string boot;
  Nanos base = 0;
  bool operator==(const ClockRecord&) const = default;
};
[[nodiscard]] std::string to_text(const ClockRecord& record);
[[nodiscard]] Result<ClockRecord> parse_clock(std::string_view text);

struct Alignment {
  Nanos base = 0;   // this machine's CLOCK_MONOTONIC in ns at time zero of the common clock
  Nanos error = 0;  // bound on the error of `base`, in ns
};

// Aligns this process's clock with the reference clock. Collective: every process of the run calls it. Until
// it returns, it uses the control plane's message handler. `base` is the reading of this process's
// CLOCK_MONOTONIC at the process's own time zero; `within` is the time limit in ns.
[[nodiscard]] Result<Alignment> align_clocks(cluster::Control& control, Nanos base, Nanos within);

}  // namespace loch::fabric::processes
