// Spans of time in which a key must have held a value, after Gibbons and Korach, "Testing shared
// memories" (SIAM J. Comput. 1997), section 4. When each value is put once, every GET identifies its PUT,
// and the operations of one value form a cluster. Let f be the earliest return in the cluster and s the
// latest invocation.
//
//   f < s   forward zone: the key held the value during all of [f, s]; no other value fits in between.
//   s <= f  backward zone: all its operations overlap; all may take effect at one point of [s, f].
//
// Taking all operations of a backward zone at one point loses no solution: moving each operation's
// instant to the nearest point of the zone keeps it within its own interval and disturbs no other
// operation, except an INSERT that found the key present before that point (gap_search.h). What remains is to
// place points (backward zones, DELETEs, GETs that returned not_found, INSERTs that found the key present)
// outside the forward zones. Their windows are clipped here; gap_search.h orders them. In a history
// without DELETE and not_found the zones alone decide.
#pragma once

#include <span>
#include <vector>

#include "common/check/key_history.h"

namespace loch::check {

struct ForwardZone {
  Nanos begin = 0;
  Nanos end = 0;
  std::uint32_t begin_op = none;  // index of the value's write or GET that returned first; none: the preload
  std::uint32_t end_op = none;    // index of the value's write or GET that was invoked last
  Nanos write_ns = beginning;  // the invocation of the PUT or INSERT: the key may hold the value from then on
  // true: an INSERT wrote the value, so the key is absent just before this zone (span of one value)
  bool needs_absent = false;
};

// The kind of a point: operations that take effect at one instant of [release_ns, deadline_ns], outside
// forward zones (spans in which the key holds one value). An optional point may be left out.
enum class PointKind : std::uint8_t {
  put,     // makes the key present: a PUT and the GETs of its value, if all of them overlap
  remove,  // makes the key absent: a DELETE
  absent,  // needs the key absent: a GET or DELETE that returned not_found
  lost,    // may make the key absent: a lost node, which need not have held the key
  insert,  // makes the absent key present: an INSERT and the GETs of its value, if all of them overlap
  exists,  // needs the key present: an INSERT that returned exists
};
inline constexpr std::size_t point_kinds = 6;
struct Point {
  Nanos release_ns = 0;
  Nanos deadline_ns = forever;
  std::uint32_t operation = none;  // index of the operation that a report names
  PointKind kind = PointKind::put;
  // put, insert: the invocation of the PUT or INSERT. It may take effect before release_ns, at which the last
  // GET of its value is invoked, provided that nothing changes the key in between.
  Nanos write_ns = beginning;
  // true: the operation need not take effect, because its outcome is unknown (the deadline is then forever)
  // or because it is the loss of a node
  bool optional = false;
};

struct Zones {
  // a violation that the zones (spans in which the key held one value) alone show, else `holds`
  Judgement judgement;
  // true: some value was put twice, so that zones (spans of one value) are not defined
  bool repeated_values = false;
  bool starts_present = false;  // true: a GET read the preloaded value
  // forward zones (spans of one value) by time; their interiors are disjoint
  std::vector<ForwardZone> forward;
  // operations to be ordered, whose windows are clipped to the gaps between forward zones (spans in which the
  // key holds one value)
  std::vector<Point> points;
};

[[nodiscard]] Zones find_zones(std::span<const KeyOp> operations, const KeyRules& rules);

}  // namespace loch::check
