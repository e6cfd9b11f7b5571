// Makes standard streams safe for every command: closed descriptors, failing output, file size limits.
#include "app/cli/standard_streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <system_error>

namespace loch::cli {
namespace {

constexpr int exit_bad_surroundings = 2;

// Writes to standard error and always reports success, even if bytes are lost.
ssize_t write_or_lose(void*, const char* bytes, std::size_t size) {
  std::size_t at = 0;
  while (at < size) {
    const ssize_t n = ::write(STDERR_FILENO, bytes + at, size - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    at += static_cast<std::size_t>(n);
  }
  return static_cast<ssize_t>(size);
}

void nothing(int) {}

int complain(std::string_view name, std::string_view what) {
  fmt::print(stderr, "loch {}: {}\n", name, what);
  return exit_bad_surroundings;
}

// Flushes standard output; returns the errno of a failed write, or else 0.
int flush_output() {
  errno = 0;
  std::cout.flush();
  const bool is_lost = !std::cout.good() || std::ferror(stdout) != 0;
  if (std::fflush(stdout) != 0 || is_lost) return errno != 0 ? errno : EIO;
  return 0;
}

}  // namespace

void prepare_standard_streams() {
  for (const auto& [descriptor, how] : {std::pair{STDIN_FILENO, O_RDONLY}, std::pair{STDOUT_FILENO, O_RDONLY},
                                        std::pair{STDERR_FILENO, O_WRONLY}}) {
    // A closed standard output is replaced by /dev/null opened for reading, so that writes to it still fail.
    // A closed standard error is replaced by /dev/null opened for writing.
    if (::fcntl(descriptor, F_GETFD) < 0 && errno == EBADF) (void)::open("/dev/null", how);
  }
  struct sigaction action{};
  action.sa_handler = nothing;  // not SIG_IGN, which child processes would inherit
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGXFSZ, &action, nullptr);
  // Replaces stderr by a stream that never fails, because fmt::print throws when its stream fails, and nearly
  // all code prints errors to stderr.
  if (std::FILE* const patient = ::fopencookie(
          nullptr, "w", {.read = nullptr, .write = write_or_lose, .seek = nullptr, .close = nullptr});
      patient != nullptr) {
    std::setvbuf(patient, nullptr, _IONBF, 0);
    stderr = patient;
  }
}

int with_output_checked(std::string_view name, const std::function<int()>& command) {
  int status = exit_bad_surroundings;
  try {
    status = command();
  } catch (const std::bad_alloc&) {
    return complain(name, "needs more memory than there is");
  } catch (const std::system_error& error) {
    (void)flush_output();
    return complain(name, std::ferror(stdout) != 0
                              ? fmt::format("standard output: {}", error.code().message())
                              : std::string(error.what()));
  } catch (const std::exception& error) {
    return complain(name, error.what());
  }
  if (const int lost = flush_output(); lost != 0) {
    complain(name, fmt::format("standard output: {}", std::strerror(lost)));
    return status == 0 ? exit_bad_surroundings : status;
  }
  return status;
}

}  // namespace loch::cli
