// Seals frames (messages that a peer WRITEs) with sequence number and checksum, and decides whether a frame
// has arrived whole.
#include "common/rpc/frame.h"

#define XXH_INLINE_ALL  // most frames are so small that a call costs more than the hash
#include <xxhash.h>

#include <algorithm>
#include <array>

#include "common/fabric/copy_out.h"

namespace loch::rpc {

std::uint64_t body_check(const std::byte* body, std::uint32_t body_bytes, std::uint16_t sequence,
                         std::uint8_t code, std::uint64_t turns) {
  const std::uint64_t seed = Trailer{.sequence = sequence, .attempt = 0, .code = code, .check = turns}.pack();
  return XXH3_64bits_withSeed(body, body_bytes, seed) & Trailer::check_mask;
}

std::uint64_t frame_check(const fabric::Region& region, std::uint64_t at, std::uint32_t body_bytes,
                          std::uint16_t sequence, std::uint8_t code, std::uint64_t turns) {
  // The checksum is computed over a private copy of the body, because a NIC may be writing to the original.
  if (body_bytes <= most_kept_body && !region.elision().on()) {
    std::array<std::byte, most_kept_body> small;
    fabric::copy_out(small.data(), region.at(at), body_bytes);
    return body_check(small.data(), body_bytes, sequence, code, turns);
  }
  std::uint64_t sum = Trailer{.sequence = sequence, .attempt = 0, .code = code, .check = turns}.pack();
  std::array<std::byte, 1024> piece;
  const std::uint64_t end = at + body_bytes;
  while (at < end) {
    const std::uint64_t kept = region.kept(at, std::min<std::uint64_t>(end - at, piece.size()));
    if (kept == 0) {
      at += std::min(region.elided_run(at), end - at);
      continue;
    }
    fabric::copy_from_shared(piece.data(), region.at(at), kept);
    sum = XXH3_64bits_withSeed(piece.data(), kept, sum);
    at += kept;
  }
  return sum & Trailer::check_mask;
}

Trailer seal(const fabric::Region& region, std::uint64_t at, std::uint32_t bytes, std::uint16_t sequence,
             std::uint8_t code, Arrival arrival, std::uint64_t turns) {
  Trailer trailer{.sequence = sequence, .attempt = 0, .code = code, .check = turns};
  if (arrival == Arrival::by_trailer) return trailer;
  const std::uint32_t body = bytes - trailer_bytes;
  // The frame is the caller's own, which nobody else writes, so that a small one need not be copied.
  trailer.check = body <= most_kept_body && !region.elision().on()
                      ? body_check(region.at(at), body, sequence, code, turns)
                      : frame_check(region, at, body, sequence, code, turns);
  return trailer;
}

bool is_whole(const fabric::Region& region, std::uint64_t at, std::uint32_t bytes, std::uint64_t word,
              Arrival arrival, std::uint64_t turns) {
  const Trailer trailer = Trailer::unpack(word);
  if (trailer.code == 0) return false;
  if (arrival == Arrival::by_trailer) return trailer.check == turns;
  return trailer.check ==
         frame_check(region, at, bytes - trailer_bytes, trailer.sequence, trailer.code, turns);
}

}  // namespace loch::rpc
