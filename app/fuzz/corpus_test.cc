// Tests long campaigns: which scenarios they keep, that an interruption loses nothing, and which input they
// refuse.
#include "app/fuzz/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "app/cli/registry.h"
#include "app/fuzz/long_campaign.h"
#include "app/fuzz/replay.h"
#include "app/fuzz/run.h"

namespace loch::fuzz {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

class LongRun : public ::testing::Test {
 protected:
  LongRun() : folder_(fs::temp_directory_path() / ("loch-corpus-" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    options_.protocol = "pilaf";
    options_.corpus = (folder_ / "c").string();
    options_.jobs = 1;
    options_.seeds = 60;
  }
  ~LongRun() override { fs::remove_all(folder_); }
  [[nodiscard]] int run() const { return run_long(options_, *registry_.at(options_.protocol), registry_); }
  [[nodiscard]] Result<std::unique_ptr<Corpus>> open() const {
    return Corpus::open(options_, *registry_.at(options_.protocol), registry_);
  }
  [[nodiscard]] std::string refusal() const {
    const auto corpus = open();
    return corpus ? "accepted" : corpus.error().message;
  }
  void change(const std::string& from, const std::string& to) const {
    const fs::path path = fs::path(options_.corpus) / "corpus.json";
    std::string text = text_of(path);
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    std::ofstream(path, std::ios::binary) << text.replace(at, from.size(), to);
  }

  const kv::Registry registry_ = cli::make_registry();
  const fs::path folder_;
  FuzzOptions options_;
};

TEST_F(LongRun, GoesOnWhereItStoppedAndCanBeMoved) {
  ASSERT_EQ(run(), 0);
  std::size_t kept = 0, probes = 0;
  {
    const auto corpus = open();
    ASSERT_TRUE(corpus) << corpus.error().message;
    kept = (*corpus)->scenarios().size();
    probes = (*corpus)->probes_reached();
    EXPECT_EQ((*corpus)->next_step, 60U);
    EXPECT_EQ((*corpus)->runs, 60U);
  }
  EXPECT_GT(kept, 5U);
  EXPECT_GT(probes, 10U);
  fs::rename(options_.corpus, folder_ / "moved");
  options_.corpus = (folder_ / "moved").string();
  ASSERT_EQ(run(), 0);
  const auto corpus = open();
  ASSERT_TRUE(corpus) << corpus.error().message;
  EXPECT_GE((*corpus)->scenarios().size(), kept);
  EXPECT_GE((*corpus)->probes_reached(), probes);
  EXPECT_EQ((*corpus)->next_step, 120U);
}

// Two campaigns with one thread each run the same scenarios.
TEST_F(LongRun, IsDeterministic) {
  ASSERT_EQ(run(), 0);
  const std::string first = text_of(fs::path(options_.corpus) / "corpus.json");
  options_.corpus = (folder_ / "d").string();
  ASSERT_EQ(run(), 0);
  EXPECT_EQ(text_of(fs::path(options_.corpus) / "corpus.json"), first);
}

TEST_F(LongRun, StoresWhatItFinds) {
  options_.mutant = "no-key-compare";
  options_.seeds = 3;
  ASSERT_EQ(run(), 1);
  std::size_t replays = 0;
  for (const auto& file : fs::directory_iterator(fs::path(options_.corpus) / "findings")) {
    if (file.path().extension() != ".json") continue;
    ++replays;
    auto replay = read_replay(file.path().string());
    ASSERT_TRUE(replay) << replay.error().message;
    ASSERT_TRUE(make_runnable(*replay, registry_, "f"));
    FuzzFinding again;
    ASSERT_TRUE(run_scenario(replay->scenario, replay->hardware, again));
    EXPECT_EQ(again.verdict, replay->verdict);
    EXPECT_NE(again.verdict, FuzzVerdict::holds);
    EXPECT_TRUE(fs::exists(fs::path(file.path()).replace_extension().replace_extension(".html")));
  }
  EXPECT_GE(replays, 1U);
}

TEST_F(LongRun, RefusesWhatIsNotItsOwn) {
  options_.seeds = 10;
  ASSERT_EQ(run(), 0);
  EXPECT_EQ(refusal(), "accepted");
  {
    const auto held = open();
    EXPECT_THAT(refusal(), HasSubstr("another campaign is using it"));
  }
  options_.protocol = "herd";
  EXPECT_THAT(refusal(), HasSubstr("protocol: the corpus is of pilaf, not of herd"));
  EXPECT_EQ(run(), 2);
  options_.protocol = "pilaf";
  options_.mutant = "no-key-compare";
  EXPECT_THAT(refusal(), HasSubstr("mutant"));
  options_.mutant.clear();
  options_.settings = {{"pilaf.hash-functions", "3"}};
  EXPECT_THAT(refusal(), HasSubstr("settings"));
  options_.settings.clear();
  change("\"version\": 1", "\"version\": 7");
  EXPECT_THAT(refusal(), HasSubstr("corpus.json: version: expected 1"));
  change("\"version\": 7", "\"version\": 1");
  change("\"file\": \"s000000", "\"file\": \"../../s000000");
  EXPECT_THAT(refusal(), HasSubstr("plain file names"));
  change("\"file\": \"../../s000000", "\"file\": \"t000000");
  EXPECT_THAT(refusal(), HasSubstr("t000000"));
}

}  // namespace
}  // namespace loch::fuzz
