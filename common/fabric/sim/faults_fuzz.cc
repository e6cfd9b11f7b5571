// Fuzzer: reads arbitrary bytes as a faults file, which is refused in one line that names the file, or
// accepted with every value in its range.
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/check.h"
#include "common/fabric/sim/faults.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto read = loch::fabric::sim::parse_faults(text, "input");
  if (!read) {
    const std::string& said = read.error().message;
    LOCH_CHECK(said.starts_with("input:"), "{}", said);
    return 0;
  }
  for (const double share : {read->torn_read, read->torn_write, read->late_write, read->uc_loss,
                             read->ud_loss, read->rc_loss, read->rnr, read->slow_dma}) {
    LOCH_CHECK(share >= 0 && share <= 1);
  }
  LOCH_CHECK(read->torn_chunks >= 2 && read->torn_chunks <= 8);
  for (const auto& failure : read->schedule) LOCH_CHECK(failure.at >= 0 && failure.span >= 0);
  return 0;
}
