// Which source and which compiler made this binary: the provenance part of every result.
#pragma once

#include <string_view>

namespace loch {

// "0.1.0": of the CMake project.
[[nodiscard]] std::string_view version();
// The commit's full hash; "unknown" when the source is no git clone or git was not there at build time.
[[nodiscard]] std::string_view build_commit();
// Did a tracked file differ from that commit when this was built? False where the commit is unknown.
[[nodiscard]] bool build_is_dirty();
// "Clang 19.1.7".
[[nodiscard]] std::string_view build_compiler();
// Build type, language level, optimisation and sanitizer: "Release -std=c++23 -O3 -g1".
[[nodiscard]] std::string_view build_flags();

}  // namespace loch
