// Settles CASes of unknown outcome (finds out whether they happened), and scrubs (removes) the pending
// entries of dead clients.
#include <algorithm>
#include <set>

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "race/lane.h"

namespace loch::race {
namespace {

// The repairs of a worker: settles its doubts (CASes of unknown outcome), and removes what dead clients have
// left on the nodes: locks, pending entries and unfinished splits. Steps return `failed` if a node cannot be
// reached, and `again` if other clients have to take their next step first.
struct Repairs : Lane {
  using Lane::Lane;
  std::set<std::uint32_t> dead;  // numbers of the dead clients
  kv::Repair done;

  // Settles doubts until *is_over, and then for at most race.settle-timeout.
  coro::Task<void> settle_until(const bool* is_over) {
    Nanos until = fabric::forever;
    while (!worker.stopping() && worker.now() < until) {
      const bool is_last = *is_over;
      if (is_last && until == fabric::forever) until = worker.now() + settings.settle_timeout;
      bool are_left = false;  // because a node cannot be reached, and not because others have to act first
      for (std::size_t left = own.doubts.size(); left > 0; --left) {
        // A doubt is out of the list while it is being settled, because operations add others meanwhile.
        Doubt doubt = own.doubts.front();
        own.doubts.pop_front();
        const Ended settled = co_await settle(&doubt);
        are_left = are_left || settled == Ended::failed;
        own.counters.settled += settled == Ended::ok ? 1 : 0;
        if (settled != Ended::ok) own.doubts.push_back(doubt);
      }
      if (is_last && !are_left) co_return;
      co_await worker.sleep_until(worker.now() + settings.settle_interval);
    }
  }

  coro::Task<Ended> settle(Doubt* doubt) {
    if (doubt->step == Doubt::Step::update) return settle_update(*doubt);
    if (doubt->step == Doubt::Step::unlock) return ensure(doubt->slot, doubt->before, doubt->after);
    return settle_pending(doubt);
  }

  // Takes this worker's pending entry out of the doubt's slot, if the slot still holds it.
  coro::Task<Ended> settle_pending(Doubt* doubt) {
    LOCH_CO_TRY(read_word(doubt->slot));
    if (word_read == doubt->before) {
      // The doubt changes before this CAS: if it fails too, the entry's later absence says that it was taken
      // out, and no longer that it was committed.
      doubt->step = Doubt::Step::take_back;
      LOCH_CO_TRY(ensure(doubt->slot, doubt->before, doubt->after));
      LOCH_PROBE("race.settled-by-taking-back");
    }
    // If the slot no longer holds the pending entry, the commit took place, and this worker owns the block
    // that was left in the free slot before.
    const bool is_committed = doubt->step == Doubt::Step::commit;
    if (is_committed) LOCH_PROBE("race.commit-had-happened");
    own.give(doubt->slot.node, is_committed ? doubt->after : doubt->before);
    co_return Ended::ok;
  }

  // Settles an UPDATE: the slot tells whether it took place, as long as the slot names the old or the new
  // block.
  coro::Task<Ended> settle_update(Doubt doubt) {
    LOCH_CO_TRY(read_word(doubt.slot));
    const bool has_happened = parked(word_read) == parked(doubt.after);
    if (!has_happened && parked(word_read) != parked(doubt.before))
      co_return co_await settle_by_exclusion(doubt);
    LOCH_PROBE("race.settled-update");
    own.give(doubt.slot.node, has_happened ? doubt.before : doubt.after);
    co_return Ended::ok;
  }

  // Settles an UPDATE whose slot names neither the old nor the new block. If it took place, the client that
  // replaced the new block owns that; if not, another client owns the old one; the other of the two is this
  // worker's. The block whose generation has changed has been used again, by its owner.
  coro::Task<Ended> settle_by_exclusion(Doubt doubt) {
    bool are_read = true;
    for (const bool is_new : {true, false}) {
      const Word used = is_new ? doubt.after : doubt.before;
      const Ended fetched = co_await fetch(doubt.slot.node, used);
      are_read = are_read && fetched != Ended::failed;
      if (fetched == Ended::failed || head.generation == Entry::unpack(used).generation) continue;
      if (is_new) LOCH_PROBE("race.update-had-happened");
      if (!is_new) LOCH_PROBE("race.update-had-not-happened");
      own.give(doubt.slot.node, is_new ? doubt.before : doubt.after);
      co_return Ended::ok;
    }
    co_return are_read ? Ended::again : Ended::failed;
  }

