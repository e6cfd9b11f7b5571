// Keeps a reading of the processor's time-stamp counter in its place among the accesses to memory around it.
#pragma once

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace loch {

// Loads before this line are complete before anything behind it begins, a reading of the time-stamp counter
// included. On other processors clocks are read by the C library, which orders them itself.
inline void fence_clock() {
#if defined(__x86_64__)
  _mm_lfence();
#endif
}

}  // namespace loch
