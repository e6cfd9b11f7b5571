// Reads a log after a crash: replays its records, and then classifies what follows as a torn tail or a
// damaged middle.
#include "pilaf_em/log_recovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "common/base/probe.h"

namespace loch::pilaf {
namespace {

// Reads the file in parts, so that memory is bounded by the longest record and not by the log's length.
class Reader {
 public:
  Reader(LogFile& file, std::uint64_t size) : file_(file), size_(size) {}
  [[nodiscard]] std::uint64_t size() const { return size_; }
  // Returns the file's bytes from offset `at`: at least `least` of them, or all up to the file's end. Valid
  // until the next call.
  [[nodiscard]] Result<LogBytes> at(std::uint64_t at, std::uint64_t least) {
    least = std::min(least, size_ - std::min(at, size_));
    if (at < begin_ || at + least > begin_ + buffer_.size()) {
      const std::uint64_t want = std::min(std::max(least, piece), size_ - std::min(at, size_));
      buffer_.resize(want);
      begin_ = at;
      LOCH_ASSIGN(const std::size_t got, file_.read(at, buffer_));
      buffer_.resize(got);
      if (got < least) return fail(ErrorCode::unavailable, "became shorter while it was read");
    }
    return LogBytes(buffer_).subspan(at - begin_);
  }

