// Spans of time in which a value must have been the key's value, after Gibbons and Korach, "Testing
// shared memories" (SIAM J. Comput. 1997), section 4: when each value is put once, every GET names
// its PUT, and the operations of one value form a cluster. Let f be the earliest return in the
// cluster and s the latest invocation.
//
//   f < s   forward: the key held the value during all of [f, s]; nothing else fits in between.
//   s <= f  backward: all its operations overlap; they may all take effect at one point of [s, f].
//
// Both can be assumed without loss: moving each operation's instant to the nearest point of the zone
// keeps it within its own interval and disturbs no other. What is left is to place points (backward
// clusters, DELETEs, GETs that found nothing) outside the forward zones: their windows are clipped
// here, and gap_search.h orders them. Without DELETEs and not_found the zones alone decide.
#pragma once

#include <span>
#include <vector>

#include "common/check/key_history.h"

namespace loch::check {

struct ForwardZone {
  Nanos begin = 0;
  Nanos end = 0;
  std::uint32_t begin_op = none;  // the operation that returned first (none: the preload)
  std::uint32_t end_op = none;    // the operation invoked last
};

// A point that must, or may, be placed in [release_ns, deadline_ns], outside forward zones.
enum class PointKind : std::uint8_t {
  put,     // makes the key present: a backward cluster
  remove,  // makes it absent
  absent,  // needs it absent
  lost,    // may make it absent: a loss that the key may not have been part of
};
struct Point {
  Nanos release_ns = 0;
  Nanos deadline_ns = forever;
  std::uint32_t operation = none;  // for the report
  PointKind kind = PointKind::put;
  bool optional =
      false;  // may be left out: its outcome is unknown (the deadline is forever), or it is a loss
};

struct Zones {
  Judgement judgement;               // not `holds`: the violation was found already
  bool repeated_values = false;      // some value was put twice: zones do not apply
  bool starts_present = false;       // the initial value was read
  std::vector<ForwardZone> forward;  // by time, interiors disjoint
  std::vector<Point> points;         // windows clipped to the gaps
};

[[nodiscard]] Zones find_zones(std::span<const KeyOp> operations, const KeyRules& rules);

}  // namespace loch::check
