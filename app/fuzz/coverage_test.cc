// 2,000 seeds of a protocol reach every probe of it: code that no seed reaches was never fuzzed. Of Nessie it
// takes 10,000: what settles a MIGRATE of which two steps failed one behind the other is as rare as that.
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
  options.seeds = options.protocol == "nessie" ? 10'000 : 2'000;
  options.coverage = options.until_covered = options.keep_going = true;
  Campaign campaign(options, *found->second);
  campaign.run();
  EXPECT_GT(campaign.coverage().size(), 5U);
  for (const auto& [probe, reached] : campaign.coverage())
    EXPECT_GT(reached.seeds, 0U) << probe << " was reached by none of " << options.seeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(Protocols, Coverage,
                         testing::Values("nessie", "nessie-sd", "nessie-hy", "pilaf", "pilaf-vo", "herd"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace loch::fuzz
