// Files that are either whole or absent.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace loch::measure {

// Writes to a temporary in the same folder and renames it over `path`, symbolic links followed; a device or
// pipe is written to as it is, - is standard output (common/base/output_place.h).
[[nodiscard]] Result<> write_whole(const std::string& path, std::string_view text);

// The whole file; the error names the path and the system's reason. Refuses more than `most` bytes.
[[nodiscard]] Result<std::string> read_whole(const std::string& path,
                                             std::uint64_t most = std::uint64_t{1} << 32);

// The most memory that this process has held so far, in bytes.
[[nodiscard]] std::uint64_t peak_memory_bytes();
// What the machine could give a new process now, in bytes.
[[nodiscard]] std::uint64_t available_memory_bytes();

}  // namespace loch::measure
