// A message that a worker received by SEND.
#pragma once

#include <cstdint>

#include "common/fabric/region.h"

namespace loch::fabric {

// A received message. Its buffer is no longer posted: it belongs to the protocol again.
struct Received {
  enum class Outcome : std::uint8_t { message, timed_out, stopping };
  Outcome outcome = Outcome::message;
  NodeId from = 0;
  std::uint16_t from_worker = 0;
  std::uint32_t length = 0;
  bool has_immediate = false;
  std::uint32_t immediate = 0;
  LocalSlice buffer;  // the number that was given when the buffer was posted; UD: the payload starts 40 bytes
                      // in (the GRH)
  std::uint64_t user = 0;  // the `user` value of the posted RECV
};

}  // namespace loch::fabric
