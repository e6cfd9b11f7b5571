// Tests the control plane under mpirun with three ranks on this machine: a rank is killed, its launcher
// process is killed, it comes late to a collective call, or it ends early.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <string>

namespace loch::cluster {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Launch {
  int status = -1;
  std::string output;
};

// Launches three ranks with mpirun as the experiment runner does, over the loopback interface alone.
// After a minute a launch that hangs is ended with status 124.
Launch launch(const std::string& scenario, const std::string& lost_after = "2s") {
  const std::string command =
      "LOCH_LOST_AFTER=" + lost_after +
      " timeout 60 mpirun --allow-run-as-root --oversubscribe --enable-recovery --bind-to none "
      "--mca btl_tcp_if_include lo --mca oob_tcp_if_include lo -n 3 " LOCH_CONTROL_RANK " " +
      scenario + " 2>&1";
  Launch result;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return result;
  char buffer[4096];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    result.output.append(buffer, n);
  const int status = pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

double noticed_after_ms(const std::string& output) {
  std::smatch found;
  const std::regex pattern("noticed after ([0-9.]+) ms");
  return std::regex_search(output, found, pattern) ? std::stod(found[1]) : -1;
}

class ControlRank : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "mpirun is not installed";
  }
};

TEST_F(ControlRank, RanksMeetAndTalk) {
  const Launch all = launch("meet", "5s");
  EXPECT_EQ(all.status, 0) << all.output;
  EXPECT_THAT(all.output, HasSubstr("met: 0:2 1:2 2:2 | 3000000 c | unheard for 5s at most |"));
  EXPECT_THAT(all.output, Not(HasSubstr("refused")));
}

// Starts three ranks without mpirun or srun, but with the variables that srun sets; they exchange messages
// through files in `folder`.
Launch launch_in(const std::string& folder, const std::string& scenario) {
  const std::string command =
      "cd " + folder +
      " && for rank in 0 1 2; do LOCH_LOST_AFTER=2s SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_NTASKS=3 "
      "SLURM_PROCID=$rank timeout 60 " LOCH_CONTROL_RANK " " +
      scenario + " & done 2>&1; wait; ls -A";
  Launch result;
  std::FILE* pipe = popen(("{ " + command + "; } 2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  char buffer[4096];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    result.output.append(buffer, n);
  result.status = pclose(pipe);
  return result;
}

TEST(ControlRankInAFolder, RanksMeetWithoutMpirunAndLeaveNothingBehind) {
  std::string folder = testing::TempDir() + "loch-ranks-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const Launch all = launch_in(folder, "meet");
  EXPECT_THAT(all.output, HasSubstr("met: 0:2 1:2 2:2 | 3000000 c |"));
  EXPECT_THAT(all.output, Not(HasSubstr(".loch")));
  const Launch rest = launch_in(folder, "launcher");
  EXPECT_THAT(rest.output, HasSubstr("is lost: nothing was heard of it for 2s"));
  EXPECT_THAT(rest.output, HasSubstr("lost: [true,,true]"));
  EXPECT_THAT(rest.output, Not(HasSubstr(".loch")));
  std::filesystem::remove_all(folder);
}

TEST_F(ControlRank, AKilledChildIsKnownAtOnceAndTheOthersGoOn) {
  const Launch rest = launch("child", "15s");  // a loss noticed by silence would take longer than 15 s
  EXPECT_EQ(rest.status, 0) << rest.output;
  EXPECT_THAT(rest.output, testing::ContainsRegex("node 1 \\(process [0-9]+\\) was killed by signal 9"));
  EXPECT_THAT(rest.output, HasSubstr("lost: [true,,true]"));
  EXPECT_GE(noticed_after_ms(rest.output), 0) << rest.output;
  EXPECT_LT(noticed_after_ms(rest.output), 8000) << rest.output;
}

TEST_F(ControlRank, AKilledLauncherIsMissedAfterTheStatedSilence) {
  const Launch rest = launch("launcher");
  EXPECT_EQ(rest.status, 0) << rest.output;
  EXPECT_THAT(rest.output, HasSubstr("is lost: nothing was heard of it for 2s"));
  EXPECT_THAT(rest.output, HasSubstr("lost: [true,,true]"));
  EXPECT_GT(noticed_after_ms(rest.output), 1000) << rest.output;
  EXPECT_LT(noticed_after_ms(rest.output), 20000) << rest.output;  // a generous bound, for a busy machine
}

TEST_F(ControlRank, AKilledRankComesBackAndHearsNothingThatWasMeantForItsFormerIncarnation) {
  const Launch rest = launch("again", "15s");  // a loss noticed by silence would take longer than 15 s
  EXPECT_EQ(rest.status, 0) << rest.output;
  EXPECT_THAT(rest.output,
              testing::ContainsRegex("node 1 \\(process [0-9]+\\) was killed by signal 9, and is "
                                     "started again as process [0-9]+"));
  for (const char* rank : {"0", "2"}) {
    EXPECT_THAT(rest.output,
                HasSubstr(std::string(rank) + ": incarnation 0; strange 0; lost 1; back 1; incarnation 1; "
                                              "strange 0; lost 1; back 1; incarnation 2; "
                                              "strange 0; \n"));
  }
  EXPECT_THAT(rest.output, Not(HasSubstr("refused")));
}

TEST_F(ControlRank, AStopOfMpirunIsNotTheSilenceOfTheRanks) {
  const Launch all = launch("stall 4");
  EXPECT_EQ(all.status, 0) << all.output;
  EXPECT_THAT(all.output, HasSubstr("stalled: 0 lost, [here,here,here]"));
}

TEST_F(ControlRank, ALateRankIsNamedWithItsHost) {
  const Launch all = launch("late");
  EXPECT_EQ(all.status, 0) << all.output;
  EXPECT_THAT(all.output,
              testing::ContainsRegex("late: start line: no word within 500ms from rank 2 \\(.+\\)"));
}

TEST_F(ControlRank, AnEarlyEndIsAnErrorForTheOthers) {
  const Launch all = launch("ends");
  // with --enable-recovery mpirun ignores the exit statuses of its ranks
  EXPECT_EQ(all.status, 0) << all.output;
  EXPECT_THAT(all.output, testing::ContainsRegex(
                              "ended: endpoints: rank 2 \\(.+\\) has ended with exit status 3 before"));
}

TEST_F(ControlRank, ASilenceThatIsNoTimeIsRefused) {
  for (const auto& [text, says] : {std::pair{"20", "LOCH_LOST_AFTER"}, {"400ms", "expected more than 500ms"}})
    EXPECT_THAT(launch("meet", text).output, HasSubstr(says));
}

}  // namespace
}  // namespace loch::cluster
