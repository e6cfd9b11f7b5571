// Forks a child process for a rank's work, forwards signals to it, and reports how it ended.
#include "common/cluster/supervise.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "common/base/check.h"
#include "common/base/die_with_parent.h"

namespace loch::cluster {
namespace {

constexpr int forwarded[] = {SIGINT, SIGTERM, SIGHUP};

// Process id of the child, and the signal forwarded last (0: none); static, because a signal handler has no
// argument to pass them.
std::atomic<pid_t> supervised = 0;
std::atomic<int> last_forwarded = 0;
static_assert(std::atomic<pid_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void forward(int signal) {
  last_forwarded.store(signal);
  if (const pid_t child = supervised.load(); child > 0) kill(child, signal);
}

int run_child(const std::function<int()>& child, pid_t supervisor) {
  if (!die_with_parent(supervisor)) _exit(1);
  const int status = child();
  std::fflush(nullptr);
  _exit(status);
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    LOCH_CHECK(errno == EINTR, "waitpid: {}", std::strerror(errno));
  }
  return status;
}

}  // namespace

void supervise_instead(pid_t child) { supervised.store(child); }

int supervise(const std::function<int()>& child, const SuperviseConfig& config) {
  LOCH_CHECK(supervised.load() == 0, "a process supervises one child at a time");
  std::fflush(nullptr);  // else parent and child would both write the buffered output
  // Block the forwarded signals until the child's process id is known.
  sigset_t mask, before;
  sigemptyset(&mask);
  for (const int signal : forwarded) sigaddset(&mask, signal);
  sigprocmask(SIG_BLOCK, &mask, &before);
  const pid_t supervisor = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    run_child(child, supervisor);
  }
  if (pid < 0) {
    std::fprintf(stderr, "%s: cannot start: %s\n", config.label.c_str(), std::strerror(errno));
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return 1;
  }
  struct sigaction old_actions[std::size(forwarded)];
  struct sigaction action{};
  action.sa_handler = forward;
  supervised.store(pid);
  last_forwarded.store(0);
  for (std::size_t i = 0; i < std::size(forwarded); ++i) sigaction(forwarded[i], &action, &old_actions[i]);
  sigprocmask(SIG_SETMASK, &before, nullptr);

  const int status = config.wait ? config.wait(pid) : wait_for(pid);
  const pid_t last = supervised.exchange(0);
  for (std::size_t i = 0; i < std::size(forwarded); ++i) sigaction(forwarded[i], &old_actions[i], nullptr);
  int result = 1;
  if (WIFEXITED(status)) {
    result = WEXITSTATUS(status);
  } else if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    std::fprintf(stderr, "%s (process %d) was killed by signal %d\n", config.label.c_str(), last, signal);
    if (config.on_killed) config.on_killed(last, signal);
    result = signal == last_forwarded.load() ? 128 + signal : 0;
  }
  if (config.on_ended) config.on_ended();
  return result;
}

}  // namespace loch::cluster
