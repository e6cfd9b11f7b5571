// A region of a peer that a client accesses by one-sided requests, and the handling of their errors.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/fabric/fabric.h"

namespace loch::rpc {

// A worker's handle of a remote region, used by its own thread.
struct Remote {
  fabric::RemoteRegion region;
  // the connection (by its number, Worker::epoch) over which the region was looked up
  std::uint32_t epoch = 0;
  bool is_lost = false;  // the region's node restarted: its contents are gone
};

// To be called after an error: connects to the region's node anew, until `deadline` (now() time), and checks
// that the region is still the same: a node that restarted has other keys for its regions. Returns false if
// the region cannot be reached any more. `name` has to be a string literal; `remote` and the other arguments
// have to outlive the run.
[[nodiscard]] inline coro::Task<bool> restore(fabric::Worker& worker, fabric::Fabric& fabric, Remote& remote,
                                              std::string_view name, Nanos deadline) {
  const fabric::NodeId peer = remote.region.node;
  if (!worker.connected(peer)) {
    const bool is_connected = co_await worker.reconnect(peer, deadline);
    if (!is_connected) co_return false;
  }
  if (const std::uint32_t epoch = worker.epoch(peer); remote.epoch != epoch) {
    const Result<fabric::RemoteRegion> now = fabric.lookup(peer, name);
    if (!now.has_value() || now->id != remote.region.id || now->rkey != remote.region.rkey)
      remote.is_lost = true;
    remote.epoch = epoch;
  }
  co_return !remote.is_lost;
}

}  // namespace loch::rpc
