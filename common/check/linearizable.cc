// Judges whole histories key by key and collects the verdicts.
#include "common/check/linearizable.h"

#include <fmt/format.h>

#include "common/check/history_table.h"
#include "common/check/key_history.h"
#include "common/check/minimise.h"

namespace loch::check {
namespace {

Start start_of(Initial initial) {
  switch (initial) {
    case Initial::absent:
      return Start::absent;
    case Initial::present:
      return Start::present;
    case Initial::any:
      break;
  }
  return Start::any;
}

// Formats a Judgement as one line of text for the report.
class Explanation {
 public:
  Explanation(const HistoryTable& table, std::uint32_t key, std::span<const KeyOp> ops,
              const Judgement& judgement)
      : table_(table), key_(key), ops_(ops), j_(judgement) {}

  [[nodiscard]] std::string line() const {
    switch (j_.why) {
      case Contradiction::none:
        break;
      case Contradiction::corrupt_read:
        return fmt::format("{}: no PUT of this key wrote that value", op(j_.first));
      case Contradiction::failed_read:
        return fmt::format("{}: the value of a failed {}", op(j_.first), op(j_.second));
      case Contradiction::read_before_put:
        return fmt::format("{} before {} began", op(j_.first), op(j_.second));
      case Contradiction::two_values_at_once:
        return fmt::format("{} and {} prove one value; {} and {} another at the same time", op(j_.first),
                           op(j_.second), op(j_.third), op(j_.fourth));
      case Contradiction::within_other_value:
        return fmt::format("{} lies wholly within the time in which {} and {} prove another value",
                           op(j_.first), op(j_.third), op(j_.fourth));
      case Contradiction::absent_in_value:
        return fmt::format("{} lies wholly within the time in which {} and {} prove a value", op(j_.first),
                           op(j_.third), op(j_.fourth));
      case Contradiction::no_order:
        return fmt::format("{}: no order of the operations explains this answer", op(j_.first));
      case Contradiction::gave_up:
        return "too many orders to try: undecided";
    }
    return {};
  }

 private:
  [[nodiscard]] std::string op(std::uint32_t index) const {
    if (index == none) return "the preload";
    const Operation o = table_.restore(key_, ops_[index]);
    const std::string until = o.return_ns ? fmt::format("{}", *o.return_ns) : "?";
    const std::string when = fmt::format("(client {}, {}..{} ns)", o.client, o.invoke_ns, until);
    switch (o.kind) {
      case OpKind::put:
        return fmt::format("PUT {} {}", o.value.value_or(""), when);
      case OpKind::insert_if_absent:
        return fmt::format("INSERT {} {} {}", o.value.value_or(""), name(o.outcome), when);
      case OpKind::remove:
        return fmt::format("DELETE {} {}", name(o.outcome), when);
      case OpKind::lost:
        return fmt::format("the loss of node {} {}", o.key, when);
      case OpKind::get:
        break;
    }
    return o.value ? fmt::format("GET {} {}", *o.value, when)
                   : fmt::format("GET {} {}", name(o.outcome), when);
  }

  const HistoryTable& table_;
  std::uint32_t key_;
  std::span<const KeyOp> ops_;
  const Judgement& j_;
};

KeyReport report_key(const HistoryTable& table, const KeyHistory& history, const KeyRules& rules,
                     const Judgement& judgement, bool reduce) {
  KeyReport report;
  report.key = table.key_name(history.key);
  report.verdict = judgement.verdict;
  report.operations = history.operations.size();
  if (!reduce || judgement.verdict != Verdict::violated) {
    report.reason = Explanation(table, history.key, history.operations, judgement).line();
    return report;
  }
  const Minimal minimal = minimise(history.operations, rules);
  report.reason = Explanation(table, history.key, minimal.judged, minimal.judgement).line();
  for (const KeyOp& op : minimal.operations) report.sub_history.push_back(table.restore(history.key, op));
  return report;
}

CheckReport judge_table(const HistoryTable& table, const CheckOptions& options) {
  CheckReport report;
  report.operations = table.operations();
  report.keys = table.keys();
  if (options.model == Model::none) return report;
  for (std::uint32_t key = 0; key < table.keys(); ++key) {
    const KeyHistory history = table.key_history(key, start_of(options.initial));
    const KeyRules rules{options.model, history.start, options.delete_ok_removes, options.search_limit};
    const Judgement judgement = judge_key(history.operations, rules);
    report.corrupt_reads += judgement.corrupt_reads;
    if (judgement.verdict == Verdict::holds) continue;
    ++(judgement.verdict == Verdict::violated ? report.violated_keys : report.undecided_keys);
    if (report.failures.size() < options.report_limit) {
      report.failures.push_back(report_key(table, history, rules, judgement, options.minimise));
    }
  }
  return report;
}

}  // namespace

std::string_view name(Model model) {
  switch (model) {
    case Model::linearizable:
      return "linearizable";
    case Model::lossy_cache:
      return "lossy-cache";
    case Model::none:
      return "none";
  }
  return "?";
}

Result<Model> parse_model(std::string_view text) {
  for (const Model model : {Model::linearizable, Model::lossy_cache, Model::none}) {
    if (text == name(model)) return model;
  }
  return fail(ErrorCode::invalid_argument,
              fmt::format("--model {}: expected linearizable, lossy-cache or none", text));
}

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::holds:
      return "holds";
    case Verdict::violated:
      return "violated";
    case Verdict::undecided:
      return "undecided";
  }
  return "?";
}

Verdict CheckReport::verdict() const {
  if (violated_keys > 0) return Verdict::violated;
  return undecided_keys > 0 ? Verdict::undecided : Verdict::holds;
}

CheckReport check_operations(std::span<const Operation> operations, const CheckOptions& options) {
  HistoryTable table;
  for (const Operation& operation : operations) table.add(view(operation));
  table.finish();
  return judge_table(table, options);
}

Result<CheckReport> check_history(const std::vector<std::string>& files, const CheckOptions& options) {
  HistoryTable table;
  for (const std::string& file : files) {
    LOCH_ASSIGN(HistoryReader reader, HistoryReader::open(file));
    for (;;) {
      LOCH_ASSIGN(const std::optional<Operation> operation, reader.next());
      if (!operation) break;
      table.add(view(*operation));
    }
  }
  if (table.operations() == 0) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: expected at least one operation, one JSON object a line",
                            files.empty() ? "no history given" : files.front()));
  }
  table.finish();
  return judge_table(table, options);
}

}  // namespace loch::check
