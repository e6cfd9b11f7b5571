// Makes the tables, server workers and clients of NessieSD.
#include "nessie_sd/store.h"

namespace loch::nessie_sd {

Result<> SdStore::setup_node(fabric::Fabric& fabric, fabric::NodeId node) {
  return tables_.setup_node(fabric, node);
}

Result<> SdStore::connect(fabric::Fabric& fabric) { return tables_.connect(fabric); }

Result<> SdStore::preload(fabric::Fabric& fabric, const kv::Dataset& data) {
  return tables_.preload(fabric, data);
}

coro::Task<void> SdStore::serve(fabric::Worker& worker, std::uint32_t index) {
  return coupled::serve(&tables_, &worker, index);
}

std::unique_ptr<kv::Client> SdStore::client(fabric::Worker& worker, std::uint32_t slot) {
  LOCH_CHECK_LT(slot, tables_.settings().config.window);
  const std::uint32_t lane = tables_.settings().channel.parties.lane(worker.index(), slot);
  return std::make_unique<SdClient>(tables_, worker, lane);
}

}  // namespace loch::nessie_sd
