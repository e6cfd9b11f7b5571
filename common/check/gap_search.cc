// Searches for an order of one key's operations: sweeps over time with the set of reachable states, each of
// which says whether the key is present and which operations have yet to take effect.
#include "common/check/gap_search.h"

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <tuple>

namespace loch::check {
namespace {

// The operations of one kind that must still take effect, as ascending numbers: the operations of each kind
// are numbered by deadline, so that the smallest number is due first. Operations that may never take effect
// have no deadline and are only counted.
using Pending = std::vector<std::uint32_t>;

struct Configuration {
  bool present = false;
  Nanos last_absent = beginning;   // while the key is present: the time at which it was last absent
  Nanos last_present = beginning;  // while the key is absent: the time at which it was last present
  // If an INSERT has found the key present, and no write that explains it has taken effect yet: the time in
  // ns by which the next write must have been invoked and take effect, which is the earliest return of such
  // an INSERT. Else `forever`.
  Nanos owed = forever;
  // number of writes with unknown outcome that this order of operations has used to make the key present
  std::uint32_t free_puts = 0;
  std::uint32_t free_removes = 0;
  // bit mask of the node losses that are in progress and that, in this order of operations, have not removed
  // the key yet
  std::uint64_t losses = 0;
  Pending puts;
  Pending inserts;
  Pending removes;
};

enum class Step : std::uint8_t { release, deadline, forward };
struct Event {
  Nanos at = 0;
  Step step = Step::release;
  PointKind kind = PointKind::put;
  bool optional = false;
  // position, by deadline, among the operations of its kind that have a deadline
  std::uint32_t number = none;
  std::uint32_t operation = none;
  Nanos release_ns = 0;  // ns; the operation takes effect at this time or later
  // for Step::forward, the begin of a zone (span in which the key holds one value): time in ns at which the
  // write of that value was invoked
  Nanos write_ns = beginning;
  bool needs_absent = false;  // for Step::forward: true if the key is absent just before the zone
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
    for (const Event& event : events_) {
      at_ = event.at;
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
    // At the end, a configuration (state of the search) is no solution if an INSERT that found the key
    // present still lacks the write that made it present: no write is left that could have done so.
    const auto is_even = [](const Configuration& c) { return c.owed == forever; };
    if (!std::ranges::any_of(now_, is_even)) return {Verdict::violated, Contradiction::no_order, none};
    return {};
  }

 private:
  void schedule(const Zones& zones) {
    std::vector<const Point*> points;
    points.reserve(zones.points.size());
    for (const Point& point : zones.points) points.push_back(&point);
    std::ranges::sort(points, {}, [](const Point* p) { return std::tie(p->deadline_ns, p->operation); });
    std::array<std::uint32_t, point_kinds> numbers{};
    for (const Point* point : points) {
      Event event{.at = point->release_ns,
                  .step = Step::release,
                  .kind = point->kind,
                  .optional = point->optional,
                  .operation = point->operation,
                  .release_ns = point->release_ns};
      const bool has_deadline = !point->optional || point->kind == PointKind::lost;
      if (has_deadline) event.number = numbers[static_cast<std::size_t>(point->kind)]++;
      has_exists_ |= point->kind == PointKind::exists;
      if (has_deadline && point->kind == PointKind::put) put_written_.push_back(point->write_ns);
      if (has_deadline && point->kind == PointKind::insert) insert_written_.push_back(point->write_ns);
      events_.push_back(event);
      if (!has_deadline) continue;
      event.at = point->deadline_ns;
      event.step = Step::deadline;
      events_.push_back(event);
    }
    losses_ = numbers[static_cast<std::size_t>(PointKind::lost)];
    for (const ForwardZone& zone : zones.forward) {
      if (zone.begin == beginning) continue;
      events_.push_back({.at = zone.begin,
                         .step = Step::forward,
                         .operation = zone.begin_op,
                         .write_ns = zone.write_ns,
                         .needs_absent = zone.needs_absent});
    }
    // Order of the events of one instant: first operations that may take effect from then on, then operations
    // whose deadline has come, then the forward zone (span in which the key holds one value) that begins.
    std::ranges::sort(events_, {},
                      [](const Event& e) { return std::tie(e.at, e.step, e.kind, e.number, e.operation); });
  }

