// Judges whole histories key by key and collects the verdicts.
#include "common/check/linearizable.h"

#include <fmt/format.h>

#include <filesystem>

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

namespace {

// Binary histories are judged in parts of about this many operations each. Each operation takes about 100
// bytes of memory, the names of values included.
constexpr std::uint64_t operations_at_a_time = 16'000'000;
// Least number of bytes of an operation in a binary history, unless its names are very short.
constexpr std::uint64_t binary_bytes_least = 16;

// Returns the number of parts into which the keys are divided, so that the operations on each part's keys fit
// into memory. Text histories have one part, because parsing the text once for each part would cost more than
// it saves. A file of unknown size counts as small.
std::uint32_t parts_of(const std::vector<std::string>& files) {
  std::uint64_t bytes = 0;
  for (const std::string& file : files) {
    std::error_code unknown;
    // A pipe can be read once only.
    if (!std::filesystem::is_regular_file(file, unknown)) return 1;
    const auto reader = HistoryReader::open(file);
    if (!reader) return 1;
    if (reader->format() == HistoryFormat::binary) bytes += std::filesystem::file_size(file, unknown);
  }
  return static_cast<std::uint32_t>(bytes / (operations_at_a_time * binary_bytes_least) + 1);
}

Result<> add_file(const std::string& file, std::uint32_t part, std::uint32_t parts, HistoryTable* table) {
  LOCH_ASSIGN(HistoryReader reader, HistoryReader::open(file));
  reader.select(part, parts);
  for (;;) {
    LOCH_ASSIGN(const OperationView* const operation, reader.advance());
    if (operation == nullptr) return {};
    table->add(*operation);
  }
}

// Adds the report of a part to `whole`. `repeated` of the part's operations are losses of nodes, which the
// report of an earlier part has counted.
void add_report(CheckReport part, std::uint64_t repeated, const CheckOptions& options, CheckReport* whole) {
  whole->operations += part.operations - repeated;
  whole->keys += part.keys;
  whole->violated_keys += part.violated_keys;
  whole->undecided_keys += part.undecided_keys;
  whole->corrupt_reads += part.corrupt_reads;
  for (KeyReport& failure : part.failures) {
    if (whole->failures.size() < options.report_limit) whole->failures.push_back(std::move(failure));
  }
}

}  // namespace

Result<CheckReport> check_history(const std::vector<std::string>& files, const CheckOptions& options) {
  return check_history(files, options, parts_of(files));
}

Result<CheckReport> check_history(const std::vector<std::string>& files, const CheckOptions& options,
                                  std::uint32_t parts) {
  CheckReport report;
  for (std::uint32_t part = 0; part < parts; ++part) {
    HistoryTable table;
    for (const std::string& file : files) LOCH_TRY(add_file(file, part, parts, &table));
    table.finish();
    add_report(judge_table(table, options), part == 0 ? 0 : table.losses(), options, &report);
  }
  if (report.operations == 0) {
    return fail(ErrorCode::invalid_argument, fmt::format("{}: expected at least one operation",
                                                         files.empty() ? "no history given" : files.front()));
  }
  return report;
}

}  // namespace loch::check
