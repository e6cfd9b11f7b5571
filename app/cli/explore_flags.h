// The flags of `loch explore` in its three forms: one scenario, a family of scenarios, a suite file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/cli/explore_options.h"
#include "common/settings/command.h"

namespace loch::cli {

// With --mutants, the time limit in ns for each pair of scenario and known-bad variant, unless --time is
// given.
constexpr Nanos time_for_mutant = 10'000'000'000;

struct ExploreFlags {
  ExploreOptions each;           // options of the scenario, or of each scenario of a family
  std::vector<std::string> set;  // protocol options as KEY=VALUE

  std::string family;
  std::uint64_t every = 0;  // with --family: explores every n-th scenario, where n is this value
  // with --family: most operations that place the keys in the table before the clients begin
  std::uint64_t starts = 0;
  std::uint64_t shown = 0;  // with --family: number of violations to print

  std::string suite;    // name of the suite's file; empty: default_suite()
  std::string mutants;  // --mutants: the protocol whose known-bad variants are to be found
  std::string protocol;
  bool is_quick = false;

  settings::Given given;
  [[nodiscard]] bool has_suite() const { return given.has("suite") || given.has("mutants"); }
  [[nodiscard]] bool has_family() const { return given.has("family"); }
};

// The table of `loch explore`'s flags. Parsing stores into `flags`, which holds some defaults and has to
// outlive the table.
[[nodiscard]] settings::Command explore_command(ExploreFlags& flags);

// Parses the arguments after "explore", in any form. An error names the flag and what was expected.
[[nodiscard]] Result<ExploreFlags> parse_explore_flags(const std::vector<std::string>& arguments);

}  // namespace loch::cli
