// Nessie: a key-value store that only its clients drive, by one-sided RDMA READ and CAS (Cassell,
// Szepesi, Wong, Brecht, Ma, Liu, IEEE TPDS 2017). docs/protocols.md describes layouts, steps and rules.
#pragma once

#include <memory>

#include "common/kv/protocol.h"

namespace loch::nessie {

[[nodiscard]] std::unique_ptr<kv::Module> make_module();

}  // namespace loch::nessie
