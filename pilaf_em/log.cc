// Appends to a log: immediately, with or without fdatasync, or by a separate thread.
#include "pilaf_em/log.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/probe.h"

namespace loch::pilaf {
namespace {

constexpr std::size_t most_waiting = 64 << 20;  // bytes that mode async buffers before an append waits

Error named(const std::string& path, Error error) {
  error.message = fmt::format("pilaf.log: {}: {}", path, error.message);
  return error;
}

}  // namespace

Result<std::unique_ptr<Log>> Log::open(LogDisk& disk, const std::string& path, const LogOwner& owner,
                                       const Options& options, const LogVisitor& visitor) {
  auto file = disk.open(path);
  if (!file) return std::unexpected(named(path, file.error()));
  std::unique_ptr<Log> log(new Log(std::move(*file), path, log_salt(owner), options));
  const RecoveryRules rules{.cuts_damage = options.repairs, .syncs = options.sync == LogSync::fsync};
  Result<Recovered> recovered = recover(*log->file_, owner, rules, visitor);
  if (!recovered) return std::unexpected(named(path, recovered.error()));
  // The file's name must be on disk too: the process that created the file may have died before it synced the
  // directory.
  if (const Result<> is_known = disk.sync_name(path); !is_known)
    return std::unexpected(named(path, is_known.error()));
  log->recovered_ = *recovered;
  log->end_ = log->waiting_at_ = recovered->end;
  log->next_number_ = recovered->records + 1;
  if (options.sync == LogSync::async && options.has_thread)
    log->writer_ = std::thread([raw = log.get()] { raw->run_writer(); });
  return log;
}

Log::~Log() {
  if (writer_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    work_.notify_one();
    writer_.join();
  }
}

bool Log::append_put(Bytes key, Bytes value) { return append({.is_put = true, .key = key, .value = value}); }

bool Log::append_remove(Bytes key) { return append({.is_put = false, .key = key}); }

bool Log::append(Record record) {
  if (!is_open()) return false;
  record.number = next_number_;
  record.follows_synced = options_.sync == LogSync::fsync;
  record_.clear();
  add_record(record_, record, end_, salt_);
  const std::uint64_t at = std::exchange(end_, end_ + record_.size());
  ++next_number_;
  ++appended_;
  if (options_.sync != LogSync::async) return write_out(at, record_, 1);
  std::unique_lock lock(mutex_);
  drained_.wait(lock, [this] { return waiting_.size() < most_waiting || !is_open(); });
  if (!is_open()) return false;
  waiting_.insert(waiting_.end(), record_.begin(), record_.end());
  ++waiting_records_;
  lock.unlock();
  work_.notify_one();
  return true;
}

bool Log::write_out(std::uint64_t at, Bytes bytes, std::uint64_t records) {
  Result<> done = write_all(*file_, at, bytes);
  if (done && options_.sync == LogSync::fsync) done = file_->sync();
  if (done) {
    written_records_ += records;
    return true;
  }
  LOCH_PROBE("pilaf-log.closed");
  const std::lock_guard lock(mutex_);
  failure_ = done.error().message;
  is_closed_ = true;
  return false;
}

bool Log::flush() {
  if (!options_.has_thread) write_waiting();
  std::unique_lock lock(mutex_);
  drained_.wait(lock, [this] { return (waiting_.empty() && !is_writing_) || !is_open(); });
  return is_open();
}

void Log::write_waiting() {
  std::unique_lock lock(mutex_);
  const std::vector<std::byte> writing = std::exchange(waiting_, {});
  const std::uint64_t records = std::exchange(waiting_records_, 0);
  const std::uint64_t at = std::exchange(waiting_at_, waiting_at_ + writing.size());
  if (writing.empty() || !is_open()) return;
  is_writing_ = true;
  lock.unlock();
  const bool is_written = write_out(at, writing, records);
  lock.lock();
  is_writing_ = false;
  static_cast<void>(is_written);  // a failure closes the log, which is_open() reports
  drained_.notify_all();
}

void Log::run_writer() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      work_.wait(lock, [this] { return !waiting_.empty() || is_ending_; });
      if (waiting_.empty()) return;
    }
    write_waiting();
    if (!is_open()) return;
  }
}

std::vector<std::string> Log::notes() const {
  std::vector<std::string> all;
  const auto say = [&](std::string what) { all.push_back(fmt::format("pilaf.log: {}: {}", path_, what)); };
  const Recovered& r = recovered_;
  if (r.has_new_header) say("pilaf.log-repair wrote the damaged header anew");
  if (r.intact_dropped > 0) {
    say(fmt::format("pilaf.log-repair cut {} bytes from byte {} on: {} records with them, {} of these intact",
                    r.bytes_dropped, r.dropped_at, r.records_dropped, r.intact_dropped));
  } else if (r.bytes_dropped > 0) {
    say(fmt::format("a torn tail of {} bytes from byte {} on, with the beginnings of {} records, was cut off",
                    r.bytes_dropped, r.dropped_at, r.records_dropped));
  }
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) {
    say(fmt::format("{}; closed after {} records: its server's PUTs and DELETEs fail since", failure_,
                    recovered_.records + written_records_.load()));
  }
  return all;
}

}  // namespace loch::pilaf
