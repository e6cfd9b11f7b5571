// NessieSD: Nessie's server-driven rival (Cassell, Szepesi, Wong, Brecht, Ma, Liu, IEEE TPDS 2017; also the
// 2015 report): requests and replies by RDMA WRITE, executed by workers that poll.
// docs/protocols/nessie-sd.md has layouts and steps.
#pragma once

#include <memory>
#include <vector>

#include "common/kv/protocol.h"

namespace loch::nessie_sd {

// Adds this protocol's modules to the registry.
void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules);

}  // namespace loch::nessie_sd
