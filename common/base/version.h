// The source revision and the compiler of this binary, for the provenance section of result documents.
#pragma once

#include <string_view>

namespace loch {

// The version of the CMake project, such as "0.1.0".
[[nodiscard]] std::string_view version();
// The full hash of the git commit that this binary was built from; "unknown" if the source was no git
// clone or git was missing at build time.
[[nodiscard]] std::string_view build_commit();
// True if a tracked file differed from the commit of build_commit() when this binary was built; false if that
// commit is unknown.
[[nodiscard]] bool build_is_dirty();
// Name and version of the compiler, such as "Clang 19.1.7".
[[nodiscard]] std::string_view build_compiler();
// Build type, language standard, optimisation level and sanitizers, such as "Release -std=c++23 -O3 -g1".
[[nodiscard]] std::string_view build_flags();

}  // namespace loch
