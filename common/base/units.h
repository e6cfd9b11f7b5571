// Parses and formats sizes and durations in the notation that users type.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace loch {

using Nanos = std::int64_t;  // a point in time or a duration, in nanoseconds

// Parses a size in bytes: "512", "16K", "1M", "20G", "16KB" or "16KiB", where K = 1024. A fraction such
// as "1.5K" is accepted if it is a whole number of bytes. `what` names the flag or key in the error
// message.
[[nodiscard]] Result<std::uint64_t> parse_size(std::string_view text, std::string_view what);

// Parses a duration such as "7ns", "3us", "50ms", "10s" or "2m" into nanoseconds. A number without a unit
// is an error. `what` names the flag or key in the error message.
[[nodiscard]] Result<Nanos> parse_duration(std::string_view text, std::string_view what);

// Formats a size in its shortest exact notation: 16384 becomes "16K", 1000 becomes "1000".
[[nodiscard]] std::string format_size(std::uint64_t bytes);
// Formats nanoseconds as a duration: 50000000 becomes "50ms".
[[nodiscard]] std::string format_duration(Nanos span);

}  // namespace loch
