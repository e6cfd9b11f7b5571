// Any bytes as a YCSB property file: parsed or refused with one line, never more.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "workloads/spec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  loch::workloads::Properties properties;
  if (!loch::workloads::parse_properties(text, "input", properties)) return 0;
  const auto spec = loch::workloads::from_ycsb(properties);
  if (spec && !loch::workloads::check(*spec->mix)) std::abort();  // whatever is accepted can be run
  if (!spec && spec.error().message.empty()) std::abort();
  return 0;
}
