// The file of a log and the disk on which it lies, as interfaces: the real file and disk, and for tests a
// simulated disk that tears, loses and refuses writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/base/result.h"

namespace loch::pilaf {

// An open file, for one thread at a time. Errors say what failed and why, without the file's name.
class LogFile {
 public:
  virtual ~LogFile() = default;
  [[nodiscard]] virtual Result<std::uint64_t> size() = 0;
  // Reads the file's content from offset `at`; returns fewer bytes than requested only at the file's end.
  [[nodiscard]] virtual Result<std::size_t> read(std::uint64_t at, std::span<std::byte> out) = 0;
  // Writes a prefix of `bytes` at offset `at` and returns its length; the caller may retry the rest. After an
  // error the file may contain any part of `bytes`.
  [[nodiscard]] virtual Result<std::size_t> write(std::uint64_t at, std::span<const std::byte> bytes) = 0;
  // Returns when all written data is on the disk. After an error it is unknown what is on the disk, even if a
  // second call succeeds: the kernel may have marked pages as clean without having written them.
  [[nodiscard]] virtual Result<> sync() = 0;
  [[nodiscard]] virtual Result<> truncate(std::uint64_t bytes) = 0;
};

class LogDisk {
 public:
  virtual ~LogDisk() = default;
  // Opens the file with a lock against other processes; creates an empty one if it does not exist.
  [[nodiscard]] virtual Result<std::unique_ptr<LogFile>> open(const std::string& path) = 0;
  // Returns when the directory entry of a file made by open() is on the disk.
  [[nodiscard]] virtual Result<> sync_name(const std::string& path) = 0;
};

// A LogDisk on the file systems of this machine.
class PosixDisk final : public LogDisk {
 public:
  [[nodiscard]] Result<std::unique_ptr<LogFile>> open(const std::string& path) override;
  [[nodiscard]] Result<> sync_name(const std::string& path) override;
};

}  // namespace loch::pilaf
