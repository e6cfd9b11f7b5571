// 2,000 seeds of each protocol reach every probe of it: code that no seed reaches was never fuzzed.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/cli/fuzz_campaign.h"
#include "common/cli/registry.h"

namespace loch::cli {
namespace {

class Coverage : public testing::TestWithParam<std::string> {};

TEST_P(Coverage, EveryProbeIsReached) {
  const kv::Registry registry = make_registry();
  const auto found = registry.find(GetParam());
  ASSERT_NE(found, registry.end());
  FuzzOptions options;
  options.protocol = GetParam();
  options.seeds = 2'000;
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
}  // namespace loch::cli
