// NessieSD: the server-driven store to which the Nessie papers compare Nessie (Cassell, Szepesi, Wong,
// Brecht, Ma, Liu, IEEE TPDS 2017; also the 2015 report). Requests and replies are RDMA WRITEs; polling
// server workers execute the requests. docs/protocols/nessie-sd.md describes layouts and steps.
#pragma once

#include <memory>
#include <vector>

#include "common/kv/protocol.h"

namespace loch::nessie_sd {

// Adds this protocol's modules to the registry.
void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules);

}  // namespace loch::nessie_sd
