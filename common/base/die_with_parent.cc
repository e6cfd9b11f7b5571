// Asks the kernel to kill this process when its parent ends, and reads the variable that names the parent.
#include "common/base/die_with_parent.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <string>

namespace loch {

bool die_with_parent(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  return ::getppid() == parent;  // else it ended before the kernel was asked
}

bool die_with_named_parent() {
  const char* given = std::getenv(parent_variable);
  if (given == nullptr) return true;
  const std::string text = given;
  ::unsetenv(parent_variable);
  pid_t parent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parent);
  if (error != std::errc{} || end != text.data() + text.size() || parent <= 0) return false;
  return ::getppid() == parent ? die_with_parent(parent) : ::kill(parent, 0) == 0 || errno == EPERM;
}

}  // namespace loch
