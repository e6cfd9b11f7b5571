// The log of PUTs and DELETEs of one server (Pilaf, section 5), and its replay.
//
//   file    | "LOCHPLF1" | node u32 | server u32 | nodes u32 | servers u32 | key size u32 | 0 u32 | seed u64
//   | crc64 | PUT     | 'P' | key len u32 | value len u32 | key | value | crc64 of all before | DELETE  | 'D'
//   | key len u32 | key | crc64 of all before |
//
// What is held after a crash is a matter of when a reply is sent (LogSync). A record that is not whole
// ends the log: it was being written when the process or the machine died, and no reply followed it
// unless the mode is async.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/base/result.h"

namespace loch::pilaf {

enum class LogSync : std::uint8_t {
  async,  // append() returns at once; a thread writes
  write,  // append() returns when the kernel has the record: it outlives the process
  fsync,  // append() returns when the disk has it: it outlives the machine's power
};

// Whose log it is; another deployment's is refused.
struct LogOwner {
  std::uint32_t node = 0, server = 0, nodes = 1, servers = 1, key_size = 0;
  std::uint64_t seed = 0;
  friend bool operator==(const LogOwner&, const LogOwner&) = default;
};

class Log {
 public:
  using Bytes = std::span<const std::byte>;
  struct Visitor {
    std::function<void(Bytes key, Bytes value)> put;
    std::function<void(Bytes key)> remove;
  };
  struct Replayed {
    std::uint64_t records = 0;
    std::uint64_t bytes_dropped = 0;  // of a record that is not whole, and after it
  };

  // Opens or makes the file, replays what is in it, cuts off what is not whole, and is ready to append.
  [[nodiscard]] static Result<std::unique_ptr<Log>> open(const std::string& path, const LogOwner& owner,
                                                         LogSync sync, const Visitor& visitor);
  ~Log();
  Log(const Log&) = delete;

  // Bytes of a record.
  [[nodiscard]] static constexpr std::uint64_t put_bytes(std::uint64_t key, std::uint64_t value) {
    return 1 + 4 + 4 + key + value + 8;
  }
  [[nodiscard]] static constexpr std::uint64_t remove_bytes(std::uint64_t key) { return 1 + 4 + key + 8; }

  // One thread appends. False: the file cannot be written; nothing more will be.
  [[nodiscard]] bool append_put(Bytes key, Bytes value);
  [[nodiscard]] bool append_remove(Bytes key);
  // Waits until all that was appended is as safe as the mode says write() or fsync() is.
  [[nodiscard]] bool flush();

  [[nodiscard]] const Replayed& replayed() const { return replayed_; }
  [[nodiscard]] std::uint64_t appended() const { return appended_; }
  // Records that the kernel (async, write) or the disk (fsync) has. Any thread may ask.
  [[nodiscard]] std::uint64_t acknowledged() const { return written_records_.load(); }

 private:
  Log(int file, std::string path, LogSync sync) : file_(file), path_(std::move(path)), sync_(sync) {}
  [[nodiscard]] Result<> begin(const LogOwner& owner, const Visitor& visitor);
  [[nodiscard]] bool append(Bytes key, Bytes value);
  [[nodiscard]] bool write_out(const std::vector<std::byte>& bytes);
  void run_writer();

  int file_;
  std::string path_;
  LogSync sync_;
  Replayed replayed_;
  std::uint64_t appended_ = 0;
  std::vector<std::byte> record_;

  // async: what waits for the writer.
  std::mutex mutex_;
  std::condition_variable work_, drained_;
  std::vector<std::byte> waiting_;
  std::uint64_t waiting_records_ = 0;
  std::atomic<std::uint64_t> written_records_ = 0;
  bool is_writing_ = false, is_closing_ = false, has_failed_ = false;
  std::thread writer_;
};

}  // namespace loch::pilaf
