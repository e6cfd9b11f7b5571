// The flags of `loch explore`, in its three forms: one scenario, a family of them, a suite.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/cli/explore_options.h"
#include "common/settings/command.h"

namespace loch::cli {

// Of --mutants, for each scenario and variant, where --time does not say.
constexpr Nanos time_for_mutant = 10'000'000'000;

struct ExploreFlags {
  ExploreOptions each;           // of one scenario, or of each of a family
  std::vector<std::string> set;  // KEY=VALUE

  std::string family;
  std::uint64_t every = 0;   // explores each scenario whose number is a multiple of this
  std::uint64_t starts = 0;  // operations that may come before the clients' own, at most
  std::uint64_t shown = 0;   // how many findings are printed

  std::string suite;    // its file; empty: default_suite()
  std::string mutants;  // the protocol whose known-bad variants are looked for
  std::string protocol;
  bool is_quick = false;

  settings::Given given;
  [[nodiscard]] bool has_suite() const { return given.has("suite") || given.has("mutants"); }
  [[nodiscard]] bool has_family() const { return given.has("family"); }
};

// The table. Its places are in `flags`, which holds some defaults and outlives it.
[[nodiscard]] settings::Command explore_command(ExploreFlags& flags);

// Everything after "explore", in any of its forms. The error names the flag and what was expected.
[[nodiscard]] Result<ExploreFlags> parse_explore_flags(const std::vector<std::string>& arguments);

}  // namespace loch::cli
