// Fuzzes the reader of replay files: any bytes are refused with an error of one line that names the file, or
// survive being written and read again unchanged.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "app/fuzz/replay.h"
#include "common/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto replay = loch::fuzz::parse_replay(text, "input");
  if (!replay) {
    LOCH_CHECK(replay.error().message.starts_with("input:"), "{}", replay.error().message);
    LOCH_CHECK(replay.error().message.find('\n') == std::string::npos);
    return 0;
  }
  const std::string written = loch::fuzz::to_text(*replay);
  const auto again = loch::fuzz::parse_replay(written, "again");
  LOCH_CHECK(again.has_value(), "{}", again.error().message);
  LOCH_CHECK_EQ(loch::fuzz::to_text(*again), written);
  return 0;
}
