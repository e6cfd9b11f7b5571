// Every known-bad variant of every protocol is found by fuzzing, and within the bound that is recorded
// for it; the table of docs/protocols.md is printed by `loch fuzz --mutants`.
#include <gtest/gtest.h>

#include "common/cli/fuzz.h"
#include "common/cli/registry.h"

namespace loch::cli {
namespace {

// The recorded seed finds it unless something was changed since; then some other does, soon.
std::uint64_t bound_of(std::uint64_t recorded) { return 2 * recorded + 100; }

TEST(Mutants, EachIsFoundWithinItsBound) {
  for (const auto& [protocol, module] : make_registry()) {
    for (const auto& [mutant, what] : module->mutants()) {
      ASSERT_GT(what.first_seed, 0U) << protocol << " " << mutant << ": loch fuzz --mutants measures it";
      FuzzOptions options;
      options.protocol = protocol;
      options.mutant = mutant;
      const auto finds = [&](std::uint64_t seed) {
        const FuzzVerdict verdict = fuzz_seed(seed, options, *module).verdict;
        return verdict != FuzzVerdict::holds && verdict != FuzzVerdict::error;
      };
      bool is_found = finds(what.first_seed);
      for (std::uint64_t seed = 1; seed <= bound_of(what.first_seed) && !is_found; ++seed)
        is_found = finds(seed);
      EXPECT_TRUE(is_found) << protocol << " " << mutant << " was once found by seed " << what.first_seed;
    }
  }
}

}  // namespace
}  // namespace loch::cli
