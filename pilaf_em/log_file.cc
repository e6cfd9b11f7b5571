// The real disk of a log: files by pread, pwrite, fdatasync and ftruncate, with every result checked.
#include "pilaf_em/log_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace loch::pilaf {
namespace {

std::unexpected<Error> failed(const char* what) {
  return fail(ErrorCode::unavailable, fmt::format("{}: {}", what, std::strerror(errno)));
}

class Descriptor {
 public:
  explicit Descriptor(int file) : file_(file) {}
  ~Descriptor() {
    if (file_ >= 0) close(file_);
  }
  Descriptor(Descriptor&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  [[nodiscard]] int operator*() const { return file_; }

 private:
  int file_;
};

class PosixFile final : public LogFile {
 public:
  explicit PosixFile(Descriptor file) : file_(std::move(file)) {}

  Result<std::uint64_t> size() override {
    struct stat status{};
    if (fstat(*file_, &status) != 0) return failed("cannot be looked at");
    return static_cast<std::uint64_t>(status.st_size);
  }

  Result<std::size_t> read(std::uint64_t at, std::span<std::byte> out) override {
    std::size_t got = 0;
    while (got < out.size()) {
      const ssize_t n = pread(*file_, out.data() + got, out.size() - got, static_cast<off_t>(at + got));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return failed("cannot be read");
      if (n == 0) break;
      got += static_cast<std::size_t>(n);
    }
    return got;
  }

  Result<std::size_t> write(std::uint64_t at, std::span<const std::byte> bytes) override {
    for (;;) {
      const ssize_t n = pwrite(*file_, bytes.data(), bytes.size(), static_cast<off_t>(at));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return failed("cannot be written");
      return static_cast<std::size_t>(n);
    }
  }

  // Not retried even after EINTR: a failed fdatasync may have marked unwritten pages as clean.
  Result<> sync() override {
    if (fdatasync(*file_) != 0) return failed("cannot be brought to the disk");
    return {};
  }

  Result<> truncate(std::uint64_t bytes) override {
    if (ftruncate(*file_, static_cast<off_t>(bytes)) != 0) return failed("cannot be cut");
    return {};
  }

 private:
  Descriptor file_;
};

}  // namespace

Result<std::unique_ptr<LogFile>> PosixDisk::open(const std::string& path) {
  // O_NONBLOCK, so that opening a pipe without a reader does not hang.
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644));
  if (*file < 0) {
    const bool is_wrong = errno == ENOENT || errno == ENOTDIR || errno == EISDIR || errno == EACCES ||
                          errno == EROFS || errno == ENAMETOOLONG || errno == ELOOP;
    std::unexpected<Error> error = failed("cannot be opened");
    if (is_wrong) error.error().code = ErrorCode::invalid_argument;
    return error;
  }
  struct stat status{};
  if (fstat(*file, &status) != 0) return failed("cannot be looked at");
  if (!S_ISREG(status.st_mode)) return fail(ErrorCode::invalid_argument, "is no regular file");
  // Two processes writing the same log would damage it.
  if (flock(*file, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return fail(ErrorCode::unavailable, "is another running server's");
    return failed("cannot be locked");
  }
  return std::make_unique<PosixFile>(std::move(file));
}

Result<> PosixDisk::sync_name(const std::string& path) {
  const std::string folder = std::filesystem::absolute(path).parent_path().string();
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (*opened < 0) return failed("is in a folder that cannot be opened");
  if (fsync(*opened) != 0) return failed("is in a folder that cannot be brought to the disk");
  return {};
}

}  // namespace loch::pilaf
