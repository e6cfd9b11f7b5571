// A server program that ends with this process: it is killed when its object is destroyed, and by the kernel
// when this process dies in any other way (PR_SET_PDEATHSIG).
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"

namespace loch::baselines {

// A private folder under $TMPDIR or /tmp for sockets and logs, removed with the object. Making one also
// removes the folders of processes that died without removing theirs.
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

// Finds a server program: `given` if not empty, else the first of `names` on PATH or in the folder `beside`
// (may be empty). The error is one line that says how to install the program; `flag` is the option that names
// it.
[[nodiscard]] Result<std::string> find_program(const std::string& given,
                                               const std::vector<std::string>& names,
                                               const std::string& beside, std::string_view flag,
                                               std::string_view package);

class ServerProcess {
 public:
  struct Spec {
    std::string program;                 // path of the program
    std::vector<std::string> arguments;  // argv, including the program's name
    std::string log;                     // file for the program's output
  };
  // Starts the program in its own process group, so that Ctrl-C is handled by this process only. The program
  // is killed when the calling thread ends, so call this on the main thread.
  [[nodiscard]] static Result<std::unique_ptr<ServerProcess>> start(const Spec& spec);
  // Kills the program by SIGKILL.
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Whether the program still runs; reaps it if it has ended.
  [[nodiscard]] bool is_alive();
  // Why the program ended, with the end of its log: "it ended with status 1: failed to bind …". To be called
  // only after is_alive() returned false.
  [[nodiscard]] std::string last_words() const;
  // CPU time in seconds that the program has used; 0 if unknown.
  [[nodiscard]] double cpu_s() const;

 private:
  ServerProcess(pid_t pid, std::string log) : pid_(pid), log_(std::move(log)) {}
  pid_t pid_;
  std::string log_;
  bool has_ended_ = false;
  int status_ = 0;
};

}  // namespace loch::baselines
