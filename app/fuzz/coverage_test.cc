// Tests that 2,000 seeds of a protocol pass all its probes (marks of rare branches), because code that no
// seed reaches is not fuzzed. Two protocols have 10,000 seeds, of which no more run than it takes: a MIGRATE
// of Nessie (move of a key to another slot) whose requests fail twice in a row is rare, and so is a block of
// RACE that is written again while somebody reads it (40 of 20,000 seeds).
#include <gtest/gtest.h>

#include <algorithm>

#include "app/cli/registry.h"
#include "app/fuzz/campaign.h"

namespace loch::fuzz {
namespace {

class Coverage : public testing::TestWithParam<std::string> {};

TEST_P(Coverage, EveryProbeIsReached) {
  const kv::Registry registry = cli::make_registry();
  const auto found = registry.find(GetParam());
  ASSERT_NE(found, registry.end());
  FuzzOptions options;
  options.protocol = GetParam();
  options.seeds = options.protocol == "nessie" || options.protocol == "race" ? 10'000 : 2'000;
  options.coverage = options.until_covered = options.keep_going = true;
  Campaign campaign(options, *found->second);
  campaign.run();
  EXPECT_GT(campaign.coverage().size(), 5U);
  for (const auto& [probe, reached] : campaign.coverage())
    EXPECT_GT(reached.seeds, 0U) << probe << " was reached by none of " << options.seeds << " seeds";
}

// With the data on memory nodes, the probes of that placement count.
TEST(CoverageOfMemoryNodes, EveryProbeIsReached) {
  const kv::Registry registry = cli::make_registry();
  FuzzOptions options;
  options.protocol = "nessie";
  options.settings = {{"nessie.placement", "remote"}};
  options.seeds = 4'000;
  options.coverage = options.until_covered = options.keep_going = true;
  Campaign campaign(options, *registry.at("nessie"));
  campaign.run();
  EXPECT_GT(campaign.coverage().size(), 5U);
  for (const auto& [probe, reached] : campaign.coverage())
    EXPECT_GT(reached.seeds, 0U) << probe << " was reached by none of " << options.seeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(Protocols, Coverage,
                         testing::Values("nessie", "nessie-sd", "nessie-hy", "pilaf", "pilaf-vo", "herd",
                                         "race"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace loch::fuzz
