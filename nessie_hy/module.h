// NessieHY: the hybrid variant of Nessie (Cassell, Szepesi, Wong, Brecht, Ma, Liu, IEEE TPDS 2017). GETs
// are client-driven, by READs of index words and entries; PUTs and DELETEs are executed by polling server
// workers, as in NessieSD. docs/protocols/nessie-hy.md describes layouts, steps and rules.
#pragma once

#include <memory>
#include <vector>

#include "common/kv/protocol.h"

namespace loch::nessie_hy {

// Adds this protocol's modules to the registry.
void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules);

}  // namespace loch::nessie_hy
