// Names of the verbs interface: transports, operations, and the status of a completion.
#pragma once

#include <cstdint>
#include <string_view>

namespace loch::fabric {

enum class Transport : std::uint8_t { rc, uc, ud };
enum class Verb : std::uint8_t { read, write, cas, faa, send, recv };
enum class AtomicScope : std::uint8_t { none, nic, global };

// Whether the verb is compare-and-swap or fetch-and-add. Both access 8 bytes at an address that is a multiple
// of 8, and only RC has them.
[[nodiscard]] constexpr bool is_atomic(Verb verb) { return verb == Verb::cas || verb == Verb::faa; }

[[nodiscard]] std::string_view name(Transport transport);
[[nodiscard]] std::string_view name(Verb verb);

// The status of a work completion. After any status but success, an RC queue pair is in the error state until
// Worker::reconnect.
enum class WcStatus : std::uint8_t {
  success,
  // An earlier request on the connection has failed; this request is not executed after that failure.
  flushed,
  retry_exceeded,  // the peer did not answer; the request MAY have executed
  rnr_exceeded,    // the peer had no receive buffer
  remote_access,   // bad rkey, range or rights: not executed
  local_error,     // bad local buffer or a full queue: not executed
};
[[nodiscard]] std::string_view name(WcStatus status);

}  // namespace loch::fabric
