// Where a server listens: a TCP port, or a Unix socket.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"

namespace loch::baselines {

struct Address {
  std::string host;  // name or number; empty: a Unix socket
  std::uint16_t port = 0;
  std::string path;  // of the Unix socket
  [[nodiscard]] bool is_unix() const { return host.empty(); }
  [[nodiscard]] std::string text() const;
  friend bool operator==(const Address&, const Address&) = default;
};

// "host:port", "[::1]:port" or "/path/of/a.sock"; separated by commas. `what` names the flag for errors;
// a bad list is one line. Empty text: an empty list.
[[nodiscard]] Result<std::vector<Address>> parse_addresses(std::string_view text, std::string_view what);

// A connected socket, not blocking, without Nagle's delay. The caller closes it. `within` bounds the
// connecting; a host name is looked up without a bound of ours.
[[nodiscard]] Result<int> connect_to(const Address& address, Nanos within);

// A port of 127.0.0.1 that was free a moment ago.
[[nodiscard]] Result<std::uint16_t> free_port();

// Nanoseconds of CLOCK_MONOTONIC; for set-up only, workers have their own clock.
[[nodiscard]] Nanos monotonic_now();

}  // namespace loch::baselines
