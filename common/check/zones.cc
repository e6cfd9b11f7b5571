// Computes the zones (spans of time in which a key must have held one value) of a key's history, and the
// contradictions that the zones alone show.
#include "common/check/zones.h"

#include <algorithm>
#include <tuple>

namespace loch::check {
namespace {

// The PUT and the GETs of one value.
struct Cluster {
  std::uint32_t put = none;  // index of the PUT of this value; none for the preloaded value
  Nanos first_return_ns = forever;
  Nanos last_invoke_ns = beginning;
  std::uint32_t first_return_op = none;
  std::uint32_t last_invoke_op = none;
  std::uint32_t reads = 0;
};

bool is_read(const KeyOp& op) { return op.kind == OpKind::get && op.outcome == Outcome::ok; }

// Whether the operation stored no value.
bool wrote_nothing(const KeyOp& op) { return op.outcome == Outcome::failed || op.outcome == Outcome::exists; }

// The latest time at which an operation takes effect: its return, or any later time if its outcome is
// unknown.
Nanos deadline_of(const KeyOp& op) { return op.outcome == Outcome::unknown ? forever : op.return_ns; }

void include(Cluster* cluster, const KeyOp& op, std::uint32_t index) {
  if (deadline_of(op) < cluster->first_return_ns || cluster->first_return_op == none) {
    cluster->first_return_ns = deadline_of(op);
    cluster->first_return_op = index;
  }
  if (op.invoke_ns > cluster->last_invoke_ns || cluster->last_invoke_op == none) {
    cluster->last_invoke_ns = op.invoke_ns;
    cluster->last_invoke_op = index;
  }
}

void violate(Judgement* judgement, Contradiction why, std::uint32_t first, std::uint32_t second = none,
             std::uint32_t third = none, std::uint32_t fourth = none) {
  if (judgement->verdict == Verdict::violated) return;  // only the first contradiction found is reported
  judgement->verdict = Verdict::violated;
  judgement->why = why;
  judgement->first = first;
  judgement->second = second;
  judgement->third = third;
  judgement->fourth = fourth;
}

class ZoneFinder {
 public:
  ZoneFinder(std::span<const KeyOp> ops, const KeyRules& rules) : ops_(ops), rules_(rules) {}

  Zones find() {
    collect_clusters();
    if (zones_.repeated_values) return std::move(zones_);
    if (zones_.judgement.verdict == Verdict::holds) order_forward_zones();
    if (zones_.judgement.verdict == Verdict::holds) collect_absences();
    if (zones_.judgement.verdict == Verdict::holds) clip_points();
    return std::move(zones_);
  }

 private:
  // Groups writes and successful GETs by value, and turns each group into a forward zone (a span in which the
  // key holds the value) or a point.
  void collect_clusters() {
    std::vector<std::uint32_t> order;
    for (std::uint32_t i = 0; i < ops_.size(); ++i) {
      if (brings_value(ops_[i].kind) || is_read(ops_[i])) order.push_back(i);
    }
    std::ranges::sort(order, [this](std::uint32_t a, std::uint32_t b) {
      return std::tie(ops_[a].value, a) < std::tie(ops_[b].value, b);
    });
    for (std::size_t from = 0; from < order.size();) {
      std::size_t to = from + 1;
      while (to < order.size() && ops_[order[to]].value == ops_[order[from]].value) ++to;
      add_cluster(std::span(order).subspan(from, to - from));
      from = to;
    }
  }

  void add_cluster(std::span<const std::uint32_t> members) {
    Cluster cluster;
    std::uint32_t failed_put = none;
    std::uint32_t read = none;
    for (const std::uint32_t i : members) {
      const KeyOp& op = ops_[i];
      if (brings_value(op.kind) && wrote_nothing(op)) {
        failed_put = i;
        continue;
      }
      if (brings_value(op.kind)) {
        if (cluster.put != none) {
          // zones (spans of one value) are defined only if each value is put once, and this one is put twice
          zones_.repeated_values = true;
          return;
        }
        cluster.put = i;
      } else {
        read = i;
        ++cluster.reads;
      }
      include(&cluster, op, i);
    }
    const bool preloaded = ops_[members[0]].value == init_value && rules_.start != Start::absent;
    if (cluster.put == none && cluster.reads > 0 && !preloaded) {
      if (failed_put != none) {
        violate(&zones_.judgement, Contradiction::failed_read, read, failed_put);
      } else {
        zones_.judgement.corrupt_reads += cluster.reads;
        violate(&zones_.judgement, Contradiction::corrupt_read, read);
      }
    } else if (cluster.put == none && cluster.reads > 0) {
      zones_.starts_present = true;
      zones_.forward.push_back({beginning, cluster.last_invoke_ns, none, cluster.last_invoke_op});
    } else if (cluster.put != none) {
      if (preloaded && rules_.start == Start::present)
        zones_.repeated_values = true;  // a PUT wrote the name of the preloaded value
      add_written(cluster);
    }
  }

