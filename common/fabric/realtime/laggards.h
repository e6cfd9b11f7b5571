// Decides how long a run waits for clients that still run after other clients have ended.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/units.h"

namespace loch::fabric::realtime {

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

// The line with which a run fails whose clients on the nodes `late` were given up. `lost`: the lost nodes,
// which a client may be repairing or waiting for. `is_alone`: one process hosts all nodes.
[[nodiscard]] inline std::string late_text(std::string_view fabric, const std::vector<std::uint32_t>& late,
                                           const std::vector<std::uint32_t>& lost, bool is_alone) {
  return fmt::format("{}: the clients of node {} have not ended, long after {}{}", fabric,
                     fmt::join(late, ", "),
                     is_alone ? "the run's time" : "those of the others or the run's time",
                     lost.empty() ? "" : fmt::format("; node {} is lost", fmt::join(lost, ", ")));
}

}  // namespace loch::fabric::realtime