 private:
  static constexpr std::uint64_t piece = 4 << 20;
  LogFile& file_;
  std::uint64_t size_, begin_ = 0;
  std::vector<std::byte> buffer_;
};

// The record at offset `at`; nullopt if there is no intact record.
Result<std::optional<Record>> record_at(Reader& reader, std::uint64_t at, std::uint64_t salt) {
  LOCH_ASSIGN(LogBytes rest, reader.at(at, sizeof(RecordHead)));
  const std::optional<RecordHead> head = parse_head(rest, at, salt);
  if (!head || head->whole_bytes() > reader.size() - at) return std::nullopt;
  LOCH_ASSIGN(rest, reader.at(at, head->whole_bytes()));
  return parse_record(rest, at, salt);
}

struct Behind {
  std::uint64_t heads = 0;   // number of valid record heads found
  std::uint64_t intact = 0;  // number of intact records found
};

// Counts the record heads and the intact records from offset `at` on. A record may begin at any byte.
Result<Behind> look_behind(Reader& reader, std::uint64_t at, std::uint64_t salt) {
  Behind behind;
  while (at + sizeof(RecordHead) <= reader.size()) {
    LOCH_ASSIGN(const LogBytes rest, reader.at(at, sizeof(RecordHead)));
    std::size_t i = 0;
    bool is_head = false;
    for (; !is_head && i + sizeof(RecordHead) <= rest.size(); i += is_head ? 0 : 1)
      is_head = parse_head(rest.subspan(i), at + i, salt).has_value();
    at += i;
    if (!is_head) continue;
    ++behind.heads;
    LOCH_ASSIGN(const std::optional<Record> record, record_at(reader, at, salt));
    behind.intact += record ? 1 : 0;
    at += record ? record->bytes : 1;
  }
  return behind;
}

// Makes the error that refuses the log; the file has not been changed.
std::unexpected<Error> refuse(std::string what) { return fail(ErrorCode::invalid_argument, std::move(what)); }

std::unexpected<Error> not_ours(const LogOwner& owner) {
  return refuse(
      fmt::format("is no log of server {} of node {} of this deployment (nodes, servers, key size "
                  "and seed count); expected another path, or that one",
                  owner.server, owner.node));
}

// Decides about a damaged header. If intact records of this owner follow, the error says that the header is
// damaged (with cuts_damage there is no error); otherwise, that the file is not a log of this owner.
Result<> judge_header(Reader& reader, const LogOwner& owner, const RecoveryRules& rules) {
  LOCH_ASSIGN(const Behind behind, look_behind(reader, log_header_bytes, log_salt(owner)));
  if (behind.intact == 0) return not_ours(owner);
  LOCH_PROBE("pilaf-log.header-damaged");
  if (rules.cuts_damage) return {};
  return refuse(
      fmt::format("damaged at byte 0, in its header: {} intact records lie behind; expected "
                  "--pilaf.log-repair true, which writes the header anew and drops none",
                  behind.intact));
}

// Checks the header. False: the file is new, or its creator died before the header reached the disk.
Result<bool> has_header(Reader& reader, const LogOwner& owner, const RecoveryRules& rules, Recovered& out) {
  LOCH_ASSIGN(const LogBytes bytes, reader.at(0, log_header_bytes));
  const LogHeader header = compare_header(bytes.first(std::min(bytes.size(), log_header_bytes)), owner);
  const bool is_alone = reader.size() <= log_header_bytes;
  switch (header) {
    case LogHeader::right:
      return true;
    case LogHeader::partial:
      if (is_alone) return false;
      break;
    case LogHeader::broken:
      if (is_alone) return not_ours(owner);
      break;
    case LogHeader::other:
      return not_ours(owner);
    case LogHeader::older:
      return refuse(
          "is a log of another version of the format (LOCHPLF2 is read); expected another path, "
          "or the program that wrote it");
  }
  LOCH_TRY(judge_header(reader, owner, rules));
  out.has_new_header = true;
  return true;
}

// Replays the records in order up to the first position without the expected next record. Sets `unsure_at` to
// the offset before which everything is known to be on the disk.
Result<> replay(Reader& reader, std::uint64_t salt, const LogVisitor& visitor, Recovered& out,
                std::uint64_t& unsure_at) {
  for (std::uint64_t at = log_header_bytes; at < reader.size();) {
    LOCH_ASSIGN(const std::optional<Record> record, record_at(reader, at, salt));
    if (!record || record->number != out.records + 1) break;
    if (record->is_put)
      LOCH_TRY(visitor.put(record->key, record->value));
    else
      LOCH_TRY(visitor.remove(record->key));
    ++out.records;
    if (record->follows_synced) unsure_at = at;
    at += record->bytes;
    out.end = at;
  }
  return {};
}

// Decides about the bytes after the last replayed record: they will be cut, or intact records among them end
// the recovery with an error.
Result<> judge_rest(Reader& reader, std::uint64_t salt, const RecoveryRules& rules, Recovered& out) {
  LOCH_ASSIGN(const Behind behind, look_behind(reader, out.end, salt));
  if (behind.intact > 0) {
    LOCH_PROBE("pilaf-log.damaged-middle");
    if (!rules.cuts_damage) {
      return refuse(
          fmt::format("damaged at byte {}, in record {}: {} intact records lie behind; expected a "
                      "whole copy, or --pilaf.log-repair true, which cuts the log there",
                      out.end, out.records + 1, behind.intact));
    }
  }
  out.dropped_at = out.end;
  out.bytes_dropped = reader.size() - out.end;
  out.records_dropped = behind.heads;
  out.intact_dropped = behind.intact;
  return {};
}

Result<> write_again(LogFile& file, Reader& reader, std::uint64_t at, std::uint64_t end) {
  while (at < end) {
    LOCH_ASSIGN(LogBytes bytes, reader.at(at, 1));
    bytes = bytes.first(std::min<std::uint64_t>(bytes.size(), end - at));
    LOCH_TRY(write_all(file, at, bytes));
    at += bytes.size();
  }
  return {};
}

}  // namespace

Result<> write_all(LogFile& file, std::uint64_t at, LogBytes bytes) {
  while (!bytes.empty()) {
    LOCH_ASSIGN(const std::size_t written, file.write(at, bytes));
    if (written == 0) return fail(ErrorCode::unavailable, "cannot be written: nothing is taken");
    at += written;
    bytes = bytes.subspan(written);
  }
  return {};
}

Result<Recovered> recover(LogFile& file, const LogOwner& owner, const RecoveryRules& rules,
                          const LogVisitor& visitor) {
  Recovered out;
  out.end = log_header_bytes;
  LOCH_ASSIGN(const std::uint64_t size, file.size());
  Reader reader(file, size);
  LOCH_ASSIGN(const bool is_there, has_header(reader, owner, rules, out));
  std::uint64_t unsure_at = log_header_bytes;
  if (is_there) {
    LOCH_TRY(replay(reader, log_salt(owner), visitor, out, unsure_at));
    if (out.end < size) LOCH_TRY(judge_rest(reader, log_salt(owner), rules, out));
  } else {
    LOCH_PROBE("pilaf-log.made");
    out.bytes_dropped = size;
  }
  if (out.bytes_dropped > 0) {
    LOCH_PROBE("pilaf-log.cut");
    LOCH_TRY(file.truncate(is_there ? out.end : 0));
  }
  // If an fdatasync failed in the previous process, its data may be in the page cache only, marked as clean.
  // Writing that data again makes it dirty, so that the next sync writes it: the header, which every mode
  // syncs before the first append, and in mode fsync everything from the last record on that says that all
  // before it is synced.
  const bool writes_header = out.records == 0 || out.has_new_header;
  if (writes_header) LOCH_TRY(write_all(file, 0, log_header(owner)));
  if (rules.syncs) LOCH_TRY(write_again(file, reader, unsure_at, out.end));
  // Without this sync, bytes that were cut off could reappear behind records appended later.
  if (writes_header || rules.syncs || out.bytes_dropped > 0) LOCH_TRY(file.sync());
  return out;
}

}  // namespace loch::pilaf
