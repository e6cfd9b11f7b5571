// Where and with what a result was made.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace loch::measure {

// Of this build: fixed at configure and build time.
struct BuildInfo {
  std::string version;   // "0.1.0"
  std::string commit;    // full hash, or "unknown" outside a git tree
  bool is_dirty = false;
  std::string compiler;  // "Clang 19.1.7"
  std::string flags;     // build type and flags
  std::string sanitizer; // "", "asan", "tsan"
};
// Finds the commit of the source tree that this binary was built from (at run time, so that it is
// never stale; LOCH_COMMIT and LOCH_DIRTY override it).
[[nodiscard]] BuildInfo build_info();

// Kernel, CPU, SMT, governor, turbo, huge pages, load average, autogroup, argv, host, time,
// compiler. Keys that the machine does not tell are null.
[[nodiscard]] nlohmann::ordered_json provenance(const std::vector<std::string>& argv);

}  // namespace loch::measure
