// Sweeps over the points in time of one key with the set of reachable states. A state says whether the
// key is present and which points are pending.
#include "common/check/gap_search.h"

#include <algorithm>
#include <functional>
#include <span>
#include <tuple>

namespace loch::check {
namespace {

// Numbers of pending mandatory points of one kind, ascending. Points are numbered by deadline, so that
// the smallest number is due first. Optional points have no deadline; they are only counted.
using Pending = std::vector<std::uint32_t>;

struct Configuration {
  bool present = false;
  std::uint32_t last_absent = 0;  // while the key is present: the step at which it was last absent
  std::uint32_t free_puts = 0;    // number of optional puts used so far
  std::uint32_t free_removes = 0;
  std::uint64_t losses = 0;  // bit mask of the losses that have begun, have not ended and are not used yet
  Pending puts;
  Pending removes;
};

enum class Step : std::uint8_t { release, deadline, forward };
struct Event {
  Nanos at = 0;
  Step step = Step::release;
  PointKind kind = PointKind::put;
  bool optional = false;
  std::uint32_t number = none;  // rank by deadline among the points of this kind that have a deadline
  std::uint32_t operation = none;
};

class GapSearch {
 public:
  GapSearch(const Zones& zones, const KeyRules& rules) : rules_(rules) {
    schedule(zones);
    Configuration start;
    if (rules.start != Start::absent || zones.starts_present) {
      start.present = true;
      now_.push_back(start);
    }
    if (rules.start != Start::present && !zones.starts_present) {
      start.present = false;
      now_.push_back(start);
    }
  }

  Judgement run() {
    if (losses_ > most_losses) return {Verdict::undecided, Contradiction::gave_up, none};
    for (step_ = 1; step_ <= events_.size(); ++step_) {
      const Event& event = events_[step_ - 1];
      if (event.step == Step::release) {
        release(event);
        continue;
      }
      next_.clear();
      for (const Configuration& from : now_) {
        advance(from, event);
        if (next_.size() > rules_.search_limit) remove_dominated();
        if (next_.size() > rules_.search_limit)
          return {Verdict::undecided, Contradiction::gave_up, event.operation};
      }
      remove_dominated();
      if (next_.empty()) return {Verdict::violated, Contradiction::no_order, event.operation};
      now_.swap(next_);
    }
    return {};
  }

 private:
  void schedule(const Zones& zones) {
    std::vector<const Point*> points;
    points.reserve(zones.points.size());
    for (const Point& point : zones.points) points.push_back(&point);
    std::ranges::sort(points, {}, [](const Point* p) { return std::tie(p->deadline_ns, p->operation); });
    std::uint32_t numbers[4] = {0, 0, 0, 0};
    for (const Point* point : points) {
      Event event{point->release_ns, Step::release, point->kind, point->optional, none, point->operation};
      const bool has_deadline = !point->optional || point->kind == PointKind::lost;
      if (has_deadline) event.number = numbers[static_cast<int>(point->kind)]++;
      events_.push_back(event);
      if (!has_deadline) continue;
      event.at = point->deadline_ns;
      event.step = Step::deadline;
      events_.push_back(event);
    }
    released_at_.resize(numbers[static_cast<int>(PointKind::absent)]);
    losses_ = numbers[static_cast<int>(PointKind::lost)];
    for (const ForwardZone& zone : zones.forward) {
      if (zone.begin != beginning)
        events_.push_back({zone.begin, Step::forward, PointKind::put, false, none, zone.begin_op});
    }
    // Events of the same instant are ordered: first points that become possible, then points that are
    // due, then the forward zone that begins.
    std::ranges::sort(events_, {},
                      [](const Event& e) { return std::tie(e.at, e.step, e.kind, e.number, e.operation); });
  }

