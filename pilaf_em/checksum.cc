// Computes CRC-64/XZ with Intel's ISA-L library.
#include "pilaf_em/checksum.h"

#include <isa-l/crc64.h>

namespace loch::pilaf {

std::uint64_t crc64(std::span<const std::byte> bytes, std::uint64_t before) {
  return crc64_ecma_refl(before, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

}  // namespace loch::pilaf
