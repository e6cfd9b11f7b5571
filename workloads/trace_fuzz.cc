// Fuzzes the trace reader: any bytes, the first of which chooses the format, are read or refused with an
// error of one line that names the place; a trace that was read is checked for consistency.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "workloads/trace.h"

namespace {

void demand(bool is_right) {
  if (!is_right) std::abort();
}

void look_at(const loch::workloads::Trace& trace) {
  demand(!trace.events().empty() && trace.preloaded() <= trace.keys());
  demand(trace.keys() <= trace.events().size());
  demand(trace.sizes()->value_least >= 1 && trace.sizes()->value_least <= trace.value_most());
  loch::Nanos before = 0;
  for (const loch::workloads::TraceEvent& event : trace.events()) {
    demand(event.at >= before && event.at <= trace.span());
    demand(event.record < trace.keys());
    demand(loch::brings_value(event.kind()) == (event.value_bytes > 0));
    demand(event.value_bytes <= trace.value_most());
    before = event.at;
  }
  const auto& keys = trace.sizes()->key_bytes;
  demand(keys.empty() || keys.size() == trace.keys());
  for (const std::uint32_t bytes : keys) demand(bytes >= 8 && bytes <= trace.key_most());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::uint8_t choice = data[0];
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  loch::workloads::TraceRequest request;
  request.file = "input";
  request.format = static_cast<loch::workloads::TraceFormat>(choice % 3);
  request.preload = static_cast<loch::workloads::TracePreload>(choice / 3 % 3);
  request.operations = 100'000;  // bound, because a single line may stand for any number of operations
  loch::workloads::TraceBuilder builder(request);
  while (!text.empty() && !builder.is_full()) {
    const std::size_t end = text.find('\n');
    const auto added = builder.add(text.substr(0, end));
    if (!added) {
      demand(added.error().message.starts_with("input:"));
      demand(added.error().message.find('\n') == std::string::npos);
      return 0;
    }
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  const auto trace = builder.finish();
  if (!trace) {
    demand(trace.error().message.starts_with("input: "));
    return 0;
  }
  look_at(**trace);
  return 0;
}
