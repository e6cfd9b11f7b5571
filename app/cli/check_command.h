// loch check: is a recorded history what a correct store could have answered?
#pragma once

#include <string>
#include <vector>

namespace loch::cli {

// Flags as in check_flags.h, and histories. Exit status: 0 holds; 1 violated; 2 unreadable, undecided or bad
// flags.
[[nodiscard]] int run_check_command(const std::vector<std::string>& arguments);

}  // namespace loch::cli