  void release(const Event& event) {
    if (event.kind == PointKind::absent || event.kind == PointKind::exists) return;
    if (event.kind == PointKind::lost) {
      for (Configuration& c : now_) c.losses |= bit_of(event.number);
    } else if (event.optional) {
      ++(event.kind == PointKind::put ? free_puts_ : free_removes_);
    } else {
      for (Configuration& c : now_) {
        Pending& pending = event.kind == PointKind::put      ? c.puts
                           : event.kind == PointKind::insert ? c.inserts
                                                             : c.removes;
        pending.insert(std::ranges::lower_bound(pending, event.number), event.number);
      }
    }
  }

  // Appends to next_ every configuration (state of the search) that can follow `from` and in which `event` is
  // satisfied.
  void advance(const Configuration& from, const Event& event) {
    if (event.step == Step::forward) {
      if (event.needs_absent) {
        once_settled(from, event.write_ns, [&](const Configuration& settled) {
          when_absent(settled, [&](Configuration to) { keep_present(std::move(to)); });
        });
      } else {
        enter_forward_zone(from, event.write_ns);
      }
    } else if (event.kind == PointKind::insert) {
      insert_when_due(from, event.number);
    } else if (event.kind == PointKind::exists) {
      exist_when_due(from, event);
    } else if (event.kind == PointKind::put) {
      use_put_when_due(from, event.number);
    } else if (event.kind == PointKind::lost) {
      end_loss(from, bit_of(event.number));
    } else if (event.kind == PointKind::remove) {
      if (from.removes.empty() || from.removes.front() != event.number) {
        next_.push_back(from);
        return;
      }
      remove_after_puts(from);
      if (!deletes_need_presence() && event.release_ns <= absent_until(from)) {
        next_.push_back(from);  // The DELETE took effect while the key was absent.
        next_.back().removes.erase(next_.back().removes.begin());
      }
    } else {
      const bool seen = event.release_ns <= absent_until(from);
      if (seen) {
        next_.push_back(from);
      } else {
        remove_after_puts(from);
        lose_after_puts(from, from.losses);
      }
    }
  }

  // A forward zone, in which the key holds one value, makes the key present without using a pending PUT. A
  // DELETE or a loss just before the zone therefore costs no PUT, so the search tries both with and without
  // one.
  void enter_forward_zone(const Configuration& from, Nanos write_ns) {
    once_settled(from, write_ns, [&](const Configuration& settled) {
      keep_present(settled);
      if (!settled.present) return insert_first(settled);
      Configuration to = settled;
      if (use_remove(&to)) keep_present(std::move(to));
      for (std::uint64_t left = settled.losses; left != 0; left &= left - 1) {
        to = settled;
        lose(&to, left & -left);
        keep_present(std::move(to));
      }
    });
  }

  void use_put_when_due(const Configuration& from, std::uint32_t number) {
    if (from.puts.empty() || from.puts.front() != number) {
      next_.push_back(from);
      return;
    }
    once_settled(from, put_written_[number], [&](const Configuration& settled) {
      Configuration before = settled;
      before.puts.erase(before.puts.begin());
      keep_present(before);
      if (!before.present) return insert_first(before);
      // tries a DELETE or a node's loss just before the due PUT too, since that PUT makes the key present
      // again
      Configuration to = before;
      if (use_remove(&to)) keep_present(std::move(to));
      for (std::uint64_t left = before.losses; left != 0; left &= left - 1) {
        to = before;
        lose(&to, left & -left);
        keep_present(std::move(to));
      }
    });
  }

  // If an INSERT is pending, adds the configuration (state of the search) in which this INSERT makes the
  // absent key present just before the write whose turn it is (a due PUT, or the write of a forward zone)
  // takes effect.
  void insert_first(Configuration to) {
    if (use_insert(&to)) next_.push_back(std::move(to));
  }

  // Calls `then` with the configuration (state of the search) if a write that was invoked at `write_ns` may
  // be the key's next write. If that write was invoked too late (after Configuration::owed), a pending PUT or
  // a pending INSERT that was invoked in time has to take effect first: calls `then` for each of the two that
  // exists.
  template <typename Then>
  void once_settled(const Configuration& from, Nanos write_ns, Then then) const {
    if (write_ns <= from.owed) return then(from);
    Configuration to = from;
    if (use_put(&to)) then(to);
    to = from;
    if (use_insert(&to)) then(to);
  }

  void insert_when_due(const Configuration& from, std::uint32_t number) {
    if (from.inserts.empty() || from.inserts.front() != number) {
      next_.push_back(from);
      return;
    }
    once_settled(from, insert_written_[number], [&](const Configuration& settled) {
      when_absent(settled, [&](Configuration to) {
        to.inserts.erase(std::ranges::find(to.inserts, number));
        keep_present(std::move(to));
      });
    });
  }

