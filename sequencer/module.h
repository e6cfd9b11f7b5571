// The sequencers of Kalia et al. (Design Guidelines, USENIX ATC 2016) as modules: seq-rpc, seq-spec and
// seq-atomic.
#pragma once

#include <memory>
#include <vector>

#include "common/kv/protocol.h"

namespace loch::sequencer {

void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules);

}  // namespace loch::sequencer
