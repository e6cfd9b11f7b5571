// Files written whole or not at all, files read whole within a bound, and what memory there is.
#include "common/measure/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "common/base/output_place.h"

namespace loch::measure {
namespace {

// The number before "kB" on the line of /proc/… that starts with `label`.
std::uint64_t kilobytes(const std::string& text, std::string_view label) {
  const auto at = text.find(label);
  if (at == std::string::npos) return 0;
  const auto digits = text.find_first_of("0123456789", at + label.size());
  if (digits == std::string::npos) return 0;
  std::uint64_t value = 0;
  std::from_chars(text.data() + digits, text.data() + text.size(), value);
  return value * 1024;
}

}  // namespace

Result<> write_whole(const std::string& path, std::string_view text) { return write_output(path, text); }

Result<std::string> read_whole(const std::string& path, std::uint64_t most) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return fail(ErrorCode::invalid_argument, fmt::format("{}: cannot read: {}", path, std::strerror(errno)));
  }
  struct stat about{};
  if (::fstat(file, &about) == 0 && S_ISDIR(about.st_mode)) {
    ::close(file);
    return fail(ErrorCode::invalid_argument, fmt::format("{}: is a folder; expected a file", path));
  }
  std::string text;
  char part[65536];
  while (true) {
    const ssize_t n = ::read(file, part, sizeof part);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 || text.size() > most) {
      const std::string reason = n < 0 ? std::strerror(errno) : fmt::format("larger than {} bytes", most);
      ::close(file);
      return fail(ErrorCode::invalid_argument, fmt::format("{}: cannot read: {}", path, reason));
    }
    if (n == 0) break;
    text.append(part, static_cast<std::size_t>(n));
  }
  ::close(file);
  return text;
}

std::uint64_t peak_memory_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

std::uint64_t available_memory_bytes() {
  const auto text = read_whole("/proc/meminfo");
  return text ? kilobytes(*text, "MemAvailable:") : 0;
}

}  // namespace loch::measure
