// Computes a work request's bytes on the wire from a table, without a division.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "common/base/check.h"
#include "common/fabric/wire.h"
#include "common/fabric/work_request.h"

namespace loch::fabric {

// For each verb and transport: the bytes of a first packet, of each further packet and of an immediate. The
// table is filled by wire.h, the only place that describes packet headers.
class WireTable {
 public:
  WireTable(LinkFormat link, std::uint32_t mtu)
      : mtu_(mtu), shift_(static_cast<unsigned>(std::countr_zero(mtu))) {
    LOCH_CHECK(std::has_single_bit(mtu), "an MTU of {} bytes is no power of two", mtu);
    for (std::size_t verb = 0; verb < verbs; ++verb) {
      for (std::size_t transport = 0; transport < transports; ++transport)
        entries_[verb][transport] =
            measured(static_cast<Verb>(verb), static_cast<Transport>(transport), mtu, link);
    }
  }

  struct Bytes {
    std::uint64_t request, response;
  };
  [[nodiscard]] Bytes of(const WorkRequest& request) const {
    const Entry& entry =
        entries_[static_cast<std::size_t>(request.verb)][static_cast<std::size_t>(request.transport)];
    Bytes bytes{entry.request + (request.length & entry.request_payload),
                entry.response + (request.length & entry.response_payload)};
    if (request.has_immediate) bytes.request += entry.immediate;
    if (request.length > mtu_) [[unlikely]] {
      const std::uint64_t more = ((request.length - 1) >> shift_) - 1;  // packets beyond the second
      bytes.request += entry.second_request + more * entry.more_request;
      bytes.response += entry.second_response + more * entry.more_response;
    }
    return bytes;
  }

 private:
  static constexpr std::size_t verbs = 6, transports = 3;
  struct Entry {
    std::uint32_t request, response, second_request, second_response, more_request, more_response, immediate;
    // Masks: all bits of request_payload are set if the verb's payload travels in the request, all of
    // response_payload if it travels in the response, else none.
    std::uint32_t request_payload, response_payload;
  };

  [[nodiscard]] static Entry measured(Verb verb, Transport transport, std::uint32_t mtu, LinkFormat link) {
    const auto bytes = [&](std::uint64_t length, bool immediate) {
      return wire_bytes(verb, transport, length, mtu, link, immediate);
    };
    const WireBytes one = bytes(1, false), two = bytes(mtu + 1u, false), three = bytes(2 * mtu + 1u, false);
    const std::uint64_t up = verb == Verb::read || is_atomic(verb) ? 0 : 1, down = verb == Verb::read ? 1 : 0;
    Entry entry{};
    entry.request = static_cast<std::uint32_t>(one.request - up);
    entry.response = static_cast<std::uint32_t>(one.response - down);
    entry.second_request = static_cast<std::uint32_t>(two.request - one.request - up * mtu);
    entry.second_response = static_cast<std::uint32_t>(two.response - one.response - down * mtu);
    entry.more_request = static_cast<std::uint32_t>(three.request - two.request - up * mtu);
    entry.more_response = static_cast<std::uint32_t>(three.response - two.response - down * mtu);
    entry.immediate = static_cast<std::uint32_t>(bytes(1, true).request - one.request);
    entry.request_payload = up != 0 ? ~0U : 0U;
    entry.response_payload = down != 0 ? ~0U : 0U;
    return entry;
  }

  std::uint32_t mtu_;
  unsigned shift_;
  std::array<std::array<Entry, transports>, verbs> entries_{};
};

}  // namespace loch::fabric
