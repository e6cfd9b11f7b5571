// Exact linearizability check of one key: tracks the set of all possible (value, operations in effect)
// states over time, up to a limit.
#include "common/check/exact_search.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace loch::check {
namespace {

constexpr std::uint32_t absent_state = none;
// the key was present at the start with a value that no GET read
constexpr std::uint32_t unread_state = none - 1;
constexpr std::size_t open_max = 64;

// The key's value, and a bit mask over open_ of the open operations that have taken effect.
using Configuration = std::pair<std::uint32_t, std::uint64_t>;

struct Event {
  Nanos at = 0;
  bool returns = false;
  std::uint32_t operation = 0;
};

class ExactSearch {
 public:
  ExactSearch(std::span<const KeyOp> ops, const KeyRules& rules) : ops_(ops), rules_(rules) {
    open_.fill(none);
    for (std::uint32_t i = 0; i < ops.size(); ++i) {
      if (!matters(ops[i])) continue;
      events_.push_back({ops[i].invoke_ns, false, i});
      if (ops[i].outcome != Outcome::unknown || ops[i].kind == OpKind::lost)
        events_.push_back({ops[i].return_ns, true, i});
    }
    std::ranges::sort(events_, {}, [](const Event& e) { return std::tie(e.at, e.returns, e.operation); });
    if (rules.start != Start::present) now_.insert({absent_state, 0});
    if (rules.start != Start::absent) now_.insert({init_value, 0});
    if (rules.start == Start::any) now_.insert({unread_state, 0});
  }

  Judgement run() {
    for (const Event& event : events_) {
      if (!event.returns) {
        const auto slot = std::ranges::find(open_, none);
        if (slot == open_.end()) return {Verdict::undecided, Contradiction::gave_up, event.operation};
        *slot = event.operation;
        continue;
      }
      if (!close_over()) return {Verdict::undecided, Contradiction::gave_up, event.operation};
      const auto slot = static_cast<std::size_t>(std::ranges::find(open_, event.operation) - open_.begin());
      open_[slot] = none;
      std::set<Configuration> kept;
      for (const auto& [value, done] : now_) {
        const bool may_be_left_out = ops_[event.operation].kind == OpKind::lost;
        if (may_be_left_out || (done >> slot & 1) != 0) kept.insert({value, done & ~(1ULL << slot)});
      }
      if (kept.empty()) return {Verdict::violated, Contradiction::no_order, event.operation};
      now_ = std::move(kept);
    }
    return {};
  }

 private:
  [[nodiscard]] bool matters(const KeyOp& op) const {
    if (op.outcome == Outcome::failed) return false;
    if (op.kind == OpKind::get && op.outcome == Outcome::unknown) return false;
    return !(rules_.model == Model::lossy_cache && op.outcome == Outcome::not_found);
  }

  // Adds to now_ all configurations that are reachable when further open operations take effect, in any
  // order.
  bool close_over() {
    std::vector<Configuration> todo(now_.begin(), now_.end());
    while (!todo.empty()) {
      const auto [value, done] = todo.back();
      todo.pop_back();
      for (std::size_t slot = 0; slot < open_max; ++slot) {
        if (open_[slot] == none || (done >> slot & 1) != 0) continue;
        std::uint32_t next = value;
        if (!take_effect(ops_[open_[slot]], &next)) continue;
        const Configuration reached{next, done | 1ULL << slot};
        if (now_.insert(reached).second) todo.push_back(reached);
        if (now_.size() > rules_.search_limit) return false;
      }
    }
    return true;
  }

  // Returns whether the operation may take effect when the key holds `*value`; if so, sets `*value` to
  // the key's value afterwards.
  [[nodiscard]] bool take_effect(const KeyOp& op, std::uint32_t* value) const {
    if (op.outcome == Outcome::not_found) return *value == absent_state;
    if (op.kind == OpKind::get) return *value == op.value;
    if (op.kind == OpKind::lost) {
      *value = absent_state;
      return true;
    }
    if (op.kind == OpKind::put) {
      *value = op.value;
      return true;
    }
    const bool needs_value =
        op.outcome == Outcome::ok && rules_.delete_ok_removes && rules_.model == Model::linearizable;
    if (needs_value && *value == absent_state) return false;
    *value = absent_state;
    return true;
  }

  std::span<const KeyOp> ops_;
  const KeyRules& rules_;
  std::vector<Event> events_;
  std::array<std::uint32_t, open_max> open_{};
  std::set<Configuration> now_;
};

}  // namespace

Judgement search_exactly(std::span<const KeyOp> operations, const KeyRules& rules) {
  return ExactSearch(operations, rules).run();
}

}  // namespace loch::check