  void release(const Event& event) {
    if (event.kind == PointKind::absent) {
      released_at_[event.number] = step_;
    } else if (event.kind == PointKind::lost) {
      for (Configuration& c : now_) c.losses |= bit_of(event.number);
    } else if (event.optional) {
      ++(event.kind == PointKind::put ? free_puts_ : free_removes_);
    } else {
      for (Configuration& c : now_) {
        Pending& pending = event.kind == PointKind::put ? c.puts : c.removes;
        pending.insert(std::ranges::lower_bound(pending, event.number), event.number);
      }
    }
  }

  // Appends to next_ every configuration that can follow `from` and that satisfies `event`.
  void advance(const Configuration& from, const Event& event) {
    if (event.step == Step::forward) {
      enter_forward_zone(from);
    } else if (event.kind == PointKind::put) {
      use_put_when_due(from, event.number);
    } else if (event.kind == PointKind::lost) {
      end_loss(from, bit_of(event.number));
    } else if (event.kind == PointKind::remove) {
      if (from.removes.empty() || from.removes.front() != event.number) {
        next_.push_back(from);
      } else {
        remove_after_puts(from);
      }
    } else {
      const bool seen = !from.present || released_at_[event.number] <= from.last_absent;
      if (seen) {
        next_.push_back(from);
      } else {
        remove_after_puts(from);
        lose_after_puts(from, from.losses);
      }
    }
  }

  // A forward zone makes the key present without using a PUT. A DELETE or a loss just before the zone
  // therefore costs no PUT, so the search tries both with and without one.
  void enter_forward_zone(const Configuration& from) {
    Configuration to = from;
    become_present(&to);
    next_.push_back(to);
    to = from;
    if (from.present && use_remove(&to)) {
      become_present(&to);
      next_.push_back(std::move(to));
    }
    for (std::uint64_t left = from.present ? from.losses : 0; left != 0; left &= left - 1) {
      to = from;
      lose(&to, left & -left);
      become_present(&to);
      next_.push_back(std::move(to));
    }
  }

  void use_put_when_due(const Configuration& from, std::uint32_t number) {
    if (from.puts.empty() || from.puts.front() != number) {
      next_.push_back(from);
      return;
    }
    Configuration to = from;
    use_put(&to);
    next_.push_back(to);
    to = from;
    // tries a DELETE just before the due put, which makes the key present again
    if (from.present && use_remove(&to)) {
      use_put(&to);
      next_.push_back(std::move(to));
    }
    for (std::uint64_t left = from.present ? from.losses : 0; left != 0; left &= left - 1) {
      to = from;
      lose(&to, left & -left);
      use_put(&to);
      next_.push_back(std::move(to));
    }
  }

  // At the end of a loss's interval: the loss either removed the key by now, or never had an effect.
  void end_loss(const Configuration& from, std::uint64_t loss) {
    Configuration to = from;
    to.losses &= ~loss;
    next_.push_back(std::move(to));
    lose_after_puts(from, from.losses & loss);
  }

  // Applies each of the pending losses, after zero, one or more of the pending puts.
  void lose_after_puts(const Configuration& from, std::uint64_t losses) {
    if (losses == 0) return;
    Configuration to = from;
    if (!to.present) {
      if (to.puts.empty()) return;  // no pending put can make the absent key present
      use_put(&to);
    }
    for (;;) {
      for (std::uint64_t left = losses; left != 0; left &= left - 1) {
        Configuration lost = to;
        lose(&lost, left & -left);
        next_.push_back(std::move(lost));
      }
      if (to.puts.empty()) return;
      use_put(&to);
    }
  }

  static void lose(Configuration* c, std::uint64_t loss) {
    c->losses &= ~loss;
    c->present = false;
    c->last_absent = 0;
  }
  static std::uint64_t bit_of(std::uint32_t number) { return std::uint64_t{1} << (number % most_losses); }

  // Applies a DELETE after zero, one or more of the pending puts.
  void remove_after_puts(const Configuration& from) {
    Configuration to = from;
    if (!to.present && rules_.delete_ok_removes && !use_put(&to)) return;
    for (;;) {
      Configuration removed = to;
      if (!use_remove(&removed)) return;
      next_.push_back(std::move(removed));
      if (to.puts.empty()) return;  // using an optional put before the DELETE would gain nothing
      use_put(&to);
    }
  }

