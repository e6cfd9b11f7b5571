// The address of a server: a TCP port or a Unix socket.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"

namespace loch::baselines {

struct Address {
  std::string host;  // name or IP address; empty for a Unix socket
  std::uint16_t port = 0;
  std::string path;  // path of the Unix socket
  [[nodiscard]] bool is_unix() const { return host.empty(); }
  [[nodiscard]] std::string text() const;
  friend bool operator==(const Address&, const Address&) = default;
};

// Parses a comma-separated list of "host:port", "[::1]:port" or "/path/of/a.sock"; empty text gives an empty
// list. `what` names the flag in errors, which are one line.
[[nodiscard]] Result<std::vector<Address>> parse_addresses(std::string_view text, std::string_view what);

// Connects and returns a non-blocking socket without Nagle's delay, which the caller has to close. `within`
// bounds the connecting in ns, but not the look-up of a host name.
[[nodiscard]] Result<int> connect_to(const Address& address, Nanos within);

// A TCP port of 127.0.0.1 that was free during this call; another program may take it afterwards.
[[nodiscard]] Result<std::uint16_t> free_port();

// CLOCK_MONOTONIC in ns, for set-up only; workers have their own clock.
[[nodiscard]] Nanos monotonic_now();

}  // namespace loch::baselines
