// Nessie: a key-value store that only its clients drive, by one-sided RDMA READ and CAS (Cassell, Szepesi,
// Wong, Brecht, Ma, Liu, IEEE TPDS 2017). docs/protocols/nessie.md describes data, operations and holes
// (known faults).
#pragma once

#include <memory>
#include <vector>

#include "common/kv/protocol.h"

namespace loch::nessie {

[[nodiscard]] std::unique_ptr<kv::Module> make_module();
// Adds this protocol's modules to the registry.
void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules);

}  // namespace loch::nessie
