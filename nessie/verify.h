// Reading slots again to make sure that nobody interfered: after the own CAS of a PUT or DELETE
// (2017, 4.2.2), and before a key is called absent (2017, 4.2.1; H10).
#pragma once

#include "common/onesided/get.h"
#include "nessie/lane.h"

namespace loch::nessie {

using onesided::no_rank;
using onesided::SeenWords;

// READs the slots of ranks from-1 … 0 again, but `except`; each must hold what was seen. Exact comparison: to
// let changes pass that do not concern the key is not safe beside MIGRATE (H13). Ends in ok, conflict,
// expired or link_error.
[[nodiscard]] coro::Task<Attempt> verify_slots(Access access, cuckoo::KeyHash* hash, SeenWords seen,
                                               std::uint32_t from, std::uint32_t except);

// All slots were read and none holds the key: the N-1 first once more (H10c). Ends in not_found, or as
// verify_slots().
[[nodiscard]] coro::Task<Attempt> confirm_absent(Access access, cuckoo::KeyHash* hash, SeenWords seen);

}  // namespace loch::nessie
