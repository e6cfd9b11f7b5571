// The file that a log is written to, and the disk that it lies on: the real ones, and the place where tests
// put a disk that tears, loses and refuses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/base/result.h"

namespace loch::pilaf {

// An open file. One thread calls at a time. Errors say what failed and why, without the file's name.
class LogFile {
 public:
  virtual ~LogFile() = default;
  [[nodiscard]] virtual Result<std::uint64_t> size() = 0;
  // Reads what the file holds from `at` on; the bytes read are fewer than asked for at its end alone.
  [[nodiscard]] virtual Result<std::size_t> read(std::uint64_t at, std::span<std::byte> out) = 0;
  // Writes the beginning of `bytes` at `at` and says how many; the rest may be tried again. After an error
  // the file may hold any part of what was asked for.
  [[nodiscard]] virtual Result<std::size_t> write(std::uint64_t at, std::span<const std::byte> bytes) = 0;
  // Returns when the disk has all that was written. After an error nobody knows what it has: the kernel may
  // count what it could not write as written, so that a second call proves nothing.
  [[nodiscard]] virtual Result<> sync() = 0;
  [[nodiscard]] virtual Result<> truncate(std::uint64_t bytes) = 0;
};

class LogDisk {
 public:
  virtual ~LogDisk() = default;
  // Opens the file for this process alone; makes an empty one if there is none.
  [[nodiscard]] virtual Result<std::unique_ptr<LogFile>> open(const std::string& path) = 0;
  // Returns when the disk knows the name of a file that open() made.
  [[nodiscard]] virtual Result<> sync_name(const std::string& path) = 0;
};

// The disks of this machine.
class PosixDisk final : public LogDisk {
 public:
  [[nodiscard]] Result<std::unique_ptr<LogFile>> open(const std::string& path) override;
  [[nodiscard]] Result<> sync_name(const std::string& path) override;
};

}  // namespace loch::pilaf
