// MIGRATE (Nessie, 2017, 4.2.3 and 4.3.1): moves a key to another of its candidate slots. The key's entry is
// copied to a new entry of this node; the copy is linked in the target slot, the source slot is emptied, and
// only then is the copy committed, so that the key is in the table exactly once at every moment.
#pragma once

#include "nessie/lane.h"

namespace loch::nessie {

struct Migrated {
  Attempt ended = Attempt::conflict;
  Word left = 0;  // if the MIGRATE (move of a key) ended in ok: the word that the source slot holds now
};

// Moves a key to another slot. `word`, read from slot `source`, names the key's entry. If all other
// candidates of the key are full, the key in the first of them is moved first, recursively to a depth of
// nessie.migrate-depth. Returns ok; table_full, no_entry, conflict or expired, without any change; or
// link_error, with the remaining work left to the background (unfinished.h).
[[nodiscard]] coro::Task<Migrated> migrate(Access access, cuckoo::Place source, Word word);

// migrate_from() and migrate_key() execute a MIGRATE that is not part of a PUT, for tests and measurements.
// migrate_from() moves the key in slot `source`. migrate_key() moves `key` from whichever slot it is in;
// not_found if the key is absent.
[[nodiscard]] coro::Task<Attempt> migrate_from(Access access, cuckoo::Place source);
[[nodiscard]] coro::Task<Attempt> migrate_key(Access access, kv::Key key);

// The state of one MIGRATE, which moves a key to another slot.
struct Move {
  EntryId copy;
  cuckoo::KeyHash hash;  // hashes of the moved key, computed for all its candidate slots
  cuckoo::Place source, target;
  Word source_word = 0, target_word = 0, copy_word = 0;
  Word left = 0;  // the word that the MIGRATE (move of a key) writes to the source slot
};

}  // namespace loch::nessie
