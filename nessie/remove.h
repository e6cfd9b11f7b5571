// The ways to DELETE besides a tombstone (put.h): one CAS, and the 2015 report's.
#pragma once

#include "nessie/lane.h"

namespace loch::nessie {

// Hardened option: the committed word is swapped for EMPTY; every change of a committed entry is a CAS on its
// exact word, so that this one is the DELETE. Ends in ok, not_found (confirmed), conflict, expired,
// link_error, or ambiguous (H17).
[[nodiscard]] coro::Task<Attempt> remove_by_single_cas(Access access, kv::Key key, cuckoo::KeyHash* hash);

// 2015, 4.3.2 (H10d): from the lowest rank to the highest, each match to EMPTY; nothing is verified.
[[nodiscard]] coro::Task<Attempt> clear_all_ranks(Access access, kv::Key key, cuckoo::KeyHash* hash);

}  // namespace loch::nessie
