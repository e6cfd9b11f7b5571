// The leak scan (H15): a DTE that no index word and no pending entry names, and that is neither free nor
// marked, may have been lost by a client that died between unlinking and marking. It may as well be in the
// hands of a client that is slow; so its owner is told of the suspicion and finds out by itself (doubts.h).
#pragma once

#include "nessie/lane.h"

namespace loch::nessie {

struct LeakScan {
  bool is_whole = true;  // false: something could not be read
  std::uint64_t found = 0;
};
// Reads the whole index and every entry that it does not name.
[[nodiscard]] coro::Task<LeakScan> stamp_leaks(Access access);

}  // namespace loch::nessie
