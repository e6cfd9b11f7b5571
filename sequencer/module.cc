// Registers the three sequencers: seq-rpc, seq-spec and seq-atomic.
#include "sequencer/module.h"

#include "sequencer/number_store.h"

namespace loch::sequencer {

void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules) {
  modules.push_back(make_rpc_module());
  modules.push_back(make_spec_module());
  modules.push_back(make_atomic_module());
}

}  // namespace loch::sequencer