  void add_written(const Cluster& cluster) {
    const KeyOp& put = ops_[cluster.put];
    if (cluster.first_return_ns < put.invoke_ns) {
      violate(&zones_.judgement, Contradiction::read_before_put, cluster.first_return_op, cluster.put);
    } else if (cluster.first_return_ns < cluster.last_invoke_ns) {
      zones_.forward.push_back({cluster.first_return_ns, cluster.last_invoke_ns, cluster.first_return_op,
                                cluster.last_invoke_op, put.invoke_ns, needs_absent(put)});
    } else {
      // An INSERT with unknown outcome whose value no GET read becomes a PUT with unknown outcome: the search
      // uses either of them only while the key is absent, so they do not differ.
      const bool optional = put.outcome == Outcome::unknown && cluster.reads == 0;
      const PointKind kind = needs_absent(put) && !optional ? PointKind::insert : PointKind::put;
      zones_.points.push_back({cluster.last_invoke_ns, cluster.first_return_ns, cluster.last_invoke_op, kind,
                               put.invoke_ns, optional});
    }
  }

  // In a lossy cache an INSERT may succeed although the key was present, because the cache may have evicted
  // it.
  [[nodiscard]] bool needs_absent(const KeyOp& write) const {
    return write.kind == OpKind::insert_if_absent && rules_.model == Model::linearizable;
  }

  void order_forward_zones() {
    auto& forward = zones_.forward;
    std::ranges::sort(forward, {}, [](const ForwardZone& z) { return std::tie(z.begin, z.end); });
    for (std::size_t i = 1; i < forward.size(); ++i) {
      const ForwardZone& a = forward[i - 1];
      const ForwardZone& b = forward[i];
      if (b.begin < a.end) {
        violate(&zones_.judgement, Contradiction::two_values_at_once, a.begin_op, a.end_op, b.begin_op,
                b.end_op);
        return;
      }
    }
  }

  void collect_absences() {
    const bool lossy = rules_.model == Model::lossy_cache;
    for (std::uint32_t i = 0; i < ops_.size(); ++i) {
      const KeyOp& op = ops_[i];
      const auto add = [&](PointKind kind, bool optional) {
        zones_.points.push_back({op.invoke_ns, deadline_of(op), i, kind, beginning, optional});
      };
      if (op.outcome == Outcome::failed) continue;
      if (op.outcome == Outcome::exists) {
        add(PointKind::exists, false);
      } else if (op.kind == OpKind::lost) {
        zones_.points.push_back({op.invoke_ns, op.return_ns, i, PointKind::lost, beginning, true});
      } else if (op.outcome == Outcome::not_found) {
        if (!lossy) add(PointKind::absent, false);
      } else if (op.kind == OpKind::remove) {
        add(PointKind::remove, op.outcome == Outcome::unknown);
      }
    }
  }

  // The forward zone (span in which the key holds one value) that contains `t` in its interior, or a null
  // pointer.
  [[nodiscard]] const ForwardZone* zone_around(Nanos t) const {
    // the first zone with begin >= t
    const auto after = std::ranges::lower_bound(zones_.forward, t, {}, &ForwardZone::begin);
    if (after == zones_.forward.begin()) return nullptr;
    const ForwardZone& before = *(after - 1);
    return t < before.end ? &before : nullptr;
  }

  // Whether some forward zone, in which the key provably held one value, overlaps the operation's window.
  [[nodiscard]] bool meets_zone(const Point& point) const {
    const auto first = std::ranges::lower_bound(zones_.forward, point.release_ns, {}, &ForwardZone::end);
    return first != zones_.forward.end() && first->begin <= point.deadline_ns;
  }

  void clip_points() {
    const auto enclosed = [this](const Point& point) {
      const ForwardZone* const zone = zone_around(point.release_ns);
      return zone != nullptr && zone == zone_around(point.deadline_ns);
    };
    // If a key provably held one value from before a node's loss until after the loss, that loss did not
    // remove the key.
    std::erase_if(zones_.points, [&](const Point& point) {
      return (point.kind == PointKind::lost && enclosed(point)) ||
             (point.kind == PointKind::exists && meets_zone(point));
    });
    for (Point& point : zones_.points) {
      const ForwardZone* const early = zone_around(point.release_ns);
      const ForwardZone* const late = zone_around(point.deadline_ns);
      if (early != nullptr && early == late) {
        report_enclosed(point, *early);
        return;
      }
      if (early != nullptr) point.release_ns = early->end;
      if (late != nullptr) point.deadline_ns = late->begin;
      // The interval from point.release_ns to point.deadline_ns is still not empty after it was clipped:
      // forward zones are disjoint, so early->end <= late->begin.
    }
  }

  void report_enclosed(const Point& point, const ForwardZone& zone) {
    const bool is_write = point.kind == PointKind::put || point.kind == PointKind::insert;
    const auto why = is_write ? Contradiction::within_other_value : Contradiction::absent_in_value;
    violate(&zones_.judgement, why, point.operation, none, zone.begin_op, zone.end_op);
  }

  std::span<const KeyOp> ops_;
  const KeyRules& rules_;
  Zones zones_;
};

}  // namespace

Zones find_zones(std::span<const KeyOp> operations, const KeyRules& rules) {
  return ZoneFinder(operations, rules).find();
}

}  // namespace loch::check
