// READs slots again to detect concurrent changes: after a PUT's or DELETE's own CAS (Nessie, 2017, 4.2.2),
// and before a GET or DELETE reports a key absent (Nessie, 2017, 4.2.1; known fault H10 in
// docs/protocols/nessie.md).
#pragma once

#include "common/onesided/get.h"
#include "nessie/lane.h"

namespace loch::nessie {

using onesided::no_rank;
using onesided::SeenWords;

// READs the key's candidate slots number from - 1 down to 0 again, except number `except`; each must still
// hold its word in `seen`. Every changed word is a conflict: while MIGRATEs (moves of keys) run, it is not
// safe to ignore changes that seem to concern other keys only (conflicting writers, H13 in
// docs/protocols/nessie.md). Ends in ok, conflict, expired or link_error.
[[nodiscard]] coro::Task<Attempt> verify_slots(Access access, cuckoo::KeyHash* hash, SeenWords seen,
                                               std::uint32_t from, std::uint32_t except);

// Confirms that a key is absent after all candidate slots were read and none holds it: READs all but the last
// slot again. Ends in not_found, or as verify_slots() does.
[[nodiscard]] coro::Task<Attempt> confirm_absent(Access access, cuckoo::KeyHash* hash, SeenWords seen);

}  // namespace loch::nessie
