// A message that was sent to a worker by SEND, as the worker receives it.
#pragma once

#include <cstdint>

#include "common/fabric/region.h"

namespace loch::fabric {

// A received message. Its buffer has left the receive queue, and belongs to the protocol again.
struct Received {
  enum class Outcome : std::uint8_t { message, timed_out, stopping };
  Outcome outcome = Outcome::message;
  NodeId from = 0;
  std::uint16_t from_worker = 0;
  std::uint32_t length = 0;
  bool has_immediate = false;
  std::uint32_t immediate = 0;
  // the receive buffer as it was posted; over UD the payload begins behind a GRH of 40 bytes
  LocalSlice buffer;
  std::uint64_t user = 0;  // the `user` value of the posted RECV
};

}  // namespace loch::fabric
