// A faster copy_from_shared() (memory.h) for a few cache lines.
#pragma once

#include "common/fabric/memory.h"

namespace loch::fabric {

// Copies out of shared memory into private memory, 16 bytes at once where the processor can.
inline void copy_out(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__x86_64__) && !defined(LOCH_TSAN) && !defined(LOCH_ASAN)
  for (; bytes >= 16; bytes -= 16, to += 16, from += 16)
    asm volatile("movdqu (%1), %%xmm0\n\tmovdqu %%xmm0, (%0)" : : "r"(to), "r"(from) : "xmm0", "memory");
#endif
  if (bytes != 0) copy_from_shared(to, from, bytes);
}

}  // namespace loch::fabric
