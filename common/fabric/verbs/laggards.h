// Decides how long a run waits for clients that still run after other clients have ended.
#pragma once

#include <algorithm>
#include <optional>

#include "common/base/units.h"

namespace loch::fabric::verbs {

// After the first clients of the cluster have ended, the other clients may run for another `least` ns, or for
// as long again as the first ones took, whichever is longer. All clients have the same amount of work.
class Laggards {
 public:
  Laggards(Nanos began, Nanos least) : began_(began), least_(least) {}
  // `has_part_ended`: the clients of this process have ended, or those of all other processes. Returns
  // whether the run has waited long enough for the remaining clients.
  [[nodiscard]] bool is_over(Nanos now, bool has_part_ended) {
    if (has_part_ended && !first_end_) first_end_ = now;
    return first_end_ && now - *first_end_ > std::max(least_, *first_end_ - began_);
  }

 private:
  Nanos began_, least_;
  std::optional<Nanos> first_end_;
};

}  // namespace loch::fabric::verbs
