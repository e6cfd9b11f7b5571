// The log of one server's PUTs and DELETEs (Pilaf, section 5). Its format: log_format.h; its recovery:
// log_recovery.h.
//
// A record is appended before its change becomes visible; the mode (LogSync) decides when append() returns
// and thereby what survives a crash. The first write or fdatasync that fails closes the log: its data may be
// in the file or not, nothing is appended any more, and fdatasync is not retried, because the kernel may have
// marked unwritten pages as clean.
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
  async,  // append() returns at once; a thread writes the record later
  write,  // append() returns when the kernel has the record, which then survives the process's death
  fsync,  // append() returns when the disk has the record, which then survives a power failure
};

class Log {
 public:
  using Bytes = LogBytes;
  struct Options {
    LogSync sync = LogSync::async;
    bool repairs = false;  // true: recovery cuts off all from a damaged record on, even if intact ones follow
    bool has_thread = true;  // true: in mode async, a thread writes the records; false (tests): flush() does
  };

  // Opens or creates the file and recovers its records, after which it is ready for appends. Errors name the
  // file. `disk` has to outlive the log.
  [[nodiscard]] static Result<std::unique_ptr<Log>> open(LogDisk& disk, const std::string& path,
                                                         const LogOwner& owner, const Options& options,
                                                         const LogVisitor& visitor);
  // In mode async, waits until the thread has written all records.
  ~Log();
  Log(const Log&) = delete;

  // Size in bytes of a PUT's record in the file.
  [[nodiscard]] static constexpr std::uint64_t put_bytes(std::uint64_t key, std::uint64_t value) {
    return record_overhead + key + value;
  }
  [[nodiscard]] static constexpr std::uint64_t remove_bytes(std::uint64_t key) { return put_bytes(key, 0); }

  // Size of a record on the modelled disk, as in the published log: kind, lengths, data and checksum, without
  // the fields by which this log distinguishes a torn tail from a damaged middle.
  [[nodiscard]] static constexpr std::uint64_t modelled_put_bytes(std::uint64_t key, std::uint64_t value) {
    return 1 + 4 + 4 + key + value + 8;
  }
  [[nodiscard]] static constexpr std::uint64_t modelled_remove_bytes(std::uint64_t key) {
    return 1 + 4 + key + 8;
  }

  // Appends a record; only one thread may call this. Returns false if the log is closed; if this call closed
  // it, the record may nevertheless be in the file.
  [[nodiscard]] bool append_put(Bytes key, Bytes value);
  [[nodiscard]] bool append_remove(Bytes key);
  // Returns false once a write or an fdatasync has failed; then every append fails. Any thread may call this.
  [[nodiscard]] bool is_open() const { return !is_closed_.load(); }
  // In mode async, waits until all appended records are written. Returns false if the log is closed.
  [[nodiscard]] bool flush();

  [[nodiscard]] const Recovered& recovered() const { return recovered_; }
  // Number of records accepted by append, including those not yet written.
  [[nodiscard]] std::uint64_t appended() const { return appended_; }
  // Number of records that the kernel has (modes async and write) or the disk has (mode fsync). Any thread
  // may call this.
  [[nodiscard]] std::uint64_t acknowledged() const { return written_records_.load(); }
  // Messages for the user, one line each: what the recovery of the log cut off, and why the log was closed.
  [[nodiscard]] std::vector<std::string> notes() const;

 private:
  Log(std::unique_ptr<LogFile> file, std::string path, std::uint64_t salt, const Options& options)
      : file_(std::move(file)), path_(std::move(path)), salt_(salt), options_(options) {}
  [[nodiscard]] bool append(Record record);
  // Writes the records, and calls fdatasync in mode fsync; a failure closes the log.
  [[nodiscard]] bool write_out(std::uint64_t at, Bytes bytes, std::uint64_t records);
  void write_waiting();
  void run_writer();

  const std::unique_ptr<LogFile> file_;
  const std::string path_;
  const std::uint64_t salt_;
  const Options options_;
  Recovered recovered_;
  std::uint64_t appended_ = 0, next_number_ = 1;
  std::uint64_t end_ = 0;  // file offset of the next record
  std::vector<std::byte> record_;
  std::atomic<std::uint64_t> written_records_ = 0;
  std::atomic<bool> is_closed_ = false;

  mutable std::mutex mutex_;  // guards the members below
  std::string failure_;       // why the log is closed
  // For mode async: `work_` wakes the writer thread when there are new records, `drained_` wakes append() and
  // flush() when records have been written; waiting_ has the bytes of the records that are not written yet,
  // waiting_at_ their offset in the file.
  std::condition_variable work_, drained_;
  std::vector<std::byte> waiting_;
  std::uint64_t waiting_records_ = 0, waiting_at_ = 0;
  bool is_writing_ = false, is_ending_ = false;
  std::thread writer_;
};

}  // namespace loch::pilaf
