// Runs the work of a rank in a child process. mpirun ends a whole job when one of its processes dies by a
// signal; here the child may be killed, as in tests of a store that kill clients, while mpirun's process
// lives on.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace loch::cluster {

struct SuperviseConfig {
  std::string label = "process";  // name in messages, such as "node 1"
  // Called in the supervisor after the child was killed by a signal and reaped, to mark the rank lost and
  // release its resources.
  std::function<void(pid_t child, int signal)> on_killed;
  // Called whenever the child has ended; if a signal killed the child, on_killed is called first.
  std::function<void()> on_ended;
  // Called in the supervisor in place of waitpid: waits for the child's end, may do other work meanwhile,
  // and returns the child's wait status.
  std::function<int(pid_t child)> wait;
};

// Forks, runs `child` in the child process and exits there with the status that `child` returns. The
// parent waits, forwards SIGINT, SIGTERM and SIGHUP to the child, and returns the child's exit status. A
// child that was killed is reported on standard error ("node 1 (process 1234) was killed by signal 9")
// and counts as status 0, because its death is a result and not an error; unless a forwarded signal killed
// it: then the status is 128 and the signal's number, as a shell has it. The kernel kills the child if the
// supervisor dies. To be called before the process has threads.
[[nodiscard]] int supervise(const std::function<int()>& child, const SuperviseConfig& config);

// To be called from SuperviseConfig::wait after the child was restarted: signals are forwarded to process
// `child` from now on, and messages name it.
void supervise_instead(pid_t child);

}  // namespace loch::cluster
