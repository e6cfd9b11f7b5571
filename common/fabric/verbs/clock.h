// One clock for the processes of a run: histories of several are one history. That of the lowest
// process alive is everyone's. On its machine CLOCK_MONOTONIC is the same; another machine's is
// compared with it by questions and answers over the control plane. Control path.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/cluster/control.h"

namespace loch::fabric::verbs {

// A process's clock, as told to the others: the boot of its machine, and CLOCK_MONOTONIC at the zero of its
// time.
struct ClockRecord {
  std::string boot;
  Nanos base = 0;
  bool operator==(const ClockRecord&) const = default;
};
[[nodiscard]] std::string to_text(const ClockRecord& record);
[[nodiscard]] Result<ClockRecord> parse_clock(std::string_view text);

struct Alignment {
  Nanos base = 0;   // CLOCK_MONOTONIC of this machine at the zero of the common time
  Nanos error = 0;  // the zero is within this of the true one
};

// A meeting of all; the control plane's message handler is this function's meanwhile.
[[nodiscard]] Result<Alignment> align_clocks(cluster::Control& control, Nanos base, Nanos within);

}  // namespace loch::fabric::verbs
