// Memory that this process holds, and that it could have.
#pragma once

#include <cstdint>

namespace loch {

// The most memory that this process has held so far, in bytes.
[[nodiscard]] std::uint64_t peak_memory_bytes();
// What the machine could give a new process now, in bytes; 0 where the kernel does not say.
[[nodiscard]] std::uint64_t available_memory_bytes();

}  // namespace loch
