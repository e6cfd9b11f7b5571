#include <gtest/gtest.h>

#include "common/cli/bench_options.h"
#include "common/cli/registry.h"

namespace loch::sequencer {
namespace {

// What has no values says so in one line and runs.
TEST(Bench, VerifyingIsDeclinedInOneLine) {
  const kv::Registry registry = cli::make_registry();
  const auto options = cli::parse_bench({"--protocol", "seq-atomic", "--verify"}, registry);
  ASSERT_TRUE(options.has_value()) << options.error().message;
  EXPECT_FALSE(options->load.verify);
  ASSERT_EQ(options->notes.size(), 1u);
  EXPECT_EQ(
      options->notes.front(),
      "--verify: seq-atomic gives out numbers and stores no values (its own check, that none comes twice, "
      "is always on); no value was verified");
  const auto recorded = cli::parse_bench({"--protocol", "seq-atomic", "--history", "h.jsonl"}, registry);
  ASSERT_TRUE(recorded.has_value());
  ASSERT_EQ(recorded->notes.size(), 1u);
  EXPECT_NE(recorded->notes.front().find("the history proves nothing"), std::string::npos);
}

}  // namespace
}  // namespace loch::sequencer
