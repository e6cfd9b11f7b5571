// Files read whole. How they are written whole: output_place.h.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace loch {

// The whole file; the error names the path and the system's reason. Refuses more than `most` bytes.
[[nodiscard]] Result<std::string> read_whole(const std::string& path,
                                             std::uint64_t most = std::uint64_t{1} << 32);

}  // namespace loch
