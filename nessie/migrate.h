// MIGRATE (2017, 4.2.3 and 4.3.1): the key in a full slot moves to another of its candidates. Its entry is
// copied into a new one of this node; the copy enters the target, the source is emptied, and only then is the
// copy committed, so that the key is in the table once at every moment.
#pragma once

#include "nessie/lane.h"

namespace loch::nessie {

struct Migrated {
  Attempt ended = Attempt::conflict;
  Word left = 0;  // once ok: what the source holds now
};

// Moves away the key whose entry `word`, as it was read from `source`, names; if all its other candidates are
// full, the key in the first one moves first, and so on, nessie.migrate-depth deep. Ends in ok; table_full,
// no_entry, conflict, expired with nothing changed; link_error with what is left to be settled in the
// background (unfinished.h).
[[nodiscard]] coro::Task<Migrated> migrate(Access access, cuckoo::Place source, Word word);

// A MIGRATE by itself, for tests and measurements: of the key in that slot, as a PUT does that finds all its
// own full; and of the slot that holds the key, not_found if none does.
[[nodiscard]] coro::Task<Attempt> migrate_from(Access access, cuckoo::Place source);
[[nodiscard]] coro::Task<Attempt> migrate_key(Access access, kv::Key key);

// One move under way.
struct Move {
  EntryId copy;
  cuckoo::KeyHash hash;  // of the moved key; every candidate is known
  cuckoo::Place source, target;
  Word source_word = 0, target_word = 0, copy_word = 0;
  Word left = 0;  // the word that MIGRATE leaves in the source slot
};

}  // namespace loch::nessie
