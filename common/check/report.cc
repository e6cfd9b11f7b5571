// Prints the verdict of a check and the operations that contradict each other.
#include <fmt/format.h>

#include <ostream>

#include "common/check/linearizable.h"

namespace loch::check {
namespace {

// Formats one operation as a row: interval, client, kind, value and outcome.
std::string row(const Operation& o) {
  const std::string until = o.return_ns ? fmt::format("{}", *o.return_ns) : "never";
  std::string what;
  switch (o.kind) {
    case OpKind::get:
      what = o.value ? fmt::format("GET    -> {}", *o.value) : fmt::format("GET    -> {}", name(o.outcome));
      break;
    case OpKind::put:
      what = fmt::format("PUT {} -> {}", o.value.value_or(""), name(o.outcome));
      break;
    case OpKind::insert_if_absent:
      what = fmt::format("INSERT {} -> {}", o.value.value_or(""), name(o.outcome));
      break;
    case OpKind::remove:
      what = fmt::format("DELETE -> {}", name(o.outcome));
      break;
    case OpKind::lost:
      what = "LOST (a node was declared lost)";
      break;
  }
  return fmt::format("    {:>14} .. {:<14} client {:<5} {}", o.invoke_ns, until, o.client, what);
}

std::string counted(std::uint64_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

void print_failure(const KeyReport& report, std::ostream& out) {
  out << fmt::format("key {}: {} ({})\n  why: {}\n", report.key, name(report.verdict),
                     counted(report.operations, "operation"), report.reason);
  if (report.sub_history.empty()) return;
  out << fmt::format("  the smallest sub-history found, {} (times in ns):\n",
                     counted(report.sub_history.size(), "operation"));
  for (const Operation& operation : report.sub_history) out << row(operation) << '\n';
}

}  // namespace

void print_report(const CheckReport& report, const CheckOptions& options, std::ostream& out) {
  out << fmt::format("{}: {}: {} on {}", name(options.model),
                     options.model == Model::none ? std::string_view("not judged") : name(report.verdict()),
                     counted(report.operations, "operation"), counted(report.keys, "key"));
  if (report.violated_keys > 0) out << fmt::format(", {} violated", report.violated_keys);
  if (report.undecided_keys > 0) out << fmt::format(", {} undecided", report.undecided_keys);
  if (options.model != Model::none) out << fmt::format(", corrupt reads {}", report.corrupt_reads);
  out << '\n';
  for (const KeyReport& failure : report.failures) print_failure(failure, out);
  const std::uint64_t shown = report.failures.size();
  const std::uint64_t failed = report.violated_keys + report.undecided_keys;
  if (failed > shown) out << fmt::format("… and {} not shown\n", counted(failed - shown, "more key"));
}

Result<> print_history(const std::vector<std::string>& files, std::ostream& out) {
  std::string lines;
  for (const std::string& file : files) {
    LOCH_ASSIGN(HistoryReader reader, HistoryReader::open(file));
    for (;;) {
      LOCH_ASSIGN(const OperationView* const operation, reader.advance());
      if (operation == nullptr) break;
      lines.clear();
      append_line(*operation, lines);
      out << lines;
    }
  }
  out.flush();
  if (!out) return fail(ErrorCode::unavailable, "standard output: cannot write");
  return {};
}

int run_check(const std::vector<std::string>& files, const CheckOptions& options, std::ostream& out,
              std::ostream& err) {
  const auto report = check_history(files, options);
  if (!report) {
    err << report.error().message << '\n';
    return 2;
  }
  print_report(*report, options, out);
  switch (report->verdict()) {
    case Verdict::holds:
      return 0;
    case Verdict::violated:
      return 1;
    case Verdict::undecided:
      break;
  }
  return 2;
}

}  // namespace loch::check
