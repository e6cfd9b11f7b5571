// Tests that fuzzing finds every known-bad variant of every protocol, and every hole (known fault) of its
// published design, within about twice the recorded number of seeds. `loch fuzz --mutants` and `--holes`
// print the tables of docs/protocols/*.md.
#include <gtest/gtest.h>

#include "app/cli/registry.h"
#include "app/fuzz/fuzz.h"
#include "app/fuzz/mutants.h"

namespace loch::fuzz {
namespace {

// Number of seeds to try. It exceeds the recorded seed that found the known-bad variant, because after a
// change of the code another seed may be the first to find it.
std::uint64_t bound_of(std::uint64_t recorded) { return 2 * recorded + 100; }

bool finds_again(const FuzzOptions& options, const kv::Module& module, std::uint64_t recorded) {
  const auto finds = [&](std::uint64_t seed) {
    const FuzzVerdict verdict = fuzz_seed(seed, options, module).verdict;
    return verdict != FuzzVerdict::holds && verdict != FuzzVerdict::error;
  };
  bool is_found = finds(recorded);
  for (std::uint64_t seed = 1; seed <= bound_of(recorded) && !is_found; ++seed) is_found = finds(seed);
  return is_found;
}

TEST(Mutants, EachIsFoundWithinItsBound) {
  for (const auto& [protocol, module] : cli::make_registry()) {
    for (const auto& [mutant, what] : module->mutants()) {
      if (what.first_seed == 0) {
        EXPECT_FALSE(what.found_by.empty())
            << protocol << " " << mutant << ": loch fuzz --mutants measures it";
        continue;
      }
      FuzzOptions options;
      options.protocol = protocol;
      options.mutant = mutant;
      EXPECT_TRUE(finds_again(options, *module, what.first_seed))
          << protocol << " " << mutant << " was once found by seed " << what.first_seed;
    }
  }
}

// Known-bad variants of what a protocol does only with certain options: on memory nodes, or with chunks of
// memory that clients ask for.
TEST(Mutants, EachThatNeedsOptionsIsFoundWithThem) {
  using Settings = std::vector<std::pair<std::string, std::string>>;
  const Settings remote = {{"nessie.placement", "remote"}};
  const Settings chunks = {{"race.allocation", "chunks"}, {"race.chunk-blocks", "1"}};
  struct Sought {
    const char *protocol, *mutant;
    const Settings& settings;
    std::uint64_t first_seed;
  };
  const kv::Registry registry = cli::make_registry();
  for (const Sought& each : {Sought{"nessie", "link-overtakes-write", remote, 25},
                             {"nessie", "link-unknown-is-free", remote, 351},
                             {"nessie", "forgets-unknown", remote, 27},
                             {"race", "chunk-given-twice", chunks, 11}}) {
    FuzzOptions options;
    options.protocol = each.protocol;
    options.mutant = each.mutant;
    options.settings = each.settings;
    EXPECT_TRUE(finds_again(options, *registry.at(each.protocol), each.first_seed))
        << each.protocol << " " << each.mutant << " was once found by seed " << each.first_seed;
  }
}

TEST(Holes, EachIsFoundWithinItsBound) {
  for (const auto& [protocol, module] : cli::make_registry()) {
    for (const kv::Hole& hole : module->holes()) {
      ASSERT_GT(hole.first_seed, 0U) << protocol << " " << hole.name << ": loch fuzz --holes measures it";
      FuzzOptions options;
      options.protocol = protocol;
      EXPECT_TRUE(finds_again(with_hole(options, hole), *module, hole.first_seed))
          << protocol << " " << hole.name << " was once found by seed " << hole.first_seed;
    }
  }
}

}  // namespace
}  // namespace loch::fuzz
