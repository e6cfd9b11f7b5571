// A finding drawn: one HTML page that needs nothing else, with operations as bars over time, failures, and
// the contradiction.
#pragma once

#include <string>
#include <string_view>

#include "app/fuzz/replay.h"

namespace loch::fuzz {

// `finding` is a run of the replay's scenario, with its history.
[[nodiscard]] std::string draw_page(const Replay& replay, const FuzzFinding& finding);

// Text for HTML and SVG, in elements and in quoted attributes; control characters become blanks.
[[nodiscard]] std::string escaped(std::string_view text);

}  // namespace loch::fuzz
