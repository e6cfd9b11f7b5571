// Entries of memory nodes (nessie.placement remote; Nessie, 2017, 7, names it as future work): the WRITEs
// that take the place of a client's stores to its own node's data table. Of an entry that no index word names
// yet, they are awaited before the CAS that links it is posted. The READ behind a WRITE shows that it is in
// memory: the WRITE's completion alone does not (rule 3 of common/fabric/fabric.h).
#pragma once

#include <optional>

#include "nessie/lane.h"

namespace loch::nessie {

// Allocates an entry: one that this worker owns, or one of a chunk (run of entries) that it requests from a
// memory node. The nodes take turns. None: no node has a free entry, or none that has one answers.
[[nodiscard]] coro::Task<std::optional<EntryId>> allocate_entry(Access access);

// Returns an entry that no index word ever named.
void release_entry(Lane& lane, const EntryId& id);

// WRITEs the entry, which write_entry() has put into the staging buffer, to its node. Returns false if the
// node cannot be reached; the memory then has anything, and no client may be shown the entry.
[[nodiscard]] coro::Task<bool> place_entry(Access access, EntryId id);

// Sets the valid bit of a pending entry that this worker wrote, so that every client sees it before the call
// returns. Returns false if it is unknown whether the WRITE was executed; settle_valid() then has to follow.
[[nodiscard]] coro::Task<bool> mark_valid(Access access, EntryId id, EntryMeta meta);
// Completes mark_valid() over a new connection. The entry is read first: if it is valid, or has been reused,
// the WRITE had been executed, and another one could change the entry of another key. Returns false if the
// node cannot be reached.
[[nodiscard]] coro::Task<bool> settle_valid(Access access, EntryId id, EntryMeta meta);

}  // namespace loch::nessie