  void become_present(Configuration* c) const {
    if (!c->present) c->last_absent = static_cast<std::uint32_t>(step_);
    c->present = true;
  }

  bool use_put(Configuration* c) const {
    if (!c->puts.empty()) {
      c->puts.erase(c->puts.begin());
    } else if (c->free_puts < free_puts_) {
      ++c->free_puts;
    } else {
      return false;
    }
    become_present(c);
    return true;
  }

  bool use_remove(Configuration* c) const {
    if (!c->removes.empty()) {
      c->removes.erase(c->removes.begin());
    } else if (c->free_removes < free_removes_) {
      ++c->free_removes;
    } else {
      return false;
    }
    c->present = false;
    c->last_absent = 0;
    return true;
  }

  // Whether each pending point of `b` can be paired with a different point of `a` whose deadline is not
  // earlier.
  static bool outlasts(const Pending& a, const Pending& b) {
    if (a.size() < b.size()) return false;
    return std::ranges::equal(b, std::span(a).last(b.size()), std::less_equal());
  }

  // Whether `a` can do all that `b` can, so that `b` may be discarded: `a` has used no more optional
  // points and losses, it was absent later, and each pending point of `b` has a counterpart in `a` that
  // is due no sooner. While the key is present, additional pending puts of `a` do no harm, as they can be
  // used at once. While the key is absent, the first pending put of `a` must not be due sooner than that
  // of `b`.
  static bool dominates(const Configuration& a, const Configuration& b) {
    if (a.present != b.present || a.removes.size() != b.removes.size()) return false;
    if (a.free_puts > b.free_puts || a.free_removes > b.free_removes || a.last_absent < b.last_absent)
      return false;
    if ((~a.losses & b.losses) != 0) return false;
    if (!outlasts(a.puts, b.puts) || !outlasts(a.removes, b.removes)) return false;
    if (a.present || a.puts.empty()) return true;
    return !b.puts.empty() && a.puts.front() >= b.puts.front();
  }

  void remove_dominated() {
    if (next_.size() < 2) return;
    // Sort configurations that are likely to dominate others first, so that most others are discarded
    // after few comparisons.
    const auto promise = [](const Configuration& c) {
      return std::tuple(c.present, c.removes.size(), ~c.puts.size(), c.free_puts, c.free_removes,
                        ~c.last_absent, ~c.losses);
    };
    std::ranges::sort(
        next_, [&](const Configuration& a, const Configuration& b) { return promise(a) < promise(b); });
    std::size_t kept = 0;
    // index of the first kept configuration with the same `present` and number of removes
    std::size_t group = 0;
    for (std::size_t i = 0; i < next_.size(); ++i) {
      if (kept > 0 && (next_[group].present != next_[i].present ||
                       next_[group].removes.size() != next_[i].removes.size())) {
        group = kept;
      }
      const bool dominated = std::any_of(next_.begin() + static_cast<std::ptrdiff_t>(group),
                                         next_.begin() + static_cast<std::ptrdiff_t>(kept),
                                         [&](const Configuration& c) { return dominates(c, next_[i]); });
      if (dominated) continue;
      if (kept != i) next_[kept] = std::move(next_[i]);
      ++kept;
    }
    next_.resize(kept);
  }

  static constexpr std::uint32_t most_losses = 64;
  const KeyRules& rules_;
  std::vector<Event> events_;
  std::uint32_t losses_ = 0;
  std::vector<std::size_t> released_at_;  // for each absent point, by its number: the step of its release
  std::uint32_t free_puts_ = 0;           // number of optional puts released so far
  std::uint32_t free_removes_ = 0;
  std::size_t step_ = 0;
  std::vector<Configuration> now_;
  std::vector<Configuration> next_;
};

}  // namespace

Judgement search_gaps(const Zones& zones, const KeyRules& rules) { return GapSearch(zones, rules).run(); }

}  // namespace loch::check
