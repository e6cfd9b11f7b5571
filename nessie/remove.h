// DELETE without a tombstone, in two forms: by a single CAS (option nessie.single-cas-delete), and by
// emptying every slot that holds the key (technical report of 2015). put.h has the DELETE by tombstone.
#pragma once

#include "nessie/lane.h"

namespace loch::nessie {

// DELETE of the option nessie.single-cas-delete (hardened variant): one CAS replaces the committed word by
// EMPTY. This CAS is the linearization point, since every change of a committed entry is a CAS on its exact
// word. Ends in ok, not_found (confirmed by reading slots again), conflict, expired, link_error, or ambiguous
// (the CAS failed and may have been executed, H17 in docs/protocols/nessie.md).
[[nodiscard]] coro::Task<Attempt> remove_by_single_cas(Access access, kv::Key key, cuckoo::KeyHash* hash);

// Nessie's technical report of 2015, section 4.3.2: empties every slot that holds the key, from the last
// candidate to the first, without verification.
[[nodiscard]] coro::Task<Attempt> clear_all_ranks(Access access, kv::Key key, cuckoo::KeyHash* hash);

}  // namespace loch::nessie
