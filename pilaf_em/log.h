// The log of PUTs and DELETEs of one server (Pilaf, section 5). Its bytes: log_format.h; what is done with
// them after a crash: log_recovery.h.
//
// A record is appended before its change can be seen, and what is held after a crash is a matter of when
// append() returns (LogSync). After the first write or fdatasync that fails the log is closed: what that
// call was for may be in the file or not, nothing is appended any more, and no fdatasync is tried again,
// since the kernel may count what it could not write as written.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/result.h"
#include "pilaf_em/log_file.h"
#include "pilaf_em/log_format.h"
#include "pilaf_em/log_recovery.h"

namespace loch::pilaf {

enum class LogSync : std::uint8_t {
  async,  // append() returns at once; a thread writes
  write,  // append() returns when the kernel has the record: it outlives the process
  fsync,  // append() returns when the disk has it: it outlives the machine's power
};

class Log {
 public:
  using Bytes = LogBytes;
  struct Options {
    LogSync sync = LogSync::async;
    bool repairs = false;    // a damaged middle is cut
    bool has_thread = true;  // async; false: nothing is written before flush(), for tests
  };

  // Opens or makes the file, recovers what is in it, and is ready to append. Errors name the file. The disk
  // outlives the log.
  [[nodiscard]] static Result<std::unique_ptr<Log>> open(LogDisk& disk, const std::string& path,
                                                         const LogOwner& owner, const Options& options,
                                                         const LogVisitor& visitor);
  // async: the thread writes what waits.
  ~Log();
  Log(const Log&) = delete;

  // Bytes of a record.
  [[nodiscard]] static constexpr std::uint64_t put_bytes(std::uint64_t key, std::uint64_t value) {
    return record_overhead + key + value;
  }
  [[nodiscard]] static constexpr std::uint64_t remove_bytes(std::uint64_t key) { return put_bytes(key, 0); }

  // The bytes of a record on the modelled disk: the published log's kind, lengths, data and checksum, without
  // the additional fields by which this log tells a torn tail from a damaged middle.
  [[nodiscard]] static constexpr std::uint64_t modelled_put_bytes(std::uint64_t key, std::uint64_t value) {
    return 1 + 4 + 4 + key + value + 8;
  }
  [[nodiscard]] static constexpr std::uint64_t modelled_remove_bytes(std::uint64_t key) {
    return 1 + 4 + key + 8;
  }

  // One thread appends. False: the log is closed; if it was open before, this record may be in it.
  [[nodiscard]] bool append_put(Bytes key, Bytes value);
  [[nodiscard]] bool append_remove(Bytes key);
  // False: a write or an fdatasync has failed, and every append will. Any thread may ask.
  [[nodiscard]] bool is_open() const { return !is_closed_.load(); }
  // async: returns when all that was appended is written. False: the log is closed.
  [[nodiscard]] bool flush();

  [[nodiscard]] const Recovered& recovered() const { return recovered_; }
  // Records that were appended and not refused at once.
  [[nodiscard]] std::uint64_t appended() const { return appended_; }
  // Records that the kernel (async, write) or the disk (fsync) has. Any thread may ask.
  [[nodiscard]] std::uint64_t acknowledged() const { return written_records_.load(); }
  // Messages for the user, one line each: what recovery dropped, and why the log was closed.
  [[nodiscard]] std::vector<std::string> notes() const;

 private:
  Log(std::unique_ptr<LogFile> file, std::string path, std::uint64_t salt, const Options& options)
      : file_(std::move(file)), path_(std::move(path)), salt_(salt), options_(options) {}
  [[nodiscard]] bool append(Record record);
  // Writes, and syncs in mode fsync; after a failure the log is closed.
  [[nodiscard]] bool write_out(std::uint64_t at, Bytes bytes, std::uint64_t records);
  void write_waiting();
  void run_writer();

  const std::unique_ptr<LogFile> file_;
  const std::string path_;
  const std::uint64_t salt_;
  const Options options_;
  Recovered recovered_;
  std::uint64_t appended_ = 0, next_number_ = 1;
  std::uint64_t end_ = 0;  // where the next record goes
  std::vector<std::byte> record_;
  std::atomic<std::uint64_t> written_records_ = 0;
  std::atomic<bool> is_closed_ = false;

  mutable std::mutex mutex_;  // guards the members below
  std::string failure_;       // why the log is closed
  // async: what waits for the writer, and where it goes.
  std::condition_variable work_, drained_;
  std::vector<std::byte> waiting_;
  std::uint64_t waiting_records_ = 0, waiting_at_ = 0;
  bool is_writing_ = false, is_ending_ = false;
  std::thread writer_;
};

}  // namespace loch::pilaf
