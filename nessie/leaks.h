// The leak scan (H15 in docs/protocols/nessie.md). A DTE that no index word and no pending entry names, and
// that is neither free nor stamped, may have been lost by a client that died between unlinking and stamping
// it. But it may also be in use by a slow client; so its owner is told of the suspicion and finds out
// (doubts.h).
#pragma once

#include "nessie/lane.h"

namespace loch::nessie {

struct LeakScan {
  bool is_whole = true;  // false: a part of the index or some entries could not be read
  std::uint64_t found = 0;
};
// Reads the whole index and every entry that it does not name, and reports possibly leaked entries to
// their owners.
[[nodiscard]] coro::Task<LeakScan> stamp_leaks(Access access);

}  // namespace loch::nessie
