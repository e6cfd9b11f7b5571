// Fuzzes the reader of YAML workload files: any bytes are parsed, or refused with an error of one line.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "workloads/spec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto spec = loch::workloads::from_yaml({reinterpret_cast<const char*>(data), size}, "input");
  if (spec && spec->mix && !loch::workloads::check(*spec->mix)) std::abort();
  if (!spec && spec.error().message.empty()) std::abort();
  return 0;
}
