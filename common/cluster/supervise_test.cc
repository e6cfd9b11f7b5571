// Tests that a child's exit status is returned, its death by a signal reported, and signals are forwarded
// to it.
#include "common/cluster/supervise.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

namespace loch::cluster {
namespace {

TEST(Supervise, GivesTheChildsStatus) {
  bool killed = false, ended = false;
  const SuperviseConfig config{"node 0", [&](pid_t, int) { killed = true; }, [&] { ended = true; }};
  EXPECT_EQ(supervise([] { return 0; }, config), 0);
  EXPECT_EQ(supervise([] { return 3; }, config), 3);
  EXPECT_FALSE(killed);
  EXPECT_TRUE(ended);
}

TEST(Supervise, ADeathIsReportedAndNotPassedOn) {
  pid_t dead = 0;
  int by = 0;
  const SuperviseConfig config{"node 1", [&](pid_t pid, int signal) { dead = pid, by = signal; }, {}};
  testing::internal::CaptureStderr();
  const int status = supervise(
      [] {
        kill(getpid(), SIGKILL);
        return 5;
      },
      config);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(by, SIGKILL);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "node 1 (process " + std::to_string(dead) + ") was killed by signal 9\n");
  EXPECT_EQ(kill(dead, 0), -1);  // the child was reaped
  EXPECT_EQ(errno, ESRCH);
}

// A supervisor in a process of its own; its child writes its process id to a pipe and waits.
struct Family {
  pid_t supervisor = 0, child = 0;
  int pipe_end = -1;
};

Family start_family(bool has_handler = true) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  Family family;
  family.supervisor = fork();
  if (family.supervisor == 0) {
    close(ends[0]);
    const int out = ends[1];
    _exit(supervise(
        [out, has_handler] {
          if (has_handler) signal(SIGTERM, [](int) { _exit(42); });
          const pid_t self = getpid();
          (void)!write(out, &self, sizeof self);
          for (;;) pause();
          return 0;
        },
        {}));
  }
  close(ends[1]);
  EXPECT_EQ(read(ends[0], &family.child, sizeof family.child), static_cast<ssize_t>(sizeof family.child));
  family.pipe_end = ends[0];
  return family;
}

// A run that is asked to end before its child has handlers has not ended well.
TEST(Supervise, AChildKilledByAForwardedSignalHasTheStatusOfAShell) {
  const Family family = start_family(false);
  kill(family.supervisor, SIGTERM);
  int status = 0;
  waitpid(family.supervisor, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);
  close(family.pipe_end);
}

TEST(Supervise, PassesSignalsOn) {
  const Family family = start_family();
  kill(family.supervisor, SIGTERM);
  int status = 0;
  waitpid(family.supervisor, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42);
  close(family.pipe_end);
}

TEST(Supervise, TheChildDiesWithItsSupervisor) {
  const Family family = start_family();
  kill(family.supervisor, SIGKILL);
  waitpid(family.supervisor, nullptr, 0);
  char byte = 0;
  EXPECT_EQ(read(family.pipe_end, &byte, 1), 0);  // end of file: the child, which held the write end, is dead
  close(family.pipe_end);
}

}  // namespace
}  // namespace loch::cluster
