// Allocates and WRITEs entries of memory nodes.
#include "nessie/remote.h"

#include <array>
#include <span>

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "nessie/reach.h"

namespace loch::nessie {
namespace {

// WRITEs `length` bytes to the data table of a node, and READs the last 8 of them back behind the WRITE on
// the same connection. Returns whether both succeeded.
coro::Task<bool> write_through(Access access, fabric::NodeId peer, std::uint64_t at,
                               fabric::LocalSlice source, std::uint32_t length) {
  Lane& lane = access.lane;
  const fabric::RemoteRegion& data = lane.own.peers[peer].data;
  std::array<fabric::WorkRequest, 2> chain = {
      fabric::one_sided(fabric::Verb::write, data, at, source, length, access.stats),
      fabric::one_sided(fabric::Verb::read, data, at + length - 8,
                        {lane.node.words, lane.word_at(lane_flush)}, 8, access.stats)};
  chain[0].is_signaled = false;
  const std::span<fabric::WorkRequest> requests(chain);
  const fabric::WcStatus status = co_await lane.worker.post_and_wait(requests);
  co_return status == fabric::WcStatus::success;
}

// WRITEs the meta word of an entry.
coro::Task<bool> write_meta(Access access, EntryId id, EntryMeta meta) {
  Lane& lane = access.lane;
  meta.generation = static_cast<std::uint16_t>(id.generation);
  meta.incarnation = static_cast<std::uint8_t>(id.incarnation);
  meta.writer = lane.own.holdings->writer();
  const fabric::LocalSlice source{lane.node.words, lane.word_at(lane_stamp)};
  fabric::store_word_release(source.data(), meta.pack());
  const std::uint64_t at = id.index * lane.settings.entry.stride() + lane.settings.entry.meta_at();
  const auto peer = static_cast<fabric::NodeId>(id.node);
  co_return co_await write_through(access, peer, at, source, 8);
}

}  // namespace

coro::Task<std::optional<EntryId>> allocate_entry(Access access) {
  Lane& lane = access.lane;
  WorkerState& own = access.own();
  Holdings& holdings = *own.holdings;
  const std::uint32_t nodes = lane.settings.config.serving_nodes();
  holdings.reclaim(lane.worker.now());
  // The nodes on which this worker owns a free entry come first, because there nothing has to be awaited.
  for (const bool asks : {false, true}) {
    if (asks && lane.node.chunks == nullptr) break;
    for (std::uint32_t i = 0; i < nodes; ++i) {
      const auto node = static_cast<fabric::NodeId>(own.next_node);
      own.next_node = (own.next_node + 1) % nodes;
      if ((!asks && holdings.left(node) == 0) || own.peers[node].is_gone) continue;
      if (lane.node.chunks != nullptr) {
        const chunks::Supply supply =
            co_await lane.node.chunks->client(lane.worker, holdings).supply(node, access.stats);
        if (supply != chunks::Supply::ready) continue;
      }
      co_return holdings.take(node);
    }
  }
  holdings.count_exhausted();
  co_return std::nullopt;
}

void release_entry(Lane& lane, const EntryId& id) {
  if (lane.own.holdings == nullptr)
    lane.own.table.release(id);
  else
    lane.own.holdings->give_back(id);
}

coro::Task<bool> place_entry(Access access, EntryId id) {
  Lane& lane = access.lane;
  const auto peer = static_cast<fabric::NodeId>(id.node);
  const std::uint64_t at = id.index * lane.settings.entry.stride();
  const fabric::LocalSlice source{lane.node.staging, lane.landing_base};
  const std::uint32_t length = lane.settings.entry.full_bytes();
  if (lane.has(Flaw::link_overtakes_write)) {
    fabric::WorkRequest write =
        fabric::one_sided(fabric::Verb::write, lane.own.peers[peer].data, at, source, length, access.stats);
    write.is_signaled = false;
    lane.worker.post_detached(write);
    co_return true;
  }
  constexpr int most_tries = 2;
  for (int attempt = 0; attempt < most_tries; ++attempt) {
    const bool is_written = co_await write_through(access, peer, at, source, length);
    if (is_written) co_return true;
    LOCH_PROBE("nessie.remote.entry-written-again");
    const bool is_back = co_await reconnect(&lane, peer);
    if (!is_back) break;
  }
  co_return false;
}

coro::Task<bool> mark_valid(Access access, EntryId id, EntryMeta meta) {
  const bool is_written = co_await write_meta(access, id, meta);
  if (is_written) co_return true;
  co_return co_await settle_valid(access, id, meta);
}

coro::Task<bool> settle_valid(Access access, EntryId id, EntryMeta meta) {
  Lane& lane = access.lane;
  const auto peer = static_cast<fabric::NodeId>(id.node);
  const fabric::LocalSlice landing{lane.node.words, lane.word_at(lane_pair)};
  const std::uint64_t at = id.index * lane.settings.entry.stride() + lane.settings.entry.meta_at();
  constexpr int most_tries = 4;
  for (int attempt = 0; attempt < most_tries; ++attempt) {
    const bool is_back = co_await reconnect(&lane, peer);
    if (!is_back) co_return false;
    const fabric::Completion read =
        co_await lane.worker.read(lane.own.peers[peer].data, at, landing, 8, access.stats);
    if (!read.ok()) continue;
    const Word stored = fabric::load_word(landing.data());
    const EntryMeta seen = EntryMeta::unpack(stored);
    const bool is_pending = WordFormat::is_stored(stored) && seen.writer == lane.own.holdings->writer() &&
                            seen.generation == id.generation && seen.kind == meta.kind && !seen.is_valid;
    if (!is_pending) {
      LOCH_PROBE("nessie.remote.valid-had-been-set");
      co_return true;
    }
    const bool is_written = co_await write_meta(access, id, meta);
    if (is_written) co_return true;
  }
  co_return false;
}

}  // namespace loch::nessie
