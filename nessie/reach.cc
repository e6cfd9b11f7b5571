// Keeps a worker's connections, region keys and copy of the member table (nodes' incarnations) up to date.
#include "nessie/reach.h"

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "nessie/members.h"

namespace loch::nessie {
namespace {

// Looks up the peer's regions, because they have new keys after a restart of the peer.
bool look_up_regions(Lane& lane, fabric::NodeId peer) {
  const Result<fabric::RemoteRegion> index = lane.store.fabric().lookup(peer, index_region);
  const Result<fabric::RemoteRegion> data = lane.store.fabric().lookup(peer, data_region);
  if (!index.has_value() || !data.has_value()) return false;
  if (lane.has(Flaw::keys_not_renewed)) return true;
  Peer& known = lane.own.peers[peer];  // its incarnation is set from the member table, not here
  if (lane.settings.is_remote() && (known.data.id != data->id || known.data.rkey != data->rkey)) {
    // A memory node that came back with empty memory counts as out of reach for good, because it has no
    // workers that would learn of its new incarnation, and its keys must not seem absent.
    LOCH_PROBE("nessie.remote.memory-node-came-back-empty");
    known.is_gone = lane.own.has_losses = true;
    lane.own.shares[peer].is_void = true;
    return false;
  }
  known.data = *data;
  known.epoch = lane.worker.epoch(peer);
  known.not_before = 0;
  known.is_gone = false;
  for (IndexShare& share : lane.own.shares) {
    if (share.index.node == peer) share.index = *index;
  }
  return true;
}

}  // namespace

coro::Task<bool> reconnect(Lane* lane, fabric::NodeId peer) {
  const Nanos deadline = lane->worker.now() + lane->settings.reconnect_timeout;
  if (!lane->worker.connected(peer)) {
    ++lane->own.counters.reconnects;
    const bool is_connected = co_await lane->worker.reconnect(peer, deadline);
    if (!is_connected) {
      LOCH_PROBE("nessie.reconnect-timed-out");
      co_return false;
    }
  }
  if (lane->own.peers[peer].epoch != lane->worker.epoch(peer) && !look_up_regions(*lane, peer))
    co_return false;
  // While the connection was down, the peer's memory may have been declared lost, which the member table
  // (nodes' incarnations) shows. A declaration that comes later is noticed when the next operation begins.
  look_at_members(*lane);
  co_return true;
}

void read_members(Lane& lane, Word version) {
  WorkerState& own = lane.own;
  LOCH_PROBE("nessie.members-changed");
  for (std::uint32_t i = 0; i < own.peers.size(); ++i) {
    const Member member = Member::unpack(fabric::load_word(lane.node.members->at(8 * (1 + i))), i);
    own.peers[i].incarnation = member.incarnation % incarnations;
    IndexShare& share = own.shares[i];
    const auto host = static_cast<fabric::NodeId>(member.host);
    const Result<fabric::RemoteRegion> index = lane.store.fabric().lookup(host, index_region);
    share.is_void = member.is_void || !index.has_value();
    if (index.has_value()) share.index = *index;
    share.base = member.area * lane.settings.share_bytes();
  }
  own.has_losses = true;
  own.members_seen = version;
  own.table.begin_incarnation(own.peers[lane.node.node].incarnation);
}

bool names_lost_memory(const Lane& lane, Word word) {
  const WordFormat& format = lane.settings.format;
  const bool names_an_entry = !format.is_empty(word) || format.is_tagged(word);
  return names_an_entry && is_lost(lane, format.entry(word));
}

}  // namespace loch::nessie
