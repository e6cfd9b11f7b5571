// Fuzzer: reads arbitrary bytes as the timeline that one process reports to another. They are refused, or are
// the same after being written and read again; merging the timeline with itself doubles its counts and
// changes nothing else.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "common/base/check.h"
#include "common/measure/timeline.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using loch::measure::timeline_from_json;
  const auto document = nlohmann::json::parse(data, data + size, nullptr, false);
  if (document.is_discarded()) return 0;
  const auto timeline = timeline_from_json(document);
  if (!timeline) {
    LOCH_CHECK(!timeline.error().message.empty());
    return 0;
  }
  const nlohmann::json written = to_json(*timeline);
  LOCH_CHECK(written == document);
  loch::measure::Timeline sum = *timeline;
  sum.merge(*timeline);
  for (std::size_t i = 0; i < sum.bins().size(); ++i) {
    LOCH_CHECK_EQ(sum.bins()[i].completed(), 2 * timeline->bins()[i].completed());
    LOCH_CHECK_EQ(sum.bins()[i].latencies.size(), timeline->bins()[i].latencies.size());
  }
  LOCH_CHECK_EQ(bins_json(sum).size(), timeline->shape().bins());
  LOCH_CHECK_EQ(events_json(sum).size(), 2 * timeline->events().size());
  return 0;
}
