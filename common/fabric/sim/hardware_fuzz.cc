// Fuzzer: reads arbitrary bytes as a hardware profile, which is refused in one line that names the file, or
// accepted with every value in its range.
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/check.h"
#include "common/fabric/sim/hardware.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto read = loch::fabric::sim::parse_hardware(text, "input");
  if (!read) {
    const std::string& said = read.error().message;
    LOCH_CHECK(said.starts_with("input:"), "{}", said);
    return 0;
  }
  LOCH_CHECK(!read->name.empty());
  LOCH_CHECK(read->cpu.cores >= 1);
  return 0;
}
