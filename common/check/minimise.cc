// Removes operations from a violating history of one key for as long as the remaining ones still violate.
#include "common/check/minimise.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace loch::check {
namespace {

// Whether an operation of the history is kept, kept with an unknown outcome, or removed.
enum class Weight : std::uint8_t { full, weakened, removed };

// Whether the operation's result shows that it left the key unchanged.
bool only_looked(const KeyOp& op) {
  return op.kind == OpKind::get || op.outcome == Outcome::not_found || op.outcome == Outcome::exists;
}

class Minimiser {
 public:
  Minimiser(std::span<const KeyOp> operations, const KeyRules& rules)
      : ops_(operations.begin(), operations.end()), rules_(rules) {}

  Minimal run() {
    std::ranges::sort(ops_, {},
                      [](const KeyOp& op) { return std::tie(op.invoke_ns, op.return_ns, op.client); });
    cut_end();
    cut_beginning();
    weights_.assign(ops_.size(), Weight::full);
    // Weaken GETs first: an acknowledged PUT in the result tells a reader more than a GET of its value.
    for (const bool reads : {true, false, true}) {
      for (std::size_t group = std::max<std::size_t>(ops_.size() / 2, 1); group > 0; group /= 2) {
        while (pass(group, reads) && group == 1) {
        }
      }
    }
    Minimal minimal;
    minimal.start = rules_.start;
    minimal.judged = build();
    minimal.judgement = judge_key(minimal.judged, rules_);
    show_puts_of_reads();
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (weights_[i] == Weight::full) minimal.operations.push_back(ops_[i]);
    }
    return minimal;
  }

 private:
  [[nodiscard]] bool violates(const std::vector<KeyOp>& operations, Start start) const {
    KeyRules rules = rules_;
    rules.start = start;
    return judge_key(operations, rules).verdict == Verdict::violated;
  }

  // The history as known at time `end`, without later results. A PUT that was invoked later is kept if a
  // GET had read its value before, because that is the contradiction.
  [[nodiscard]] std::vector<KeyOp> until(Nanos end) const {
    std::set<std::uint32_t> read;
    for (const KeyOp& op : ops_) {
      if (op.kind == OpKind::get && op.outcome == Outcome::ok && op.return_ns <= end) read.insert(op.value);
    }
    std::vector<KeyOp> kept;
    for (KeyOp op : ops_) {
      if (op.invoke_ns > end && !(brings_value(op.kind) && read.contains(op.value))) continue;
      if (op.return_ns > end && op.kind != OpKind::lost) {
        if (only_looked(op)) continue;
        if (op.outcome == Outcome::ok) op.outcome = Outcome::unknown;
      }
      kept.push_back(op);
    }
    return kept;
  }

  void cut_end() {
    std::vector<Nanos> ends;
    for (const KeyOp& op : ops_) {
      if (op.return_ns != forever) ends.push_back(op.return_ns);
    }
    std::ranges::sort(ends);
    const auto first =
        std::ranges::partition_point(ends, [this](Nanos end) { return !violates(until(end), rules_.start); });
    if (first != ends.end()) ops_ = until(*first);
  }

  // The history from time `begin` on, without knowledge of the key's value at `begin`. Operations under
  // way at `begin` may have taken effect before; an older PUT is kept only if its value is read later.
  [[nodiscard]] std::vector<KeyOp> since(Nanos begin) const {
    std::set<std::uint32_t> read_later;
    for (const KeyOp& op : ops_) {
      if (op.kind == OpKind::get && op.outcome == Outcome::ok && op.invoke_ns > begin)
        read_later.insert(op.value);
    }
    std::vector<KeyOp> kept;
    for (KeyOp op : ops_) {
      if (op.invoke_ns <= begin) {
        const bool over = op.outcome == Outcome::ok && op.return_ns <= begin;
        if (only_looked(op)) continue;
        if (over && !(brings_value(op.kind) && read_later.contains(op.value))) continue;
        // An INSERT that returned before `begin` becomes a PUT, because the operation that had made the key
        // absent for it may be cut off.
        if (over && op.kind == OpKind::insert_if_absent) op.kind = OpKind::put;
        if (!over && op.outcome == Outcome::ok) op.outcome = Outcome::unknown;
      }
      kept.push_back(op);
    }
    return kept;
  }

  void cut_beginning() {
    std::vector<Nanos> begins;
    begins.reserve(ops_.size());
    for (const KeyOp& op : ops_) begins.push_back(op.invoke_ns);
    std::ranges::sort(begins);
    const auto last = std::ranges::partition_point(
        begins, [this](Nanos begin) { return violates(since(begin - 1), Start::any); });
    if (last == begins.begin()) return;
    ops_ = since(*(last - 1) - 1);
    rules_.start = Start::any;
  }

  [[nodiscard]] std::vector<KeyOp> build() const {
    std::vector<KeyOp> built;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (weights_[i] == Weight::removed) continue;
      built.push_back(ops_[i]);
      if (weights_[i] == Weight::weakened) built.back().outcome = Outcome::unknown;
    }
    return built;
  }

  // Weakens operation `i`: a GET is removed, a write gets an unknown outcome. A loss or a failed PUT stays as
  // it is, because removing it could make the history look worse than it is.
  void weaken(std::size_t i) {
    const KeyOp& op = ops_[i];
    if (op.kind == OpKind::lost) return;  // removing a loss, which excuses absences, could create a violation
    const bool wrote = !only_looked(op);
    if (op.outcome == Outcome::failed) {
      // A failed PUT stays, because a GET of its value would look corrupt without it; a failed DELETE is
      // removed.
      if (op.kind == OpKind::remove) weights_[i] = Weight::removed;
    } else {
      weights_[i] = wrote ? Weight::weakened : Weight::removed;
    }
  }

  // Tries to weaken the GETs (if `reads`) or else the writes, in groups of `group` operations; returns
  // whether any group could be weakened.
  bool pass(std::size_t group, bool reads) {
    bool progress = false;
    for (std::size_t from = 0; from < ops_.size(); from += group) {
      const std::vector<Weight> before = weights_;
      for (std::size_t i = from; i < std::min(from + group, ops_.size()); ++i) {
        if (weights_[i] == Weight::full && (ops_[i].kind == OpKind::get) == reads) weaken(i);
      }
      if (weights_ == before) continue;
      if (violates(build(), rules_.start)) {
        progress = true;
      } else {
        weights_ = before;
      }
    }
    return progress;
  }

  // Adds each PUT or INSERT whose value a reported GET returns to the reported operations, even if the
  // contradiction does not depend on its acknowledgement.
  void show_puts_of_reads() {
    std::set<std::uint32_t> read;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (weights_[i] == Weight::full && ops_[i].kind == OpKind::get) read.insert(ops_[i].value);
    }
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (brings_value(ops_[i].kind) && read.contains(ops_[i].value)) weights_[i] = Weight::full;
    }
  }

  std::vector<KeyOp> ops_;
  KeyRules rules_;
  std::vector<Weight> weights_;
};

}  // namespace

Minimal minimise(std::span<const KeyOp> operations, const KeyRules& rules) {
  return Minimiser(operations, rules).run();
}

}  // namespace loch::check
