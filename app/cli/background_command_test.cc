// Tests the flags of `loch hog`, that its background workers count work while a command runs, and that it
// ends with the command's exit status.
#include "app/cli/background_command.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/background_load/cores.h"

namespace loch::cli {
namespace {

using Words = std::vector<std::string>;
using ::testing::HasSubstr;

TEST(BackgroundCommand, DefaultsAndFlags) {
  const auto plain = parse_background({});
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->workers, 1U);
  EXPECT_EQ(plain->duration, 10'000'000'000);
  const auto all = parse_background({"--workers=3", "--pin", "shared", "--cores", "0", "--quota", "1.5",
                                     "--buffer", "4K", "--", "sleep", "--json", "1"});
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->workers, 3U);
  EXPECT_EQ(all->cores, (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(all->quota, 1.5);
  EXPECT_EQ(all->buffer_bytes, 4096U);
  EXPECT_EQ(all->command, (Words{"sleep", "--json", "1"}));
}

TEST(BackgroundCommand, RefusesInOneLineThatNamesTheFlag) {
  const std::string everything = background::format_cores(background::usable_cores());
  for (const auto& [words, expected] : std::vector<std::pair<Words, std::string>>{
           {{"--worker", "3"}, "did you mean --workers?"},
           {{"--workers", "0"}, "--workers"},
           {{"--workers", "many"}, "--workers"},
           {{"--workers"}, "--workers: expected a value"},
           {{"--pin", "here"}, "none, shared, separate"},
           {{"--cores", "0-"}, "--cores"},
           {{"--cores", "1000"}, "--cores: core 1000"},
           {{"--pin", "separate"}, "with --cores"},
           {{"--pin", "separate", "--cores", everything}, "no core is left"},
           {{"--duration", "10"}, "with its unit"},
           {{"--duration", "0s"}, "--duration"},
           {{"--duration", "1s", "--", "true"}, "as long as COMMAND"},
           {{"--quota", "0"}, "--quota"},
           {{"--quota", "1", "--group", "session"}, "--quota"},
           {{"--group", "pod"}, "auto, cgroup, session"},
           {{"--buffer", "0"}, "--buffer"},
           {{"--json", "/nonexistent/a.json"}, "/nonexistent/a.json"},
           {{"sleep", "1"}, "COMMAND comes after --"},
           {{"--"}, "expected COMMAND"},
       }) {
    const auto options = parse_background(words);
    ASSERT_FALSE(options.has_value()) << expected;
    EXPECT_THAT(options.error().message, HasSubstr(expected));
    EXPECT_EQ(options.error().message.find('\n'), std::string::npos);
  }
}

TEST(BackgroundCommand, CountsAlongsideACommandAndGivesItsStatus) {
  const auto folder =
      std::filesystem::temp_directory_path() / fmt::format("loch_background_load_test_{}", getpid());
  std::filesystem::create_directories(folder);
  const std::string path = folder / "hog.json";
  EXPECT_EQ(run_background_command({"--workers", "2", "--group", "session", "--json", path, "--", "sh", "-c",
                                    "sleep 0.3; exit 7"}),
            7);
  std::ifstream in(path);
  const auto json = nlohmann::json::parse(in);
  EXPECT_EQ(json["command"]["exit_status"], 7);
  EXPECT_GE(json["duration_s"], 0.3);
  ASSERT_EQ(json["hogs"].size(), 2U);
  EXPECT_EQ(json["hashes"],
            json["hogs"][0]["hashes"].get<std::uint64_t>() + json["hogs"][1]["hashes"].get<std::uint64_t>());
  for (const auto& background : json["hogs"]) {
    EXPECT_GT(background["hashes"], 100);
    EXPECT_GT(background["cpu_share"], 0);
    EXPECT_LE(background["cpu_share"], 1.1);
  }
  EXPECT_EQ(json["group"]["session"], getsid(0));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace loch::cli
