// How long a run goes on for those that are behind.
#pragma once

#include <algorithm>
#include <optional>

#include "common/base/units.h"

namespace loch::fabric::verbs {

// From the first end of a part of the cluster on, the rest has `least`, or as long again as the first took,
// if that is more: all clients have as much to do.
class Laggards {
 public:
  Laggards(Nanos began, Nanos least) : began_(began), least_(least) {}
  // At this time, a part (this process, or all others) has ended its run, or none has.
  [[nodiscard]] bool is_over(Nanos now, bool has_part_ended) {
    if (has_part_ended && !first_end_) first_end_ = now;
    return first_end_ && now - *first_end_ > std::max(least_, *first_end_ - began_);
  }

 private:
  Nanos began_, least_;
  std::optional<Nanos> first_end_;
};

}  // namespace loch::fabric::verbs
