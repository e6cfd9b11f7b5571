// The frame of a message that a peer WRITEs into a slot, by which the receiver tells that the message has
// arrived.
//
//   frame     | body                                   | trailer |
//   trailer   0          16        20     24           64
//             | sequence | attempt | code | check      |
//
// The trailer is the frame's last word and never 0. If the fabric places bytes in address order, a frame has
// arrived when its trailer has: Arrival::by_trailer. Otherwise the trailer may be placed before the body
// (fabric.h, rule 1); then `check` has the low 40 bits of XXH3 over the body, sequence and code, and a frame
// whose check fails has not arrived yet: Arrival::by_check. Both sides leave bytes that a simulation does not
// store out of the check. The check does not cover the attempt, which is all that differs in a repeated
// request.
//
// A client awaits a reply to a request whose full number it knows. The number's bits above the 16-bit
// sequence, its turns, are stored in `check` with Arrival::by_trailer, and are hashed with the body with
// Arrival::by_check. So a reply to an earlier incarnation of the client, whose number has the same low bits,
// is not accepted.
#pragma once

#include <cstdint>

#include "common/fabric/fabric.h"

namespace loch::rpc {

enum class Arrival : std::uint8_t { by_trailer, by_check };
[[nodiscard]] inline Arrival arrival_on(const fabric::Capabilities& fabric) {
  return fabric.in_order_placement ? Arrival::by_trailer : Arrival::by_check;
}

struct Trailer {
  std::uint16_t sequence = 0;  // low bits of the sender's request number
  // number of the attempt, modulo 16, so that a repeated request has another trailer than the first and the
  // server notices it
  std::uint8_t attempt = 0;
  std::uint8_t code = 0;  // operation of a request, or status of a reply: 1 … 15
  // 40 bits: a checksum; or, if a frame counts as arrived when its trailer has (Arrival::by_trailer), the
  // bits of a reply's number above the 16 in `sequence` (0 in a request)
  std::uint64_t check = 0;

  static constexpr std::uint64_t check_mask = (std::uint64_t{1} << 40) - 1;
  [[nodiscard]] constexpr std::uint64_t pack() const {
    return std::uint64_t{sequence} | (std::uint64_t{attempt} & 15) << 16 | (std::uint64_t{code} & 15) << 20 |
           (check & check_mask) << 24;
  }
  [[nodiscard]] static constexpr Trailer unpack(std::uint64_t word) {
    return {static_cast<std::uint16_t>(word), static_cast<std::uint8_t>((word >> 16) & 15),
            static_cast<std::uint8_t>((word >> 20) & 15), word >> 24};
  }
  friend bool operator==(const Trailer&, const Trailer&) = default;
};
static_assert(Trailer{0x1234, 5, 6, 0xABCDEF}.pack() == 0x00'00AB'CDEF'651'234);
constexpr std::uint32_t trailer_bytes = 8;

// The bits of a message's number above the low 16, which the trailer has as its `sequence`; as many of these
// bits as fit into `check`.
[[nodiscard]] constexpr std::uint64_t turns_of(std::uint64_t number) {
  return (number >> 16) & Trailer::check_mask;
}

// The checksum of the frame whose body is the bytes [at, at + body_bytes) of the region. Bytes that a
// simulation elides (does not store) are left out.
[[nodiscard]] std::uint64_t frame_check(const fabric::Region& region, std::uint64_t at,
                                        std::uint32_t body_bytes, std::uint16_t sequence, std::uint8_t code,
                                        std::uint64_t turns);

// Largest body, in bytes, that body_check() takes: the same checksum as frame_check(), of a body in memory
// that nobody else writes, with all its bytes.
constexpr std::uint32_t most_kept_body = 128;
[[nodiscard]] std::uint64_t body_check(const std::byte* body, std::uint32_t body_bytes,
                                       std::uint16_t sequence, std::uint8_t code, std::uint64_t turns);

// Computes the trailer (last word) of the frame of `bytes` bytes at `at`, whose body has been written. The
// caller stores the trailer last. `turns`: turns_of() of a reply's number.
[[nodiscard]] Trailer seal(const fabric::Region& region, std::uint64_t at, std::uint32_t bytes,
                           std::uint16_t sequence, std::uint8_t code, Arrival arrival,
                           std::uint64_t turns = 0);

// Whether the frame of `bytes` bytes at `at`, whose trailer (last word) `word` was just loaded, is complete
// and belongs to the request whose number has the high bits `turns`.
[[nodiscard]] bool is_whole(const fabric::Region& region, std::uint64_t at, std::uint32_t bytes,
                            std::uint64_t word, Arrival arrival, std::uint64_t turns = 0);

// The full number that has the low bits `low` and is nearest to `near`.
[[nodiscard]] constexpr std::uint64_t extend_sequence(std::uint64_t near, std::uint16_t low) {
  const auto ahead = static_cast<std::int16_t>(static_cast<std::uint16_t>(low - near));
  return near + static_cast<std::uint64_t>(static_cast<std::int64_t>(ahead));
}
static_assert(extend_sequence(0x1'FFFF, 0) == 0x2'0000 && extend_sequence(0x2'0001, 0xFFFE) == 0x1'FFFE);

}  // namespace loch::rpc
