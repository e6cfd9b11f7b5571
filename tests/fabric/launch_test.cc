// Tests the real launcher (mpirun): ranks find each other, and the death of one rank does not end the job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace loch {
namespace {

struct Launch {
  int status = -1;
  std::string output;
};

Launch launch(const std::string& arguments) {
  const std::string command =
      "mpirun --allow-run-as-root --oversubscribe -n 3 " LOCH_RANK_PROGRAM " " + arguments + " 2>&1";
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

class LaunchTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "mpirun is not installed";
  }
};

TEST_F(LaunchTest, RanksShareOneFabric) {
  const Launch all = launch("");
  EXPECT_EQ(all.status, 0) << all.output;
  EXPECT_THAT(all.output, testing::AllOf(testing::HasSubstr("[node 0 counted 3000]"),
                                         testing::HasSubstr("[node 1 counted 3000]"),
                                         testing::HasSubstr("[node 2 counted 3000]")));
}

TEST_F(LaunchTest, AKilledRankIsLeftOut) {
  const Launch rest = launch("1");
  EXPECT_EQ(rest.status, 0) << rest.output;
  EXPECT_THAT(rest.output, testing::ContainsRegex("node 1 \\(process [0-9]+\\) was killed by signal 9"));
  EXPECT_THAT(rest.output,
              testing::AllOf(testing::HasSubstr("[node 0 counted 2500]"), testing::HasSubstr("[]"),
                             testing::HasSubstr("[node 2 counted 2500]")));
}

}  // namespace
}  // namespace loch
