// Decides how long a run waits for clients that still run after other clients have ended.
#pragma once

#include <algorithm>
#include <optional>

#include "common/base/units.h"

namespace loch::fabric::processes {

// After the first clients of the cluster have ended, the other clients may run for another `least` ns, or for
// as long again as those first clients took, whichever is longer. All clients have the same amount of work.
class Laggards {
 public:
  // `run_most`: the longest that the whole run may take in ns; 0: no limit.
  Laggards(Nanos began, Nanos least, Nanos run_most = 0)
      : began_(began), least_(least), run_most_(run_most) {}
  // Whether a run should stop waiting at time `now` for its clients. `has_part_ended`: the clients of this
  // process have all ended, or the clients of all other processes have.
  [[nodiscard]] bool is_over(Nanos now, bool has_part_ended) {
    if (has_part_ended && !first_end_) first_end_ = now;
    if (run_most_ != 0 && now - began_ > run_most_) return true;
    return first_end_ && now - *first_end_ > std::max(least_, *first_end_ - began_);
  }

 private:
  Nanos began_, least_, run_most_;
  std::optional<Nanos> first_end_;
};

}  // namespace loch::fabric::processes
