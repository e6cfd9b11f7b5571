// Settles CASes of unknown outcome, and scrubs the pending entries of dead clients.
#include <algorithm>
#include <set>

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "race/lane.h"

namespace loch::race {
namespace {

// Settles the doubts of a worker. Of its steps, `failed` says that a node cannot be reached, `again` that
// others have to take their next step first.
class Settling : public Lane {
 public:
  using Lane::Lane;

  // Tries once to settle each doubt. Returns whether some are left that wait for nobody's next step.
  [[nodiscard]] coro::Task<bool> settle_all() {
    bool are_left = false;
    for (std::size_t left = own.doubts.size(); left > 0; --left) {
      // Out of the list while it is looked at, since operations add to it meanwhile.
      Doubt doubt = own.doubts.front();
      own.doubts.pop_front();
      const Ended settled = co_await settle(&doubt);
      are_left = are_left || settled == Ended::failed;
      if (settled == Ended::ok)
        ++own.counters.settled;
      else
        own.doubts.push_back(doubt);
    }
    co_return are_left;
  }

 private:
  coro::Task<Ended> settle(Doubt* doubt) {
    if (doubt->step == Doubt::Step::update) return settle_update(*doubt);
    if (doubt->step == Doubt::Step::unlock)
      return ensure(doubt->slot, doubt->before, doubt->after, Proof::before_stays);
    return settle_pending(doubt);
  }

  // Takes a pending entry of this worker away, unless its slot does not hold it.
  coro::Task<Ended> settle_pending(Doubt* doubt) {
    const Word pending = doubt->step == Doubt::Step::link ? doubt->after : doubt->before;
    Word now = 0;
    LOCH_CO_TRY(read_word(doubt->slot, &now));
    if (now == pending) {
      // From here on the entry's absence says that it was taken away, and no longer that it was committed.
      *doubt = {Doubt::Step::take_back, doubt->slot, pending, doubt->free, doubt->free};
      LOCH_CO_TRY(ensure(doubt->slot, pending, doubt->free, Proof::before_stays));
      LOCH_PROBE("race.settled-by-taking-back");
    }
    // A commit took place if the slot does not hold the pending entry; this worker then has the block of the
    // free slot.
    const bool is_committed = doubt->step == Doubt::Step::commit;
    if (is_committed) LOCH_PROBE("race.commit-had-happened");
    own.give(doubt->slot.node, is_committed ? doubt->free : pending);
    co_return Ended::ok;
  }

  // An UPDATE: the slot tells whether it took place, as long as it holds the block of either word.
  coro::Task<Ended> settle_update(Doubt doubt) {
    Word now = 0;
    LOCH_CO_TRY(read_word(doubt.slot, &now));
    const bool has_happened = parked(now) == parked(doubt.after);
    if (!has_happened && parked(now) != parked(doubt.before)) co_return co_await settle_by_exclusion(doubt);
    LOCH_PROBE("race.settled-update");
    own.give(doubt.slot.node, has_happened ? doubt.before : doubt.after);
    co_return Ended::ok;
  }

  // An update whose slot holds neither word: if it took place, somebody else took its new block out and owns
  // it; if not, somebody else owns the old one. The other block is this worker's. A block that has another
  // generation has been used again by its owner.
  coro::Task<Ended> settle_by_exclusion(Doubt doubt) {
    bool are_read = true;
    for (const bool is_new : {true, false}) {
      const Word used = is_new ? doubt.after : doubt.before;
      const Ended fetched = co_await fetch(doubt.slot.node, used);
      are_read = are_read && fetched != Ended::failed;
      if (fetched == Ended::failed || head.generation == Entry::unpack(used).generation) continue;
      if (is_new)
        LOCH_PROBE("race.update-had-happened");
      else
        LOCH_PROBE("race.update-had-not-happened");
      own.give(doubt.slot.node, is_new ? doubt.before : doubt.after);
      co_return Ended::ok;
    }
    co_return are_read ? Ended::again : Ended::failed;
  }
};

// Repairs what dead clients have left on the nodes.
class Scrub : public Lane {
 public:
  Scrub(RaceStore& of, fabric::Worker& by, std::uint32_t which, std::set<std::uint32_t> dead)
      : Lane(of, by, which), dead_(std::move(dead)) {}

