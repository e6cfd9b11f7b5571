// Exact linearizability check of one key: tracks the set of all possible (value, operations in effect)
// states over time, up to a limit.
#include "common/check/exact_search.h"

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace loch::check {
namespace {

constexpr std::uint32_t absent_state = none;
constexpr std::uint32_t unread_state = none - 1;  // the key is present with a value that no GET reads
constexpr std::size_t open_max = 256;

// A set of open operations (invoked and not returned): bit i stands for the operation in open_[i].
class Slots {
 public:
  [[nodiscard]] bool has(std::size_t slot) const { return (words_[slot / 64] >> slot % 64 & 1) != 0; }
  void add(std::size_t slot) { words_[slot / 64] |= std::uint64_t{1} << slot % 64; }
  void remove(std::size_t slot) { words_[slot / 64] &= ~(std::uint64_t{1} << slot % 64); }
  friend auto operator<=>(const Slots&, const Slots&) = default;

 private:
  std::array<std::uint64_t, open_max / 64> words_{};
};

// The key's value, and the open operations that have taken effect.
struct Configuration {
  std::uint32_t value = absent_state;
  Slots done;
  friend auto operator<=>(const Configuration&, const Configuration&) = default;
};

struct Event {
  Nanos at = 0;
  bool returns = false;
  std::uint32_t operation = 0;
};

class ExactSearch {
 public:
  ExactSearch(std::span<const KeyOp> ops, const KeyRules& rules) : ops_(ops), rules_(rules) {
    open_.fill(none);
    count_values();
    for (std::uint32_t i = 0; i < ops.size(); ++i) {
      if (!matters(ops[i])) continue;
      events_.push_back({ops[i].invoke_ns, false, i});
      if (ops[i].outcome != Outcome::unknown || ops[i].kind == OpKind::lost)
        events_.push_back({ops[i].return_ns, true, i});
    }
    std::ranges::sort(events_, {}, [](const Event& e) { return std::tie(e.at, e.returns, e.operation); });
    if (rules.start != Start::present) now_.insert({absent_state, {}});
    if (rules.start != Start::absent) now_.insert({state_of(init_value), {}});
    if (rules.start == Start::any) now_.insert({unread_state, {}});
  }

  Judgement run() {
    for (const Event& event : events_) {
      if (!event.returns) {
        const auto slot = std::ranges::find(open_, none);
        if (slot == open_.end()) return gave_up(event.operation);
        *slot = event.operation;
        highest_ = std::max(highest_, static_cast<std::size_t>(slot - open_.begin()) + 1);
        continue;
      }
      const auto slot = static_cast<std::size_t>(std::ranges::find(open_, event.operation) - open_.begin());
      if (!satisfy(slot)) return gave_up(event.operation);
      open_[slot] = none;
      std::set<Configuration> kept;
      for (Configuration each : next_) {
        each.done.remove(slot);
        kept.insert(each);
      }
      if (kept.empty()) return {Verdict::violated, Contradiction::no_order, event.operation};
      now_ = std::move(kept);
    }
    return {};
  }

 private:
  // How many PUTs and INSERTs of the history write a value, and how many GETs that read it have not returned.
  struct Uses {
    std::uint32_t puts = 0;
    std::uint32_t reads = 0;  // GETs of the value that have not returned yet
  };

  static Judgement gave_up(std::uint32_t operation) {
    return {Verdict::undecided, Contradiction::gave_up, operation};
  }

  [[nodiscard]] bool matters(const KeyOp& op) const {
    if (op.outcome == Outcome::failed) return false;
    if (op.kind == OpKind::get && op.outcome == Outcome::unknown) return false;
    return !(rules_.model == Model::lossy_cache && op.outcome == Outcome::not_found);
  }

  [[nodiscard]] static bool is_read(const KeyOp& op) {
    return op.kind == OpKind::get && op.outcome == Outcome::ok;
  }
  // Whether the operation leaves the key unchanged and only requires that it is present or absent, or has a
  // certain value: a GET, or an operation that ended in not_found or exists.
  [[nodiscard]] static bool only_looks(const KeyOp& op) {
    return is_read(op) || op.outcome == Outcome::not_found || op.outcome == Outcome::exists;
  }

  void count_values() {
    std::uint32_t highest = init_value;
    for (const KeyOp& op : ops_) {
      if (op.kind != OpKind::lost && op.value != none) highest = std::max(highest, op.value);
    }
    uses_.resize(std::size_t{highest} + 1);
    uses_[init_value].puts = 1;
    for (const KeyOp& op : ops_) {
      if (!matters(op) || op.value == none || op.kind == OpKind::lost) continue;
      if (is_read(op)) ++uses_[op.value].reads;
      if (brings_value(op.kind) && op.outcome != Outcome::exists) ++uses_[op.value].puts;
    }
    for (const Uses& each : uses_) is_read_.push_back(each.reads > 0);
  }

  // All values that no GET reads are represented by one state, because nothing distinguishes them.
  [[nodiscard]] std::uint32_t state_of(std::uint32_t value) const {
    return is_read_[value] ? value : unread_state;
  }

  // Every open operation that leaves the key unchanged and is consistent with the key's state takes effect
  // now. Doing so at once is never worse than later, because the state does not change.
  void look(Configuration* c) const {
    for (std::size_t slot = 0; slot < highest_; ++slot) {
      if (open_[slot] == none || c->done.has(slot)) continue;
      const KeyOp& op = ops_[open_[slot]];
      if (!only_looks(op)) continue;
      const bool fits = is_read(op)                     ? c->value == op.value
                        : op.outcome == Outcome::exists ? c->value != absent_state
                                                        : c->value == absent_state;
      if (fits) c->done.add(slot);
    }
  }

  // Whether the key's value may be replaced: if only one PUT writes it, all GETs that read it must have taken
  // effect before.
  [[nodiscard]] bool may_go(const Configuration& c) const {
    if (c.value == absent_state || c.value == unread_state || uses_[c.value].puts > 1) return true;
    std::uint32_t found = 0;
    for (std::size_t slot = 0; slot < highest_; ++slot) {
      if (open_[slot] == none || !c.done.has(slot)) continue;
      const KeyOp& op = ops_[open_[slot]];
      found += is_read(op) && op.value == c.value ? 1 : 0;
    }
    return found == uses_[c.value].reads;
  }

  // Fills next_ with the configurations (states of the search) that can follow when the operation at place
  // `slot` of open_ returns: those reached by sequences of open operations that end with this operation.
  // Operations that could follow it can wait for the next return. Returns false if the search limit is
  // exceeded.
  bool satisfy(std::size_t slot) {
    const KeyOp& due = ops_[open_[slot]];
    next_.clear();
    std::set<Configuration> seen;
    std::vector<Configuration> todo;
    const auto reach = [&](Configuration c) {
      look(&c);
      const bool is_done = c.done.has(slot);
      if (is_done || due.kind == OpKind::lost) next_.insert(c);  // the lost node need not have held the key
      if (!is_done && seen.insert(c).second) todo.push_back(c);
      return seen.size() + next_.size() <= rules_.search_limit;
    };
    for (const Configuration& c : now_) {
      if (!reach(c)) return false;
    }
    while (!todo.empty()) {
      const Configuration from = todo.back();
      todo.pop_back();
      if (!may_go(from)) continue;
      for (const std::size_t move : moves(from)) {
        Configuration to = from;
        to.value = after(ops_[open_[move]]);
        to.done.add(move);
        if (!reach(to)) return false;
      }
    }
    if (is_read(due)) --uses_[due.value].reads;
    return true;
  }

  [[nodiscard]] std::uint32_t after(const KeyOp& op) const {
    return brings_value(op.kind) ? state_of(op.value) : absent_state;
  }

  // Whether to try the operation in this state. An operation that need not take effect (unknown outcome, or
  // `lost`) is tried only if its effect could serve another operation: not a removal of an absent key, and
  // not the replacement of a value by one that no GET reads.
  [[nodiscard]] bool may_take_effect(const KeyOp& op, bool is_absent) const {
    const bool is_linearizable = rules_.model == Model::linearizable;
    const bool is_free = op.outcome == Outcome::unknown || op.kind == OpKind::lost;
    if (op.kind == OpKind::insert_if_absent && is_linearizable) return is_absent;
    if (brings_value(op.kind)) return is_absent || !is_free || is_read_[op.value];
    if (is_free) return !is_absent;
    return !is_absent || !rules_.delete_ok_removes || !is_linearizable;
  }

  // The operations (by their places in open_) to try next. Of several operations of one kind whose values no
  // GET reads, only the one that returns first is tried: exchanging it with a later one leaves both within
  // their intervals.
  [[nodiscard]] std::vector<std::size_t> moves(const Configuration& from) const {
    std::vector<std::size_t> all;
    std::array<std::size_t, 2 * (op_kinds + 1)> soonest;
    soonest.fill(open_max);
    for (std::size_t slot = 0; slot < highest_; ++slot) {
      if (open_[slot] == none || from.done.has(slot)) continue;
      const KeyOp& op = ops_[open_[slot]];
      if (only_looks(op) || !may_take_effect(op, from.value == absent_state)) continue;
      if (brings_value(op.kind) && is_read_[op.value]) {
        all.push_back(slot);
        continue;
      }
      const bool is_unknown = op.outcome == Outcome::unknown;
      std::size_t& first = soonest[2 * static_cast<std::size_t>(op.kind) + (is_unknown ? 1 : 0)];
      const bool is_sooner = first == open_max || op.return_ns < ops_[open_[first]].return_ns;
      if (is_sooner) first = slot;
    }
    for (const std::size_t slot : soonest) {
      if (slot != open_max) all.push_back(slot);
    }
    return all;
  }

  std::span<const KeyOp> ops_;
  const KeyRules& rules_;
  std::vector<Event> events_;
  std::vector<Uses> uses_;     // indexed by value
  std::vector<bool> is_read_;  // indexed by value: whether any GET of the history reads it
  std::array<std::uint32_t, open_max> open_{};
  std::size_t highest_ = 0;  // places of open_ from this one on were never used
  std::set<Configuration> now_, next_;
};

}  // namespace

Judgement search_exactly(std::span<const KeyOp> operations, const KeyRules& rules) {
  return ExactSearch(operations, rules).run();
}

}  // namespace loch::check
