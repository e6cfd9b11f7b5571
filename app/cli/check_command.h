// `loch check`: decides whether a recorded history is one that a correct store could produce.
#pragma once

#include <string>
#include <vector>

namespace loch::cli {

// Runs `loch check` with the flags of check_flags.h and names of histories. Exit status: 0: correct; 1:
// violated; 2: unreadable, undecided or bad flags.
[[nodiscard]] int run_check_command(const std::vector<std::string>& arguments);

}  // namespace loch::cli
