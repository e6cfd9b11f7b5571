// Draws a finding as one self-contained HTML page: operations as bars over time, failures, and the
// contradiction.
#pragma once

#include <string>
#include <string_view>

#include "app/fuzz/replay.h"

namespace loch::fuzz {

// Returns an HTML page that shows `finding`, which has to be a run of the replay's scenario, with its
// history.
[[nodiscard]] std::string draw_page(const Replay& replay, const FuzzFinding& finding);

// Escapes text for elements and quoted attributes of HTML and SVG; control characters become blanks.
[[nodiscard]] std::string escaped(std::string_view text);

}  // namespace loch::fuzz