  // Handles the last instant at which an INSERT that found the key present can take effect. If the key has
  // been absent ever since the INSERT could take effect, the next write has to be one that was invoked by now
  // (Configuration::owed).
  void exist_when_due(const Configuration& from, const Event& event) {
    if (from.present || event.release_ns <= from.last_present) {
      next_.push_back(from);
      return;
    }
    Configuration to = from;
    to.owed = std::min(to.owed, event.at);
    next_.push_back(to);
    // The key may also have been made present by a write with unknown outcome. Such a write is tried only
    // now, and not later: the times at which these writes were invoked are not recorded, so that a later
    // attempt could use one that was invoked too late.
    to = from;
    if (from.owed == forever && use_free_put(&to)) next_.push_back(std::move(to));
  }

  // Calls `then` with the configuration (state of the search) if the key is absent in it, else with each
  // configuration reached by zero or more of the pending PUTs and then a DELETE or a node's loss.
  template <typename Then>
  void when_absent(const Configuration& from, Then then) const {
    if (!from.present) return then(from);
    for (Configuration to = from;; use_put(&to)) {
      Configuration removed = to;
      if (use_remove(&removed)) then(std::move(removed));
      for (std::uint64_t left = to.losses; left != 0; left &= left - 1) {
        Configuration lost = to;
        lose(&lost, left & -left);
        then(std::move(lost));
      }
      if (to.puts.empty()) return;
    }
  }

  // Ends the interval of a node's loss: the loss either has removed the key by now, or never had an effect.
  void end_loss(const Configuration& from, std::uint64_t loss) {
    Configuration to = from;
    to.losses &= ~loss;
    next_.push_back(std::move(to));
    lose_after_puts(from, from.losses & loss);
  }

  // Applies each of the pending node losses after zero or more of the pending PUTs, and on an absent key also
  // after an INSERT.
  void lose_after_puts(const Configuration& from, std::uint64_t losses) {
    if (losses == 0) return;
    if (from.present) return lose_in_turn(from, losses);
    Configuration to = from;
    if (use_insert(&to)) lose_in_turn(to, losses);
    to = from;
    // A write with unknown outcome whose value the loss removes at once leaves the key absent as before. It
    // need be tried only if some INSERT found the key present, which that write may explain.
    if ((!to.puts.empty() || has_exists_) && use_put(&to)) lose_in_turn(to, losses);
  }

