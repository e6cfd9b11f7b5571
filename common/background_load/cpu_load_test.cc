// Tests that background processes wait for go(), hash, stay on their cores, and die with their parent.
#include "common/background_load/cpu_load.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "common/background_load/cores.h"

namespace loch::background {
namespace {

using std::chrono::milliseconds;

bool eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 1000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

std::vector<pid_t> children() {
  std::ifstream in("/proc/thread-self/children");
  std::vector<pid_t> all;
  for (pid_t pid = 0; in >> pid;) all.push_back(pid);
  return all;
}

TEST(CpuLoad, WaitForTheWordHashAndStop) {
  auto load = CpuLoad::start({.workers = 2}).value();
  std::this_thread::sleep_for(milliseconds(50));
  for (const WorkerUsage& each : load->usage()) EXPECT_EQ(each.hashes, 0U);
  load->go();
  EXPECT_TRUE(eventually([&] {
    const auto usage = load->usage();
    return usage[0].hashes > 1000 && usage[1].hashes > 1000 && usage[0].cpu > 0 && usage[1].cpu > 0;
  }));
  EXPECT_EQ(load->stop(), 0U);
  const auto at_end = load->usage();
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(load->usage()[0].hashes, at_end[0].hashes) << "a stopped background worker hashes no more";
  EXPECT_EQ(load->usage()[0].cpu, at_end[0].cpu);
  EXPECT_GT(at_end[1].cpu, 0);
}

TEST(CpuLoad, StayOnTheirCores) {
  const std::uint32_t core = usable_cores().back();
  auto load = CpuLoad::start({.workers = 1, .cores = {core}}).value();
  const auto pids = children();
  ASSERT_EQ(pids.size(), 1U);
  std::ifstream in("/proc/" + std::to_string(pids[0]) + "/status");
  std::string allowed;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("Cpus_allowed_list:")) allowed = line.substr(line.find('\t') + 1);
  }
  EXPECT_EQ(allowed, std::to_string(core));
}

TEST(CpuLoad, RefuseACoreThatIsNotOurs) {
  const auto load = CpuLoad::start({.workers = 2, .cores = {0, 1023}});
  ASSERT_FALSE(load.has_value());
  EXPECT_EQ(load.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(load.error().message, testing::HasSubstr("cannot be pinned"));
  EXPECT_TRUE(children().empty()) << "nothing is left behind";
}

TEST(CpuLoad, ALostOneIsCounted) {
  auto load = CpuLoad::start({.workers = 2}).value();
  load->go();
  kill(children().at(0), SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(load->stop(), 1U);
  EXPECT_EQ(load->stop(), 1U);
}

// Background workers must die with a parent that is killed by SIGKILL: the experiment runner ends
// overlong measurements that way.
TEST(CpuLoad, DieWithTheirParent) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(pipe(ends), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    auto load = CpuLoad::start({.workers = 1});
    const pid_t background = load ? children().at(0) : 0;
    if (write(ends[1], &background, sizeof background) != sizeof background) _exit(1);
    pause();
    _exit(1);
  }
  pid_t background = 0;
  ASSERT_EQ(read(ends[0], &background, sizeof background), static_cast<ssize_t>(sizeof background));
  ASSERT_GT(background, 0);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  const std::string folder = "/proc/" + std::to_string(background);
  EXPECT_TRUE(eventually([&] {
    std::ifstream in(folder + "/stat");
    std::string line;
    return !std::getline(in, line) || line.find(") Z ") != std::string::npos;
  }));
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace loch::background
