// Tests bench as three processes, as a launcher starts them: they write one result and one history; a killed
// process is named in the result while the others go on; an interrupt leaves no files.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/base/file.h"
#include "common/check/linearizable.h"

namespace loch::cli {
namespace {

using namespace std::chrono_literals;
constexpr int ranks = 3;

class Processes : public ::testing::Test {
 protected:
  void SetUp() override {
    job_ = fmt::format("loch-processes-test-{}", ::getpid());
    folder_ = std::filesystem::temp_directory_path() / job_;
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    for (const pid_t child : children_) {
      if (child > 0) ::kill(child, SIGKILL);
    }
    std::filesystem::remove_all(folder_);
  }
  void launch(const char* duration) {
    for (int rank = 0; rank < ranks; ++rank) {
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) run_rank(rank, duration);
      children_.push_back(child);
    }
  }
  // Exit status of each process; -1 for a process that does not end within a minute.
  std::vector<int> wait_all() {
    std::vector<int> statuses;
    for (pid_t& child : children_) {
      int status = -1;
      for (int tick = 0; tick < 600 && ::waitpid(child, &status, WNOHANG) == 0; ++tick)
        std::this_thread::sleep_for(100ms);
      statuses.push_back(status == -1        ? -1
                         : WIFEXITED(status) ? WEXITSTATUS(status)
                                             : 256 + WTERMSIG(status));
      if (status != -1) child = 0;
    }
    return statuses;
  }
  // Waits until the load has begun: until each rank has written part of its history.
  [[nodiscard]] bool await_load() const {
    for (int tick = 0; tick < 6000; ++tick) {
      int begun = 0;
      for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
        // ignored error: another process may rename its history file meanwhile
        std::error_code gone;
        const auto size = entry.file_size(gone);
        begun += entry.path().extension() == ".partial" && !gone && size > 0 ? 1 : 0;
      }
      if (begun == ranks) return true;
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }
  // The process that drives this rank's load: the only child of its supervisor.
  pid_t worker_of(int rank) {
    const std::string list =
        fmt::format("/proc/{0}/task/{0}/children", children_[static_cast<std::size_t>(rank)]);
    const auto text = read_whole(list);
    return text && !text->empty() ? std::stoi(*text) : 0;
  }
  [[nodiscard]] std::string file(const char* name) const { return folder_ / name; }

  std::filesystem::path folder_;
  std::string history_ = "h.jsonl";
  std::string job_;
  std::vector<pid_t> children_;

 private:
  [[noreturn]] void run_rank(int rank, const char* duration) {
    ::setenv("OMPI_COMM_WORLD_RANK", std::to_string(rank).c_str(), 1);
    ::setenv("OMPI_COMM_WORLD_SIZE", std::to_string(ranks).c_str(), 1);
    ::setenv("PMIX_NAMESPACE", job_.c_str(), 1);
    const std::string json = file("a.json"), history = file(history_.c_str());
    const int quiet = ::open("/dev/null", O_WRONLY);
    ::dup2(quiet, STDOUT_FILENO);
    ::execl(LOCH_BENCH_TOY, LOCH_BENCH_TOY, "--protocol", "slots", "--fabric", "shm", "--nodes", "3",
            "--keys", "1000", "--get", "0.5", "--verify", "--warmup", "0ms", "--duration", duration, "--json",
            json.c_str(), "--history", history.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
};

TEST_F(Processes, OneResultAndOneHistory) {
  launch("500ms");
  EXPECT_EQ(wait_all(), (std::vector<int>{0, 0, 0}));
  const auto json = nlohmann::json::parse(read_whole(file("a.json")).value());
  ASSERT_EQ(json["nodes"].size(), 3U);
  for (const auto& node : json["nodes"]) EXPECT_GT(node["operations"]["total"], 0);
  EXPECT_EQ(json["operations"]["corrupt"], 0);
  EXPECT_EQ(json["run_end"], "finished");
  const auto report = check::check_history({file("h.jsonl")}, {.initial = check::Initial::present});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->verdict(), check::Verdict::holds);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2);
}

TEST_F(Processes, AKilledOneIsNamedAndTheOthersGoOn) {
  launch("2s");
  ASSERT_TRUE(await_load());
  const pid_t victim = worker_of(1);
  ASSERT_GT(victim, 0);
  ASSERT_EQ(::kill(victim, SIGKILL), 0);
  EXPECT_EQ(wait_all(), (std::vector<int>{0, 0, 0}));
  const auto json = nlohmann::json::parse(read_whole(file("a.json")).value());
  EXPECT_EQ(json["lost_nodes"], nlohmann::json::parse("[1]"));
  EXPECT_FALSE(json["scrub"].is_null());
  EXPECT_GT(json["nodes"][0]["operations"]["ok"], 0);
  EXPECT_GT(json["nodes"][2]["operations"]["ok"], 0);
  const auto report = check::check_history({file("h.jsonl")}, {.initial = check::Initial::present});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->verdict(), check::Verdict::holds);
}

TEST_F(Processes, ABinaryHistoryHasWhatAKilledOneRecorded) {
  history_ = "h.bin";
  launch("2s");
  ASSERT_TRUE(await_load());
  std::this_thread::sleep_for(300ms);
  const pid_t victim = worker_of(1);
  ASSERT_GT(victim, 0);
  ASSERT_EQ(::kill(victim, SIGKILL), 0);
  EXPECT_EQ(wait_all(), (std::vector<int>{0, 0, 0}));
  const auto report = check::check_history({file("h.bin")}, {.initial = check::Initial::present});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->verdict(), check::Verdict::holds);
  const auto json = nlohmann::json::parse(read_whole(file("a.json")).value());
  EXPECT_EQ(json["history"]["format"], "binary");
  EXPECT_EQ(json["history"]["operations"], report->operations);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2);
}

TEST_F(Processes, AnInterruptLeavesNoBinaryHistory) {
  history_ = "h.bin";
  launch("60s");
  ASSERT_TRUE(await_load());
  for (const pid_t child : children_) ::kill(child, SIGINT);
  EXPECT_EQ(wait_all(), (std::vector<int>{130, 130, 130}));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(Processes, AnInterruptLeavesNothing) {
  launch("60s");
  ASSERT_TRUE(await_load());
  for (const pid_t child : children_) ::kill(child, SIGINT);
  EXPECT_EQ(wait_all(), (std::vector<int>{130, 130, 130}));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace loch::cli
