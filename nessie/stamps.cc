// Stamps entries that have left the index (marks them, so that they may be reused later): by this node's CPU,
// or by a WRITE to the entry's node.
#include "nessie/stamps.h"

#include <algorithm>

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "nessie/reach.h"

namespace loch::nessie {
namespace {

// Writes the stamp of an entry that left the index: the time from which the entry may be reused. Returns
// false if the entry's node cannot be reached.
coro::Task<bool> stamp(Access access, Unlinked unlinked) {
  const Settings& settings = access.settings();
  Lane& lane = access.lane;
  const EntryId id = unlinked.id;
  if (is_lost(lane, id)) co_return true;  // the entry's memory is lost: nothing to stamp
  const std::uint64_t at = id.index * settings.entry.stride() + settings.entry.stamp_at();
  const Word word = Stamp{unlinked.deadline, unlinked.is_suspicion, id.generation, id.incarnation}.pack();
  if (id.node == lane.node.node) {
    fabric::store_word_release(lane.node.data->at(at), word);
    ++lane.own.counters.stamps_local;
    co_return true;
  }
  const auto peer = static_cast<fabric::NodeId>(id.node);
  const fabric::LocalSlice source{lane.node.words, lane.word_at(lane_stamp)};
  for (int attempt = 0; attempt < 2; ++attempt) {
    fabric::store_word_release(lane.node.words->at(source.offset), word);
    const fabric::Completion done =
        co_await lane.worker.write(lane.own.peers[peer].data, at, source, 8, access.stats);
    if (done.ok()) {
      ++lane.own.counters.stamps_remote;
      co_return true;
    }
    LOCH_PROBE("nessie.stamp-repeated");
    const bool is_back = co_await reconnect(&lane, peer);
    if (!is_back) break;
  }
  LOCH_PROBE("nessie.stamp-put-off");
  ++lane.own.counters.stamps_put_off;
  co_return false;
}

coro::Task<void> mark(Access access, Unlinked unlinked) {
  // Number of queued stamps (marks that entries left the index) from which on the background work is
  // considered too slow: operations then write their stamps themselves, except to nodes that are out of
  // reach.
  constexpr std::size_t most_waiting = 256;
  WorkerState& own = access.own();
  const bool is_here = unlinked.id.node == access.node().node;
  const bool is_connected = access.worker().connected(static_cast<fabric::NodeId>(unlinked.id.node));
  const bool may_wait =
      access.settings().stamps_lazily && !access.marks_at_once && own.unlinked.size() < most_waiting;
  if (!is_here && (may_wait || !is_connected)) {
    own.unlinked.push_back(unlinked);
    co_return;
  }
  const bool is_marked = co_await stamp(access, unlinked);
  if (!is_marked) own.unlinked.push_back(unlinked);
}

}  // namespace

coro::Task<void> recycle(Access access, EntryId id) {
  if (Holdings* const own = access.own().holdings.get(); own != nullptr) {
    const Settings& settings = access.settings();
    const Nanos rest = settings.rules.honours_expiry ? settings.expiry + settings.clock_margin : 0;
    own->retire(id, access.worker().now() + rest);
    co_return;
  }
  const Unlinked unlinked{id, access.worker().node_clock() + access.settings().expiry, false};
  co_await mark(access, unlinked);
}

coro::Task<void> suspect(Access access, EntryId id) {
  ++access.own().counters.suspicions;
  if (access.own().holdings != nullptr) {
    LOCH_PROBE("nessie.remote.entry-given-up");
    access.own().holdings->give_up();
    co_return;
  }
  const Unlinked suspected{id, access.worker().node_clock() + access.settings().expiry, true};
  co_await mark(access, suspected);
}

coro::Task<std::size_t> flush_stamps(Access access, std::size_t most) {
  WorkerState& own = access.own();
  fabric::Worker& worker = access.worker();
  std::size_t marked = 0;
  const std::size_t waiting = std::min(most, own.unlinked.size());
  for (std::size_t i = 0; i < waiting && !own.unlinked.empty(); ++i) {
    const Unlinked next = own.unlinked.front();
    own.unlinked.pop_front();
    Peer& peer = own.peers[next.id.node];
    const bool is_out = !worker.connected(static_cast<fabric::NodeId>(next.id.node));
    if (is_out && !is_lost(access.lane, next.id) && worker.now() < peer.not_before) {
      own.unlinked.push_back(next);
      continue;
    }
    const bool is_marked = co_await stamp(access, next);
    if (is_marked) {
      ++marked;
      continue;
    }
    own.unlinked.push_back(next);
    own.peers[next.id.node].not_before = worker.now() + access.settings().reconnect_timeout;
  }
  co_return marked;
}

}  // namespace loch::nessie
