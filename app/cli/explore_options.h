// Options of one exploration, from the command line or from a line of a suite file.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/explore/explorer.h"
#include "app/explore/plan.h"
#include "common/base/result.h"
#include "common/kv/protocol.h"

namespace loch::cli {

struct ExploreOptions {
  std::string protocol, scenario, before, keys, json, mutant;
  std::vector<std::pair<std::string, std::string>> settings;
  explore::Bounds bounds;
  explore::Limits limits{.states = 5'000'000};
  bool is_absent = false;
  std::uint32_t share = 0;
  std::uint32_t value_bytes = explore::least_value_bytes;
  std::uint32_t window = 1;
  bool has_scenario = false;  // whether a scenario was given; false: the default scenario
};

// Parses "PROTOCOL [SCENARIO] [flags]", as on a line of a suite file. An error names the flag and what was
// expected.
[[nodiscard]] Result<ExploreOptions> parse_explore(const std::vector<std::string>& arguments);
[[nodiscard]] Result<explore::Plan> plan_of(const ExploreOptions& options, const kv::Registry& registry);
[[nodiscard]] check::CheckOptions judging_of(const explore::Plan& plan);
// Writes options as parse_explore() reads them, such as "nessie "PUT K | GET K" --fail 1". The limits of the
// exploration (states, time) are left out.
[[nodiscard]] std::string describe(const ExploreOptions& options);
// The exploration's result: "found", "complete", "bound" or "interrupted".
[[nodiscard]] std::string_view verdict_of(const explore::Exploration& all);

}  // namespace loch::cli
