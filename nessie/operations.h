// The operations of a client (2017, 4.2): attempts until one settles, with back-off between them. A lane runs
// one at a time; it and `stats` outlive the operation, and key and value lie where they are until it ends.
#pragma once

#include "nessie/lane.h"

namespace loch::nessie {

// A GET; its value is in the lane's memory, until the lane's next operation.
[[nodiscard]] coro::Task<kv::OpResult> get(Lane* lane, kv::Key key, fabric::OpStats* stats);
[[nodiscard]] coro::Task<kv::OpResult> put(Lane* lane, kv::Key key, kv::ValueView value,
                                           fabric::OpStats* stats);
// A PUT that changes nothing where the key is there. Of the hardened rules.
[[nodiscard]] coro::Task<kv::OpResult> insert_if_absent(Lane* lane, kv::Key key, kv::ValueView value,
                                                        fabric::OpStats* stats);
[[nodiscard]] coro::Task<kv::OpResult> remove(Lane* lane, kv::Key key, fabric::OpStats* stats);
// One attempt to move the key's entry to another slot, wherever it is (migrate.h).
[[nodiscard]] coro::Task<kv::OpResult> migrate_once(Lane* lane, kv::Key key, fabric::OpStats* stats);

}  // namespace loch::nessie