  void lose_in_turn(Configuration to, std::uint64_t losses) {
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

  void lose(Configuration* c, std::uint64_t loss) const {
    c->losses &= ~loss;
    become_absent(c);
  }
  static std::uint64_t bit_of(std::uint32_t number) { return std::uint64_t{1} << (number % most_losses); }

  // Applies a DELETE after zero or more of the pending PUTs, and on an absent key also after an INSERT.
  void remove_after_puts(const Configuration& from) {
    if (from.present) return remove_in_turn(from);
    Configuration to = from;
    if (use_insert(&to)) remove_in_turn(to);
    to = from;
    const bool needs_presence = deletes_need_presence() || from.owed != forever;
    if (!needs_presence) remove_in_turn(from);
    if ((needs_presence || has_exists_) && use_put(&to)) remove_in_turn(to);
  }

  void remove_in_turn(Configuration to) {
    for (;;) {
      Configuration removed = to;
      if (!use_remove(&removed)) return;
      next_.push_back(std::move(removed));
      // the DELETE would undo a write with unknown outcome that is used before it
      if (to.puts.empty()) return;
      use_put(&to);
    }
  }

  // The latest time, at most now, at which the key can have been absent; `beginning` if it never was.
  [[nodiscard]] Nanos absent_until(const Configuration& c) const {
    return c.present ? c.last_absent : std::min(at_, c.owed);
  }

  // Whether a DELETE that returned ok shows that the key was present. In a lossy cache it does not, because
  // the cache may have evicted the key before.
  [[nodiscard]] bool deletes_need_presence() const {
    return rules_.delete_ok_removes && rules_.model == Model::linearizable;
  }

  // Makes the key present: at the time Configuration::owed (by which the next write must take effect) if an
  // INSERT that found the key present requires it, else now.
  void become_present(Configuration* c) const {
    if (!c->present) c->last_absent = std::min(at_, c->owed);
    c->present = true;
    c->last_present = beginning;
    c->owed = forever;
  }
  void become_absent(Configuration* c) const {
    if (c->present) c->last_present = at_;
    c->present = false;
    c->last_absent = beginning;
  }
  void keep_present(Configuration to) {
    become_present(&to);
    next_.push_back(std::move(to));
  }

  // Makes the key present by a pending PUT that was invoked no later than Configuration::owed (by which the
  // next write must take effect), the one with the earliest deadline, or, if no INSERT requires an earlier
  // write, by a write with unknown outcome. Returns false if there is neither.
  bool use_put(Configuration* c) const {
    const auto first =
        std::ranges::find_if(c->puts, [&](std::uint32_t number) { return put_written_[number] <= c->owed; });
    if (first == c->puts.end()) return c->owed == forever && use_free_put(c);
    c->puts.erase(first);
    become_present(c);
    return true;
  }

  bool use_free_put(Configuration* c) const {
    if (c->free_puts >= free_puts_) return false;
    ++c->free_puts;
    become_present(c);
    return true;
  }

  // Makes the absent key present by a pending INSERT that was invoked no later than Configuration::owed (by
  // which the next write must take effect), the one with the earliest deadline. Returns false if there is
  // none.
  bool use_insert(Configuration* c) const {
    const auto first = std::ranges::find_if(
        c->inserts, [&](std::uint32_t number) { return insert_written_[number] <= c->owed; });
    if (first == c->inserts.end()) return false;
    c->inserts.erase(first);
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
    become_absent(c);
    return true;
  }

  // Whether each pending operation of `b` can be paired with a different one of `a` whose deadline is not
  // earlier.
  static bool outlasts(const Pending& a, const Pending& b) {
    if (a.size() < b.size()) return false;
    return std::ranges::equal(b, std::span(a).last(b.size()), std::less_equal());
  }

  // Whether configuration (search state) `a` can do all that `b` can, so that `b` may be discarded: `a` has
  // used no more node losses and operations with unknown outcome, it was absent later, and each pending
  // operation of `b` has a counterpart in `a` that is due no sooner. While the key is present, additional
  // pending PUTs of `a` do no harm, as they can be used at once. While the key is absent, the first pending
  // PUT of `a` must not be due sooner than that of `b`.
  static bool dominates(const Configuration& a, const Configuration& b) {
    if (a.present != b.present || a.removes.size() != b.removes.size()) return false;
    if (a.free_puts > b.free_puts || a.free_removes > b.free_removes || a.last_absent < b.last_absent ||
        a.last_present < b.last_present || a.owed < b.owed) {
      return false;
    }
    if (a.inserts.size() != b.inserts.size() || !outlasts(a.inserts, b.inserts)) return false;
    if ((~a.losses & b.losses) != 0) return false;
    if (!outlasts(a.puts, b.puts) || !outlasts(a.removes, b.removes)) return false;
    if (a.present || a.puts.empty()) return true;
    return !b.puts.empty() && a.puts.front() >= b.puts.front();
  }

  void remove_dominated() {
    if (next_.size() < 2) return;
    // Sorts configurations (search states) that are likely to dominate others to the front, so that most
    // dominated ones are discarded after few comparisons.
    const auto promise = [](const Configuration& c) {
      return std::tuple(c.present, c.removes.size(), ~c.puts.size(), c.free_puts, c.free_removes,
                        ~c.last_absent, ~c.last_present, ~c.owed, ~c.losses);
    };
    std::ranges::sort(
        next_, [&](const Configuration& a, const Configuration& b) { return promise(a) < promise(b); });
    std::size_t kept = 0;
    // index of the first kept configuration (search state) with the same `present` and the same number of
    // pending DELETEs as the one that is judged
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
  bool has_exists_ = false;  // whether some INSERT found the key present
  // the times in ns at which the PUTs and the INSERTs that have a deadline were invoked, each in the order of
  // the deadlines
  std::vector<Nanos> put_written_, insert_written_;
  std::uint32_t free_puts_ = 0;  // number of writes with unknown outcome that were invoked so far
  std::uint32_t free_removes_ = 0;
  Nanos at_ = 0;  // the time of the event that is judged
  std::vector<Configuration> now_;
  std::vector<Configuration> next_;
};

}  // namespace

Judgement search_gaps(const Zones& zones, const KeyRules& rules) { return GapSearch(zones, rules).run(); }

}  // namespace loch::check
