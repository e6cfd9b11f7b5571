// Reads whole files. The header output_place.h has the functions that write whole files.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace loch {

// Returns the content of a whole file. Fails for a file of more than `most` bytes; the error names the
// path and the operating system's reason.
[[nodiscard]] Result<std::string> read_whole(const std::string& path,
                                             std::uint64_t most = std::uint64_t{1} << 32);

}  // namespace loch
