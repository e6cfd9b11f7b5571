// A server program that this process started, and that ends with it: stopped when the object goes, and
// killed by the kernel when this process dies in any other way (PR_SET_PDEATHSIG).
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"

namespace loch::baselines {

// A folder of this user's alone under $TMPDIR or /tmp, for sockets and logs; removed with the object. Those
// of processes that died without removing them are removed when the next one is made.
class ServerFolder {
 public:
  [[nodiscard]] static Result<std::unique_ptr<ServerFolder>> make();
  ~ServerFolder();
  ServerFolder(const ServerFolder&) = delete;
  ServerFolder& operator=(const ServerFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit ServerFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// The program to run: `given` if it is not empty, else the first of `names` on PATH, else in `beside` (a
// folder; may be empty). The error is one line that says how to get it; `flag` is the option that names it.
[[nodiscard]] Result<std::string> find_program(const std::string& given,
                                               const std::vector<std::string>& names,
                                               const std::string& beside, std::string_view flag,
                                               std::string_view package);

class ServerProcess {
 public:
  struct Spec {
    std::string program;                 // path
    std::vector<std::string> arguments;  // argv, its name first
    std::string log;                     // file for what it prints
  };
  // Starts it, in a process group of its own so that a Ctrl-C is this process's to handle. It lives no
  // longer than the calling thread, which must be the one that lives as long as the process.
  [[nodiscard]] static Result<std::unique_ptr<ServerProcess>> start(const Spec& spec);
  // Stops it, by SIGKILL.
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Looks; a program that has ended is reaped.
  [[nodiscard]] bool is_alive();
  // "it ended with status 1: failed to bind …": the end of its log. Only after is_alive() said no.
  [[nodiscard]] std::string last_words() const;
  // CPU time that it has used, in seconds; 0 when nobody can tell.
  [[nodiscard]] double cpu_s() const;

 private:
  ServerProcess(pid_t pid, std::string log) : pid_(pid), log_(std::move(log)) {}
  pid_t pid_;
  std::string log_;
  bool has_ended_ = false;
  int status_ = 0;
};

}  // namespace loch::baselines
