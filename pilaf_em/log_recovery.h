// Recovery of a log after a crash: replays its records, and decides about the bytes that follow them.
//
// A torn tail is a sequence of bytes that is no whole record and has no intact record behind it. A power
// failure or a kill during an append leaves one; it is cut off and reported. A damaged middle has intact
// records behind bytes that are no whole record or not the next one. In mode fsync no crash leaves one, and
// the records behind it were acknowledged, so nothing is cut unless the user asks for it. A last record that
// is damaged later looks like a torn tail and is treated as one.
#pragma once

#include <cstdint>
#include <functional>

#include "common/base/result.h"
#include "pilaf_em/log_file.h"
#include "pilaf_em/log_format.h"

namespace loch::pilaf {

// Callbacks for each record, in order; an error ends the recovery before the file is changed.
struct LogVisitor {
  std::function<Result<>(LogBytes key, LogBytes value)> put;
  std::function<Result<>(LogBytes key)> remove;
};

struct RecoveryRules {
  // true: cut the log at damage although intact records follow it (pilaf.log-repair)
  bool cuts_damage = false;
  // Whether recovery syncs the data before it is served (mode fsync), because it may be in the page cache
  // only.
  bool syncs = false;
};

struct Recovered {
  std::uint64_t records = 0;          // number of records replayed
  std::uint64_t end = 0;              // file offset of the next record to append
  std::uint64_t dropped_at = 0;       // file offset from which bytes were cut off
  std::uint64_t bytes_dropped = 0;    // number of bytes that were cut off
  std::uint64_t records_dropped = 0;  // number of valid record heads in the dropped bytes
  // Number of intact records in the dropped bytes, cut because of damage before them (cuts_damage).
  std::uint64_t intact_dropped = 0;
  bool has_new_header = false;  // true: a damaged header was rewritten (only with RecoveryRules::cuts_damage)
};

// Recovers the log: passes its records to the visitor, cuts the file if allowed, and leaves it ready for
// appends at `end`. Errors do not contain the file's name. The error for a damaged middle names the byte, the
// number of intact records behind it, and the option that allows the cut.
[[nodiscard]] Result<Recovered> recover(LogFile& file, const LogOwner& owner, const RecoveryRules& rules,
                                        const LogVisitor& visitor);

// Writes all of `bytes`, in several calls if a call writes fewer.
[[nodiscard]] Result<> write_all(LogFile& file, std::uint64_t at, LogBytes bytes);

}  // namespace loch::pilaf
