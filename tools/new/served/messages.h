// The messages that clients and server workers WRITE into each other's request slots
// (common/rpc/write_channel.h).
//
//   request | value (PUT) | key | sequence | trailer |     GET, DELETE: K + 16 bytes; PUT: V + K + 16
//   reply   | value (GET) | trailer |                      V + 8 bytes, or 8 without a value
//
// V and K: the sizes of values and keys in bytes, each rounded up to a multiple of 8. The trailer is the
// message's last word; a receiver that polls waits for it.
#pragma once

#include "common/kv/protocol.h"
#include "common/rpc/write_channel.h"

namespace loch::newstore {

enum class Ask : std::uint8_t { get = 1, put, remove };
enum class Say : std::uint8_t { value = 1, done, not_found };

struct Messages {
  // sizes in bytes: key and value, each rounded up to a multiple of 8; and the part of a value that is kept
  // in memory, which may be smaller in a simulation
  std::uint32_t key = 0, value = 0, kept = 0;

  explicit Messages(const kv::DeployConfig& config)
      : key(rpc::round_up(config.key_size, 8)),
        value(rpc::round_up(config.value_size, 8)),
        kept(config.kept_value_bytes) {}

  [[nodiscard]] std::uint32_t request(Ask ask) const {
    return (ask == Ask::put ? value : 0) + key + rpc::request_tail_bytes;
  }
  [[nodiscard]] std::uint32_t reply(Say say) const {
    return (say == Say::value ? value : 0) + rpc::trailer_bytes;
  }
  [[nodiscard]] std::uint32_t key_at(std::uint32_t request_bytes) const {
    return request_bytes - rpc::request_tail_bytes - key;
  }
  [[nodiscard]] rpc::FrameSizes requests() const {
    return {0, request(Ask::get), request(Ask::put), request(Ask::remove)};
  }
  [[nodiscard]] rpc::FrameSizes replies() const {
    return {0, reply(Say::value), reply(Say::done), reply(Say::not_found)};
  }
};

}  // namespace loch::newstore
