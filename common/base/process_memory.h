// The memory that this process uses, the memory that is available on this machine, and what a copy of a
// page costs.
#pragma once

#include <cstdint>

namespace loch {

// Peak resident memory of this process so far, in bytes.
[[nodiscard]] std::uint64_t peak_memory_bytes();
// Memory that a new process could get now, in bytes (MemAvailable); 0 if the kernel does not report it.
[[nodiscard]] std::uint64_t available_memory_bytes();
// CPU time in seconds that it takes a forked process to write to a page which it shares with its parent, so
// that the kernel copies the page: about a microsecond on a processor, some 20 on virtual machines whose host
// takes part in it. Measured by a fork of this process at the first call; 0 if no process can be forked.
[[nodiscard]] double page_copy_s();

}  // namespace loch
