// What a log holds after a crash: its records are done again, and what follows the last of them is judged.
//
// A torn tail: bytes that are no whole record, and no intact record behind them. A power failure or a kill
// leaves it where a record was being written; it is cut off, and that is said. A damaged middle: bytes that
// are no whole record, or not the next one, and intact records behind them. No crash of a server whose
// LogSync promises anything leaves that; what is behind was acknowledged, and nothing is cut unless asked.
// A last record that was damaged later looks like a torn one and is treated so.
#pragma once

#include <cstdint>
#include <functional>

#include "common/base/result.h"
#include "pilaf_em/log_file.h"
#include "pilaf_em/log_format.h"

namespace loch::pilaf {

// Callbacks for the records, from the first to the last; an error ends the recovery before anything of
// the file is changed.
struct LogVisitor {
  std::function<Result<>(LogBytes key, LogBytes value)> put;
  std::function<Result<>(LogBytes key)> remove;
};

struct RecoveryRules {
  bool cuts_damage = false;  // pilaf.log-repair
  // Mode fsync: what was read here may be in the kernel's memory alone; before it is served, the disk gets
  // it.
  bool syncs = false;
};

struct Recovered {
  std::uint64_t records = 0;          // done again
  std::uint64_t end = 0;              // where the next record goes
  std::uint64_t dropped_at = 0;       // from here on
  std::uint64_t bytes_dropped = 0;    // bytes that were cut off at the end
  std::uint64_t records_dropped = 0;  // begun in these bytes, as far as their heads are whole
  std::uint64_t intact_dropped = 0;   // intact records among them, which lay behind damage (cuts_damage)
  bool has_new_header = false;        // cuts_damage: a damaged header was written anew
};

// Reads the file, gives its records to the visitor, cuts what is to be cut and leaves a file that can be
// appended to at `end`. Errors do not have the file's name: a damaged middle says at which byte, how many
// intact records lie behind and which option cuts.
[[nodiscard]] Result<Recovered> recover(LogFile& file, const LogOwner& owner, const RecoveryRules& rules,
                                        const LogVisitor& visitor);

// Writes all of `bytes`, however few of them a call takes.
[[nodiscard]] Result<> write_all(LogFile& file, std::uint64_t at, LogBytes bytes);

}  // namespace loch::pilaf
