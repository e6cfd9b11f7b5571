// Fuzzes the history parser and the checker. Each line is either refused with a one-line error or is
// unchanged by writing and parsing it again. Parsed histories are judged without a crash, and the
// zone-based and the exact algorithm must agree.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/check.h"
#include "common/check/linearizable.h"

namespace {

using namespace loch::check;

constexpr std::size_t judged_max = 24;  // longer histories are not judged, because they slow the fuzzer down

void judge(const std::vector<Operation>& operations) {
  for (const Model model : {Model::linearizable, Model::lossy_cache}) {
    for (const bool strict : {true, false}) {
      const CheckOptions options{.model = model, .delete_ok_removes = strict, .search_limit = 2'000};
      const CheckReport report = check_operations(operations, options);
      LOCH_CHECK_EQ(report.operations, operations.size());
      LOCH_CHECK(report.failures.empty() == (report.verdict() == Verdict::holds));
      for (const KeyReport& failure : report.failures) LOCH_CHECK(!failure.reason.empty());
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto reader = HistoryReader::over("input", text);
  LOCH_CHECK(reader.has_value());
  std::vector<Operation> operations;
  for (;;) {
    const auto next = reader->next();
    if (!next) {
      LOCH_CHECK(next.error().message.starts_with("input:"), "{}", next.error().message);
      LOCH_CHECK(next.error().message.find('\n') == std::string::npos);
      break;
    }
    if (!next->has_value()) break;
    const Operation& operation = **next;
    const std::string line = to_line(view(operation));
    const auto again = parse_line(std::string_view(line).substr(0, line.size() - 1), "again", 1);
    LOCH_CHECK(again.has_value() && *again == operation);
    if (operations.size() < judged_max) operations.push_back(operation);
  }
  judge(operations);
  return 0;
}
