// Sizes and durations as people type them, and back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace loch {

using Nanos = std::int64_t;  // a point or span of time, in nanoseconds

// "16K", "1M", "20G", "512", "16KB", "16KiB": bytes; K = 1024. Fractions ("1.5K") are allowed
// when they come out whole. `what` names the flag or key for the error.
[[nodiscard]] Result<std::uint64_t> parse_size(std::string_view text, std::string_view what);

// "50ms", "10s", "3us", "7ns", "2m": nanoseconds. A bare number is refused, because its unit
// would be a guess.
[[nodiscard]] Result<Nanos> parse_duration(std::string_view text, std::string_view what);

// 16384 -> "16K", 1000 -> "1000": the shortest exact spelling.
[[nodiscard]] std::string format_size(std::uint64_t bytes);
// 50000000 -> "50ms".
[[nodiscard]] std::string format_duration(Nanos span);

}  // namespace loch
