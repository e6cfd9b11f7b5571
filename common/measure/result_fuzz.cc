// Fuzzer: reads arbitrary bytes as the counts of one node that one process reports to another. They are
// either refused, or stay the same when written as JSON and read again; merging them neither crashes nor
// needs memory in proportion to the numbers in them.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "common/base/check.h"
#include "common/measure/result.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using loch::measure::node_part_from_json;
  const auto document = nlohmann::json::parse(data, data + size, nullptr, false);
  if (document.is_discarded()) return 0;
  const auto part = node_part_from_json(document);
  if (!part) {
    LOCH_CHECK(!part.error().message.empty());
    return 0;
  }
  const nlohmann::json written = to_json(*part);
  const auto again = node_part_from_json(written);
  LOCH_CHECK(again.has_value(), "{}", again.error().message);
  LOCH_CHECK(to_json(*again) == written);
  loch::measure::Tally sum;
  sum.merge(part->tally);
  LOCH_CHECK_EQ(sum.total(), part->tally.total());
  return 0;
}
