// Fuzzes the reader of YCSB property files: any bytes are parsed, or refused with an error of one line.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "workloads/spec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  loch::workloads::Properties properties;
  if (!loch::workloads::parse_properties(text, "input", properties)) return 0;
  const auto spec = loch::workloads::from_ycsb(properties);
  // An operation mix that the parser accepts has to be valid.
  if (spec && !loch::workloads::check(*spec->mix)) std::abort();
  if (!spec && spec.error().message.empty()) std::abort();
  return 0;
}
