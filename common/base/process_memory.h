// The memory that this process uses, and the memory that is available on this machine.
#pragma once

#include <cstdint>

namespace loch {

// Peak resident memory of this process so far, in bytes.
[[nodiscard]] std::uint64_t peak_memory_bytes();
// Memory that a new process could get now, in bytes (MemAvailable); 0 if the kernel does not report it.
[[nodiscard]] std::uint64_t available_memory_bytes();

}  // namespace loch
