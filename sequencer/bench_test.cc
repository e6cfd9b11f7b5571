// Tests which flags `loch bench` refuses for sequencers, and what it reports.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "app/cli/bench.h"
#include "app/cli/bench_options.h"
#include "app/cli/registry.h"

namespace loch::sequencer {
namespace {

Result<measure::PointResult> run(const std::vector<std::string>& flags) {
  const kv::Registry registry = cli::make_registry();
  LOCH_ASSIGN(const cli::BenchOptions options, cli::parse_bench(flags, registry));
  LOCH_ASSIGN(const kv::Module* module, cli::find_protocol(registry, options.protocol));
  LOCH_ASSIGN(auto result, cli::run_point(options, *module, 0, cli::Place{}));
  return std::move(result.point);
}
std::vector<std::string> on_connect_ib(const std::string& protocol, const std::vector<std::string>& more) {
  std::vector<std::string> flags = {"--fabric",   "sim",   "--hardware",     "connect-ib-2x56g",
                                    "--nodes",    "6",     "--server-nodes", "1",
                                    "--clients",  "14",    "--keys",         "100",
                                    "--get",      "1",     "--warmup",       "50us",
                                    "--duration", "100us", "--protocol",     protocol};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}
double mops(const Result<measure::PointResult>& point) {
  std::uint64_t done = 0;
  for (const measure::NodePart& node : point->nodes) done += node.tally.completed();
  return static_cast<double>(done) / point->duration_s * 1e-6;
}

// With --verify, a sequencer prints one line that its values cannot be verified, and runs.
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

// A server worker's receive queue holds 2,048 RECVs on this hardware profile; a deployment that may have more
// requests outstanding to it is refused.
TEST(Bench, SpecRefusesMoreRequestsThanItsReceiveQueueHolds) {
  const auto refused = run(on_connect_ib("seq-spec", {"--window", "32", "--servers", "1"}));
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("70 clients may have 2240 requests"), std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().message.find("holds 2048"), std::string::npos);
  const auto fits = run(on_connect_ib("seq-spec", {"--window", "29", "--servers", "1"}));
  ASSERT_TRUE(fits.has_value()) << fits.error().message;
  EXPECT_EQ(fits->protocol_counters.at("retries"), 0) << "a request that found no RECV is asked again";
}

// Every fetch-and-add needs the counter's cache line, which moves between the cores; claiming numbers for a
// whole batch needs the cache line less often.
TEST(Bench, CoresWaitForTheSharedCounter) {
  const auto with = [](const char* servers, const char* batch) {
    const auto point = run(on_connect_ib("seq-rpc", {"--window", "16", "--servers", servers,
                                                     "--seq-rpc.batch", batch, "--seq-rpc.lanes", "6"}));
    EXPECT_TRUE(point.has_value());
    return point ? mops(point) : 0;
  };
  const double one = with("1", "1"), ten = with("10", "1");
  EXPECT_GT(ten, 2 * one);
  EXPECT_LT(ten, 1.02 * 1e3 / 47) << "47 ns for the line to come from another core";
  EXPECT_GT(with("10", "16"), 2.5 * ten);
}

}  // namespace
}  // namespace loch::sequencer
