// Starts a server program in its own folder, watches it, and ends it together with this process.
#include "baselines/server_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>

#include "baselines/address.h"

namespace loch::baselines {
namespace {

namespace fs = std::filesystem;

std::string temporary_folder() {
  const char* given = std::getenv("TMPDIR");
  // A Unix socket's path may have 107 bytes, so a long TMPDIR is not used.
  return given != nullptr && given[0] == '/' && std::strlen(given) < 60 ? given : "/tmp";
}

// A hash of the machine's boot id and of this process's PID namespace. Process ids are unique only within one
// namespace of one boot, and other machines or containers may share the temporary folder.
std::string world() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string boot;
  in >> boot;
  std::error_code ignored;
  const std::string space = fs::read_symlink("/proc/self/ns/pid", ignored).string();
  return fmt::format("{:08x}", static_cast<std::uint32_t>(std::hash<std::string>{}(boot + space)));
}

// Whether the folder's name, such as "loch-servers-WORLD-1234-AbCdEf", belongs to process 1234 of this
// namespace and that process has ended.
bool is_abandoned(const fs::path& folder, const std::string& prefix) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(prefix)) return false;
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(name.c_str() + prefix.size(), name.c_str() + name.size(), pid);
  return error == std::errc{} && *end == '-' && pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH;
}

void remove_abandoned(const std::string& parent, const std::string& prefix) {
  std::error_code ignored;
  for (fs::directory_iterator at(parent, ignored), end; !ignored && at != end; at.increment(ignored)) {
    std::error_code refused;  // ignored: the folder of another user's process cannot be removed
    if (is_abandoned(at->path(), prefix)) fs::remove_all(at->path(), refused);
  }
}

// Runs in the child between fork and exec, and makes only system calls. `report` receives errno if the
// program cannot be executed.
[[noreturn]] void become(const char* program, char* const* arguments, int log, int report, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // the parent died before PR_SET_PDEATHSIG was set
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // Moves the log to a descriptor from 10 on, because its present one may be one of those to be replaced
  // below (0 to 2) if they were closed in this process.
  log = ::fcntl(log, F_DUPFD, 10);
  report = ::fcntl(report, F_DUPFD, 10);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, 0);
  ::dup2(log, 1);
  ::dup2(log, 2);
  ::dup3(report, 3, O_CLOEXEC);
  ::syscall(SYS_close_range, 4U, ~0U, 0U);
  ::execv(program, arguments);
  const int problem = errno;
  [[maybe_unused]] const auto told = ::write(3, &problem, sizeof problem);
  ::_exit(127);
}

}  // namespace

Result<std::unique_ptr<ServerFolder>> ServerFolder::make() {
  const std::string parent = temporary_folder();
  const std::string prefix = fmt::format("loch-servers-{}-", world());
  remove_abandoned(parent, prefix);
  std::string path = fmt::format("{}/{}{}-XXXXXX", parent, prefix, ::getpid());
  if (::mkdtemp(path.data()) == nullptr) {
    return fail(ErrorCode::unavailable, fmt::format("{}: no folder for the servers' sockets can be made: {}",
                                                    parent, std::strerror(errno)));
  }
  return std::unique_ptr<ServerFolder>(new ServerFolder(std::move(path)));
}

ServerFolder::~ServerFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

Result<std::string> find_program(const std::string& given, const std::vector<std::string>& names,
                                 const std::string& beside, std::string_view flag, std::string_view package) {
  const auto runs = [](const std::string& path) {
    std::error_code ignored;
    return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
  };
  // The path of a program in a folder; empty for an empty folder name, which would otherwise give a path that
  // begins at the root.
  const auto inside = [](std::string_view folder, const std::string& name) {
    return folder.empty() ? std::string() : fmt::format("{}/{}", folder, name);
  };
  if (!given.empty()) {
    if (runs(given)) return given;
    return fail(ErrorCode::invalid_argument, fmt::format("--{}: {} is no program", flag, given));
  }
  const char* path = std::getenv("PATH");
  for (const std::string& name : names) {
    std::istringstream folders(path != nullptr ? path : "");
    for (std::string folder; std::getline(folders, folder, ':');) {
      if (std::string found = inside(folder, name); runs(found)) return found;
    }
    if (std::string found = inside(beside, name); runs(found)) return found;
  }
  return fail(ErrorCode::unsupported,
              fmt::format("{} is not on this machine: ./loch brings it, or install Debian's {}, or name the "
                          "program with --{}",
                          fmt::join(names, " or "), package, flag));
}

Result<std::unique_ptr<ServerProcess>> ServerProcess::start(const Spec& spec) {
  const auto sorry = [&](int problem) {
    return fail(ErrorCode::unavailable,
                fmt::format("{} cannot be started: {}", spec.program, std::strerror(problem)));
  };
  const int log = ::open(spec.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  int report[2] = {-1, -1};
  if (log < 0 || ::pipe2(report, O_CLOEXEC) != 0) return sorry(errno);
  std::vector<std::string> copies = spec.arguments;
  std::vector<char*> arguments;
  arguments.reserve(copies.size() + 1);
  for (std::string& each : copies) arguments.push_back(each.data());
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) become(spec.program.c_str(), arguments.data(), log, report[1], parent);
  int problem = pid < 0 ? errno : 0;
  ::close(log);
  ::close(report[1]);
  if (pid > 0) {
    // The read does not wait for the program: exec closes the pipe's other end, or the child writes its
    // errno.
    ssize_t got = 0;
    do got = ::read(report[0], &problem, sizeof problem);
    while (got < 0 && errno == EINTR);
    if (got != sizeof problem) problem = 0;
  }
  ::close(report[0]);
  if (pid < 0) return sorry(problem);
  std::unique_ptr<ServerProcess> process(new ServerProcess(pid, spec.log));
  if (problem != 0) return sorry(problem);
  return process;
}

ServerProcess::~ServerProcess() {
  if (!is_alive()) return;
  // SIGKILL, because the server has nothing to save, and memcached needs a second to end on SIGTERM.
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) continue;
}

bool ServerProcess::is_alive() {
  if (has_ended_) return false;
  const pid_t found = ::waitpid(pid_, &status_, WNOHANG);
  has_ended_ = found == pid_ || (found < 0 && errno == ECHILD);
  return !has_ended_;
}

std::string ServerProcess::last_words() const {
  if (WIFSIGNALED(status_)) return fmt::format("it was ended by signal {}", WTERMSIG(status_));
  const std::string end = fmt::format("status {}", WEXITSTATUS(status_));
  std::ifstream in(log_);
  std::string line, last;
  while (std::getline(in, line)) {
    if (!line.empty()) last = line;
  }
  return last.empty() ? fmt::format("it ended with {}", end) : fmt::format("it ended with {}: {}", end, last);
}

double ServerProcess::cpu_s() const {
  std::ifstream in(fmt::format("/proc/{}/stat", pid_));
  std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto name_end = text.rfind(')');  // the program's name may contain spaces and parentheses
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;  // skips 11 fields of /proc/PID/stat: state to cmajflt
  double user = 0, kernel = 0;
  fields >> user >> kernel;
  return (user + kernel) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace loch::baselines
