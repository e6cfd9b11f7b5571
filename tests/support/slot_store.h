// A minimal store for tests of the load driver: every record has its own slot on node record % nodes, found
// without hashing. A PUT takes the slot's lock word by CAS, WRITEs the value and releases the lock; a GET
// READs lock, value, lock. Not a published design, and not in the registry of any build.
#pragma once

#include <memory>

#include "common/kv/protocol.h"

namespace loch::support {

// Makes the slot store's module. Known-bad variant "no-lock": a PUT only WRITEs and a GET only READs, so
// values tear.
[[nodiscard]] std::unique_ptr<kv::Module> make_slot_store();

}  // namespace loch::support
