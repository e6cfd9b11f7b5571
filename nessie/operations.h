// The operations of a client (Nessie, 2017, 4.2): attempts until one ends the operation, with back-off
// between them. A lane (the buffers and connections of one outstanding operation, lane.h) runs one operation
// at a time. The lane, `stats`, the key and the value must outlive the operation.
#pragma once

#include "nessie/lane.h"

namespace loch::nessie {

// Executes a GET. Its value lies in the memory of the lane (the resources of one outstanding operation) until
// the lane's next operation.
[[nodiscard]] coro::Task<kv::OpResult> get(Lane* lane, kv::Key key, fabric::OpStats* stats);
[[nodiscard]] coro::Task<kv::OpResult> put(Lane* lane, kv::Key key, kv::ValueView value,
                                           fabric::OpStats* stats);
// Executes an INSERT: a PUT that changes nothing if the key is present. Only the hardened variant has it.
[[nodiscard]] coro::Task<kv::OpResult> insert_if_absent(Lane* lane, kv::Key key, kv::ValueView value,
                                                        fabric::OpStats* stats);
[[nodiscard]] coro::Task<kv::OpResult> remove(Lane* lane, kv::Key key, fabric::OpStats* stats);
// Makes one attempt to move the key's entry from its index slot, whichever it is, to another one (migrate.h).
[[nodiscard]] coro::Task<kv::OpResult> migrate_once(Lane* lane, kv::Key key, fabric::OpStats* stats);

}  // namespace loch::nessie
