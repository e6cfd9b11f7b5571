// Tests code that several protocols share: refusals of impossible deployments, common options, and findings
// of audits.
#include "common/kv/checks.h"

#include <gtest/gtest.h>

#include <string>

#include "common/kv/findings.h"
#include "common/kv/usual_options.h"

namespace loch::kv {
namespace {

std::string refusal(const Result<>& checked) { return checked.has_value() ? "" : checked.error().message; }

TEST(Checks, ClientDrivenNeedsClientsAndNoServers) {
  DeployConfig config;
  EXPECT_EQ(refusal(check_client_driven("p", config)), "");
  DeployConfig bad = config;
  bad.window = 0;
  EXPECT_EQ(refusal(check_client_driven("p", bad)),
            "clients: p is client-driven; expected at least 1 client worker and a window of at least 1");
  bad = config;
  bad.server_workers = 2;
  EXPECT_EQ(refusal(check_client_driven("p", bad)),
            "servers: p has no server workers, 2 were asked for; expected 0");
  for (const std::uint32_t key_size : {0U, 4097U}) {
    bad = config;
    bad.key_size = key_size;
    EXPECT_NE(refusal(check_client_driven("p", bad)).find("expected 1 to 4096"), std::string::npos);
  }
}

TEST(Checks, TablesFitTheirRecordsAndMemory) {
  DeployConfig config;
  config.keys = 10;
  config.max_keys = 9;
  EXPECT_EQ(refusal(check_preload(config)), "keys: 10 are preloaded but the table is made for 9");
  config.max_keys = 10;
  EXPECT_EQ(refusal(check_preload(config)), "");
  EXPECT_EQ(refusal(check_memory(config, 1'001)), "");  // no limit is known
  config.memory_bytes = 1'000;
  EXPECT_EQ(refusal(check_memory(config, 1'000)), "");
  EXPECT_NE(refusal(check_memory(config, 1'001)).find("take 1001 bytes of each of 1 nodes, which have 1000"),
            std::string::npos);
}

TEST(UsualOptions, HaveTheRolesByWhichTheFuzzerKnowsThem) {
  EXPECT_EQ(attempts_option("p").role, OptionRole::attempts);
  EXPECT_EQ(backoff_cap_option("p", "1ms").role, OptionRole::backoff_cap);
  EXPECT_EQ(reconnect_timeout_option("p").role, OptionRole::reconnect_timeout);
  const Options options({attempts_option("p"), backoff_start_option("p"), backoff_cap_option("p", "1ms")});
  EXPECT_EQ(options.integer("p.attempts"), 64);
  EXPECT_EQ(options.integer("p.backoff-start"), 2'000);
  EXPECT_EQ(options.integer("p.backoff-cap"), 1'000'000);
}

TEST(Findings, KeepsTheFirstTwenty) {
  Findings findings;
  for (int i = 0; i < 100; ++i) findings.add("slot {} is wrong", i);
  const std::vector<std::string> lines = findings.take();
  ASSERT_EQ(lines.size(), 20U);
  EXPECT_EQ(lines.back(), "slot 19 is wrong");
}

}  // namespace
}  // namespace loch::kv
