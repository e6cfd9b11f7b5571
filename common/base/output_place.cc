// Resolves the symbolic links of an output's name and writes the output to the file, device or pipe
// found.
#include "common/base/output_place.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace loch {
namespace {

namespace files = std::filesystem;
constexpr int links_max = 40;  // symbolic links followed at most; Linux has the same limit

int number_of(std::string_view digits) {
  int number = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc{} && end == digits.data() + digits.size() && number >= 0 ? number : -1;
}

// Returns the descriptor that names such as /dev/stdout or /dev/fd/3 denote, else -1. An output that this
// process has open already is written through its descriptor: opening the name again would write from the
// first byte.
int descriptor_of(const std::string& path) {
  std::error_code failure;
  const std::string whole = files::absolute(path, failure).lexically_normal().string();
  const std::string_view text = whole;
  if (text == "/dev/stdout") return STDOUT_FILENO;
  if (text == "/dev/stderr") return STDERR_FILENO;
  const std::string own = fmt::format("/proc/{}/fd/", ::getpid());
  for (const std::string_view folder :
       {std::string_view("/dev/fd/"), std::string_view("/proc/self/fd/"), std::string_view(own)}) {
    if (text.starts_with(folder)) return number_of(text.substr(folder.size()));
  }
  return -1;
}

// Writes all of `text` and closes the file; on failure returns false and sets errno.
bool write_and_close(int file, std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const ssize_t n = ::write(file, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int reason = n == 0 ? ENOSPC : errno;
      ::close(file);
      errno = reason;
      return false;
    }
    at += static_cast<std::size_t>(n);
  }
  return ::close(file) == 0;
}

std::unexpected<Error> wrong(const std::string& path, std::string_view why) {
  return fail(ErrorCode::invalid_argument, fmt::format("{}: cannot write: {}", path, why));
}

}  // namespace

Result<OutputPlace> output_place(const std::string& path) {
  OutputPlace place{.path = path};
  if (path == "-") return OutputPlace{path, false, STDOUT_FILENO};
  for (int links = 0; links < links_max; ++links) {
    if (const int own = descriptor_of(place.path); own >= 0) return OutputPlace{place.path, false, own};
    std::error_code failure;
    const files::path target = files::read_symlink(place.path, failure);
    if (failure) break;  // the path is not a symbolic link
    place.path = (files::path(place.path).parent_path() / target).string();
  }
  struct stat about{};
  if (::stat(place.path.c_str(), &about) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return place;
    return wrong(path, std::strerror(errno));
  }
  if (S_ISDIR(about.st_mode)) return wrong(path, "it is a folder; expected a file");
  place.is_file = S_ISREG(about.st_mode);
  return place;
}

Result<int> open_as_it_is(const OutputPlace& place) {
  if (place.descriptor == STDOUT_FILENO) std::fflush(stdout);
  const int file = place.descriptor >= 0 ? ::fcntl(place.descriptor, F_DUPFD_CLOEXEC, 3)
                                         : ::open(place.path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  if (file < 0) return wrong(place.path, std::strerror(errno));
  return file;
}

Result<> write_output(const std::string& path, std::string_view text) {
  LOCH_ASSIGN(const OutputPlace place, output_place(path));
  if (!place.is_file) {
    LOCH_ASSIGN(const int device, open_as_it_is(place));
    if (write_and_close(device, text)) return {};
    return wrong(place.descriptor == STDOUT_FILENO ? "standard output" : path, std::strerror(errno));
  }
  const std::string temporary = fmt::format("{}.{}.tmp", place.path, ::getpid());
  const auto give_up = [&](const char* step) {
    const std::string reason = std::strerror(errno);
    ::unlink(temporary.c_str());
    return fail(ErrorCode::invalid_argument, fmt::format("{}: cannot {}: {}", path, step, reason));
  };
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return give_up("write");
  if (!write_and_close(file, text)) return give_up("write");
  if (::rename(temporary.c_str(), place.path.c_str()) != 0) return give_up("rename the finished file");
  return {};
}

std::string why_no_output(const std::string& path) {
  const auto place = output_place(path);
  if (!place) return place.error().message.substr(path.size() + 2);
  if (place->descriptor >= 0) return {};
  if (!place->is_file) return ::access(place->path.c_str(), W_OK) == 0 ? "" : "it cannot be written to";
  const files::path folder = files::path(place->path).parent_path();
  return ::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) == 0
             ? ""
             : "its folder cannot be written to";
}

}  // namespace loch