  // Removes the locks of dead clients and their pending entries, and completes the splits that they began.
  coro::Task<Ended> scrub_node(fabric::NodeId peer) {
    const Shape& shape = settings.shape;
    LOCH_CO_TRY(read_directory(peer));
    const std::vector<std::uint8_t> depths = own.directory[peer];
    std::vector<std::uint32_t> left;
    for (std::uint32_t suffix = 0; suffix < depths.size(); ++suffix) {
      if (depths[suffix] == none) continue;
      const Slot slot{peer, shape.entry_at(suffix)};
      LOCH_CO_TRY(read_word(slot));
      const Word entry = word_read;
      if (dead.contains(locked_by(entry)) && !settings.has("scrub-leaves-locks")) {
        LOCH_PROBE("race.scrub-unlocks");
        LOCH_CO_TRY(ensure(slot, entry, directory_entry(entry_depth(entry))));
        ++done.counts["splits_taken_over"];
        left.push_back(suffix);
      }
      LOCH_CO_TRY(scrub_subtable(peer, suffix));
      // also the subtable that a split of this one may just be filling
      if (depths[suffix] < shape.max_depth) LOCH_CO_TRY(scrub_subtable(peer, suffix | 1U << depths[suffix]));
    }
    for (const std::uint32_t suffix : left) {
      if (co_await split(peer, suffix, depths[suffix]) == Ended::failed) co_return Ended::failed;
    }
    co_return Ended::ok;
  }

  // Reads a subtable, buckets_bytes at a time, and removes dead clients' pending entries.
  coro::Task<Ended> scrub_subtable(fabric::NodeId peer, std::uint32_t suffix) {
    const std::uint64_t bytes = settings.shape.subtable_bytes(), end = bytes * (suffix + 1ULL);
    for (std::uint64_t at = bytes * suffix; at < end; at += buckets_bytes) {
      const auto piece = static_cast<std::uint32_t>(std::min(buckets_bytes, end - at));
      LOCH_CO_TRY(read(&own.table[peer], at, buckets(), piece));
      for (std::uint64_t landed = 0; landed < piece; landed += 8) {
        const Word word = fabric::load_word(buckets(landed).data());
        if (landed % bucket_bytes != 0 && is_pending(word))
          LOCH_CO_TRY(scrub_slot({peer, at + landed}, word));
      }
    }
    co_return Ended::ok;
  }

  // Takes a pending entry out of its slot if a dead client wrote it.
  coro::Task<Ended> scrub_slot(Slot slot, Word word) {
    const Ended fetched = co_await fetch(slot.node, word);
    // A pending entry's block is written before its slot names it; so if the block is another one by now, the
    // entry is no longer pending.
    if (fetched != Ended::ok) co_return fetched == Ended::again ? Ended::ok : fetched;
    if (!dead.contains(head.writer) && !settings.has("scrub-clears-all")) co_return Ended::ok;
    if (settings.has("scrub-leaves-pending")) co_return Ended::ok;
    LOCH_PROBE("race.scrub-clears-pending");
    LOCH_CO_TRY(ensure(slot, word, parked(word)));
    ++done.counts["inserts_taken_back"];
    co_return Ended::ok;
  }
};

}  // namespace

coro::Task<void> RaceStore::background(fabric::Worker& worker, const bool* done) {
  NodeState& node = local(worker.node());
  Repairs lane(*this, worker, settings_.config.window);
  if (!node.chunks) co_return co_await lane.settle_until(done);
  co_await node.chunks->client(worker, lane.own).run_beside(lane.settle_until(done));
}

coro::Task<kv::Repair> RaceStore::scrub(fabric::Worker& worker, std::vector<kv::ClientId> dead) {
  const kv::DeployConfig& config = settings_.config;
  Repairs lane(*this, worker, config.window + 1);
  for (const kv::ClientId& client : dead) {
    if (config.drives(client.node)) lane.dead.insert(config.client_number(client.node, client.worker));
  }
  for (std::uint32_t i = 0; i < config.serving_nodes(); ++i) {
    const Ended ended = co_await lane.scrub_node(static_cast<fabric::NodeId>(i));
    if (ended != Ended::ok) lane.done.is_complete = false;
  }
  co_return std::move(lane.done);
}

}  // namespace loch::race
