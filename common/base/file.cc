// Reads whole files of a bounded size.
#include "common/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace loch {

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

}  // namespace loch
