// The leak scan, which finds entries that a dead client did not mark (H15 in docs/protocols/nessie.md). A
// data table entry that no index word and no pending entry names, and that is neither free nor stamped for
// reuse, may have leaked: its client may have died between unlinking and stamping it. A slow client may also
// still use the entry, so the scan does not free it but asks its owner to examine it (doubts.h).
#pragma once

#include "nessie/repairs.h"
#include "nessie/scan.h"

namespace loch::nessie {

struct LeakScan {
  bool is_whole = true;  // false: a part of the index or some entries could not be read
  std::uint64_t found = 0;
};
// Reads the whole index and every entry that no index word names, and reports possibly leaked entries to
// their owners. Finds nothing with nessie.placement remote, where entries name no owner.
[[nodiscard]] coro::Task<LeakScan> stamp_leaks(RepairLanes* lanes);

// Empties the slots of these words, which name lost memory, by reading each slot once: read_index() empties a
// slot with such a word. Returns false if a slot could not be read. `words` outlives the call.
[[nodiscard]] coro::Task<bool> empty_lost(RepairLanes* lanes, const std::vector<Finding>* words);

}  // namespace loch::nessie
