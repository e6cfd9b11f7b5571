// The smallest store that the driver can be tested with: every record has a slot of its own on node
// record % nodes, found without hashing; a PUT takes the slot's lock word by CAS, WRITEs the value
// and releases; a GET reads lock, value, lock. Not a published design, and in no build's registry.
#pragma once

#include <memory>

#include "common/kv/protocol.h"

namespace loch::support {

// Mutant "no-lock": a PUT just WRITEs and a GET just READs, so that values tear.
[[nodiscard]] std::unique_ptr<kv::Module> make_slot_store();

}  // namespace loch::support
