// Runs the work of a rank in a child process, so that its death is not the job's: mpirun ends a job
// when one of its processes dies by a signal, and a store is tested by killing clients.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace loch::cluster {

struct SuperviseConfig {
  std::string label = "process";  // "node 1": named in messages
  // Called in the supervisor after the child was killed by a signal and reaped: nothing of it runs
  // any more. Marks the rank lost, cleans what it left.
  std::function<void(pid_t child, int signal)> on_killed;
  // Called after the child has ended in whatever way, after on_killed.
  std::function<void()> on_ended;
  // In the supervisor: waits for the child's end in the place of waitpid, doing other work meanwhile, and
  // returns the status that waitpid gave.
  std::function<int(pid_t child)> wait;
};

// Forks, runs `child` in the child process and exits there with what it returns. In the parent:
// waits, passes SIGINT, SIGTERM and SIGHUP on to the child, and returns the child's exit status; a
// child that was killed is reported on standard error ("node 1 (process 1234) was killed by signal
// 9") and counts as 0, because its death is a result and not an error. The child does not outlive a
// supervisor that is killed. Call it before the process has threads.
[[nodiscard]] int supervise(const std::function<int()>& child, const SuperviseConfig& config);

// From SuperviseConfig::wait: the work goes on in another process, which gets the signals from now on and
// of which the messages speak.
void supervise_instead(pid_t child);

}  // namespace loch::cluster
