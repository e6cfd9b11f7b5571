// Fuzzes the parsers of the two text protocols and of addresses: they end on any input, and every position
// that they return lies within the input.
#include <cstdint>
#include <string_view>

#include "baselines/address.h"
#include "baselines/text.h"
#include "common/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace loch::baselines;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const System system : {System::memcached, System::redis}) {
    ParsedRequest request;
    if (parse_request(system, text, request)) {
      LOCH_CHECK_LE(request.value_at, size);
      LOCH_CHECK_LE(request.key_text.size(), size);
    }
    for (const loch::OpKind op : loch::client_kinds) {
      ParsedReply reply;
      if (parse_reply(system, op, text, reply)) LOCH_CHECK_LE(reply.value_at, size);
    }
  }
  if (const auto addresses = parse_addresses(text, "--x")) {
    for (const Address& each : *addresses) {
      const auto again = parse_addresses(each.text(), "--x");
      LOCH_CHECK(again && again->size() == 1 && again->front() == each, "{} is not read back", each.text());
    }
  }
  return 0;
}