  // Takes the locks of dead clients away, clears the subtables of pending entries, and goes on with the
  // splits that the dead began.
  [[nodiscard]] coro::Task<Ended> scrub_node(fabric::NodeId peer) {
    const Shape& shape = settings.shape;
    LOCH_CO_TRY(read_directory(peer));
    const std::vector<std::uint8_t> depths = own.directory[peer];
    std::vector<std::uint32_t> left;
    for (std::uint32_t suffix = 0; suffix < depths.size(); ++suffix) {
      if (depths[suffix] == none) continue;
      const Slot slot{peer, shape.entry_at(suffix)};
      Word entry = 0;
      LOCH_CO_TRY(read_word(slot, &entry));
      if (locked_by(entry) != nobody && dead_.contains(locked_by(entry))) {
        LOCH_PROBE("race.scrub-unlocks");
        LOCH_CO_TRY(ensure(slot, entry, directory_entry(entry_depth(entry)), Proof::before_stays));
        ++done_.counts["splits_taken_over"];
        left.push_back(suffix);
      }
      LOCH_CO_TRY(scrub_subtable(peer, suffix));
      // … and the subtable into which this one may just be split
      if (depths[suffix] < shape.max_depth) LOCH_CO_TRY(scrub_subtable(peer, suffix | 1U << depths[suffix]));
    }
    for (std::size_t i = 0; i < left.size(); ++i) {
      const Ended ended = co_await split(peer, left[i], depths[left[i]]);
      if (ended == Ended::failed) co_return ended;
    }
    co_return Ended::ok;
  }
  [[nodiscard]] kv::Repair& done() { return done_; }

 private:
  // Reads a subtable in pieces of buckets_bytes.
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

  // Takes a pending entry away if it is a dead client's.
  coro::Task<Ended> scrub_slot(Slot slot, Word word) {
    const Ended fetched = co_await fetch(slot.node, word);
    // A pending entry's block is written before its slot names it, so that another block is a later one's.
    if (fetched != Ended::ok) co_return fetched == Ended::again ? Ended::ok : fetched;
    if (!dead_.contains(head.writer) && !settings.has(Flaw::scrub_clears_all)) co_return Ended::ok;
    LOCH_PROBE("race.scrub-clears-pending");
    LOCH_CO_TRY(ensure(slot, word, parked(word), Proof::before_stays));
    ++done_.counts["inserts_taken_back"];
    co_return Ended::ok;
  }

  std::set<std::uint32_t> dead_;  // numbers of clients
  kv::Repair done_;
};

}  // namespace

coro::Task<void> RaceStore::background(fabric::Worker& worker, const bool* done) {
  NodeState& node = local(worker.node());
  if (!node.chunks) return settle(&worker, done);
  return node.chunks->client(worker, *node.workers.at(worker.index())).run_beside(settle(&worker, done));
}

// Settles doubts until *done, and then at most for race.settle-timeout.
coro::Task<void> RaceStore::settle(fabric::Worker* of, const bool* done) {
  fabric::Worker& worker = *of;
  Settling lane(*this, worker, settings_->config.window);
  Nanos until = fabric::forever;
  while (!worker.stopping() && worker.now() < until) {
    const bool is_over = *done;
    if (is_over && until == fabric::forever) until = worker.now() + settings_->settle_timeout;
    const bool are_left = co_await lane.settle_all();
    if (is_over && !are_left) co_return;
    co_await worker.sleep_until(worker.now() + settings_->settle_interval);
  }
}

coro::Task<kv::Repair> RaceStore::scrub(fabric::Worker& worker, std::vector<kv::ClientId> dead) {
  const kv::DeployConfig& config = settings_->config;
  std::set<std::uint32_t> writers;
  for (const kv::ClientId& client : dead) {
    if (config.drives(client.node)) writers.insert(config.client_number(client.node, client.worker));
  }
  Scrub lane(*this, worker, config.window + 1, std::move(writers));
  for (std::uint32_t i = 0; i < config.serving_nodes(); ++i) {
    const Ended ended = co_await lane.scrub_node(static_cast<fabric::NodeId>(i));
    lane.done().is_complete = lane.done().is_complete && ended == Ended::ok;
  }
  co_return std::move(lane.done());
}

}  // namespace loch::race
