// Judges whole histories key by key and collects the verdicts.
#include "common/check/linearizable.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <optional>
#include <thread>

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
  Explanation(const HistoryTable& table, const KeyHistory& history, std::span<const KeyOp> ops,
              const Judgement& judgement)
      : table_(table), history_(history), ops_(ops), j_(judgement) {}

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
    const Operation o = table_.restore(history_, ops_[index]);
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
  const KeyHistory& history_;
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
    report.reason = Explanation(table, history, history.operations, judgement).line();
    return report;
  }
  const Minimal minimal = minimise(history.operations, rules);
  report.reason = Explanation(table, history, minimal.judged, minimal.judgement).line();
  for (const KeyOp& op : minimal.operations) report.sub_history.push_back(table.restore(history, op));
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

// Of a binary history, about this many operations are in memory at once, in all parts that are being judged.
// Each takes 36 bytes.
constexpr std::uint64_t operations_at_a_time = 32'000'000;
// Largest number of parts that are judged at the same time; each reads the file.
constexpr std::uint32_t threads_most = 8;
// Least number of bytes of a history that is judged in several parts on several cores.
constexpr std::uint64_t bytes_for_threads = 16 << 20;
// Least number of bytes of an operation in a binary history, unless its names are very short.
constexpr std::uint64_t binary_bytes_least = 16;

std::uint32_t threads_of(std::uint32_t parts) {
  return std::min({std::max(std::thread::hardware_concurrency(), 1U), threads_most, parts});
}

// Returns the number of parts into which the keys are divided, so that the operations on the keys of those
// parts that are judged at once fit into memory, and that all cores have a part if the history is large. Text
// histories have one part, because parsing the text once for each part would cost more than it saves. A file
// of unknown size counts as small.
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
  const std::uint32_t threads = threads_of(threads_most);
  if (bytes < bytes_for_threads) return 1;
  return static_cast<std::uint32_t>(bytes * threads / (operations_at_a_time * binary_bytes_least)) + threads;
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

namespace {

struct PartReport {
  CheckReport report;
  std::uint64_t losses = 0;  // operations that every part has
};

Result<PartReport> judge_part(const std::vector<std::string>& files, const CheckOptions& options,
                              std::uint32_t part, std::uint32_t parts) {
  HistoryTable table;
  for (const std::string& file : files) LOCH_TRY(add_file(file, part, parts, &table));
  table.finish();
  return PartReport{judge_table(table, options), table.losses()};
}

// Judges all parts on `threads` threads; the parts behind one that cannot be read may be missing.
std::vector<std::optional<Result<PartReport>>> judge_parts(const std::vector<std::string>& files,
                                                           const CheckOptions& options, std::uint32_t parts,
                                                           std::uint32_t threads) {
  std::vector<std::optional<Result<PartReport>>> reports(parts);
  std::atomic<std::uint32_t> next = 0;
  const auto judge = [&] {
    for (std::uint32_t part = next++; part < parts; part = next++) {
      reports[part] = judge_part(files, options, part, parts);
      if (!*reports[part]) next = parts;
    }
  };
  std::vector<std::jthread> others;
  for (std::uint32_t i = 1; i < threads; ++i) others.emplace_back(judge);
  judge();
  others.clear();  // waits for them
  return reports;
}

}  // namespace

Result<CheckReport> check_history(const std::vector<std::string>& files, const CheckOptions& options,
                                  std::uint32_t parts) {
  CheckReport report;
  const auto reports = judge_parts(files, options, parts, threads_of(parts));
  for (const auto& part : reports) {
    if (part && !*part) return std::unexpected(part->error());
  }
  for (std::uint32_t part = 0; part < parts; ++part) {
    const PartReport& own = reports[part]->value();
    add_report(own.report, part == 0 ? 0 : own.losses, options, &report);
  }
  if (report.operations == 0) {
    return fail(ErrorCode::invalid_argument, fmt::format("{}: expected at least one operation",
                                                         files.empty() ? "no history given" : files.front()));
  }
  return report;
}

}  // namespace loch::check
