// Settles CASes of unknown outcome, and scrubs the pending entries of dead clients.
#include <algorithm>
#include <set>

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "race/lane.h"

namespace loch::race {
namespace {

// Reads the generation that a block has now. None: its node cannot be reached.
coro::Task<std::optional<std::uint32_t>> read_generation(Lane* lane, fabric::NodeId node, Word word) {
  const Fetched fetched = co_await fetch(lane, node, word, {}, nullptr);
  if (fetched.state == Fetched::State::failed) co_return std::nullopt;
  co_return fetched.head.generation;
}

enum class Settled : std::uint8_t { yes, unreachable, waits };

// An update whose slot holds neither word: if it took place, somebody else took its new block out and owns
// it; if not, somebody else owns the old one. The other block is this worker's. A block that has another
// generation has been used again by its owner.
coro::Task<Settled> settle_by_exclusion(Lane* lane, Doubt doubt) {
  const fabric::NodeId node = doubt.slot.node;
  const std::optional<std::uint32_t> after = co_await read_generation(lane, node, doubt.after);
  if (after && *after != Entry::unpack(doubt.after).generation) {
    LOCH_PROBE("race.update-had-happened");
    lane->own.give(lane->settings, node, doubt.before);
    co_return Settled::yes;
  }
  const std::optional<std::uint32_t> before = co_await read_generation(lane, node, doubt.before);
  if (before && *before != Entry::unpack(doubt.before).generation) {
    LOCH_PROBE("race.update-had-not-happened");
    lane->own.give(lane->settings, node, doubt.after);
    co_return Settled::yes;
  }
  co_return after&& before ? Settled::waits : Settled::unreachable;
}

// Takes a pending entry of this worker away, unless its slot does not hold it.
coro::Task<Settled> settle_pending(Lane* lane, Doubt* doubt) {
  const Word pending = doubt->step == Doubt::Step::link ? doubt->after : doubt->before;
  const std::optional<Word> now = co_await read_slot(lane, doubt->slot);
  if (!now) co_return Settled::unreachable;
  const bool is_there = *now == pending;
  if (is_there) {
    // From here on the entry's absence says that it was taken away, and no longer that it was committed.
    *doubt = {Doubt::Step::take_back, doubt->slot, pending, doubt->free, doubt->free};
    const Swap taken = co_await swap(lane, doubt->slot, pending, doubt->free, Proof::before_stays, nullptr);
    if (taken == Swap::unknown) co_return Settled::unreachable;
    LOCH_PROBE("race.settled-by-taking-back");
  }
  // A commit took place if the slot does not hold the pending entry; this worker then has the block of the
  // free slot.
  const bool is_committed = doubt->step == Doubt::Step::commit;
  if (is_committed) LOCH_PROBE("race.commit-had-happened");
  lane->own.give(lane->settings, doubt->slot.node, is_committed ? doubt->free : pending);
  co_return Settled::yes;
}

// An UPDATE: the slot tells whether it took place, as long as it holds the block of either word.
coro::Task<Settled> settle_update(Lane* lane, Doubt doubt) {
  const std::optional<Word> now = co_await read_slot(lane, doubt.slot);
  if (!now) co_return Settled::unreachable;
  const bool has_happened = parked(*now) == parked(doubt.after);
  if (!has_happened && parked(*now) != parked(doubt.before))
    co_return co_await settle_by_exclusion(lane, doubt);
  LOCH_PROBE("race.settled-update");
  lane->own.give(lane->settings, doubt.slot.node, has_happened ? doubt.before : doubt.after);
  co_return Settled::yes;
}

// The entry of a directory whose lock this worker could not take away.
coro::Task<Settled> settle_lock(Lane* lane, Doubt doubt) {
  const Swap opened =
      co_await swap(lane, doubt.slot, doubt.before, doubt.after, Proof::before_stays, nullptr);
  co_return opened == Swap::unknown ? Settled::unreachable : Settled::yes;
}

// Looks at one bucket of a node's table for pending entries of dead clients.
coro::Task<bool> scrub_bucket(Lane* lane, fabric::NodeId node, std::uint64_t at, std::uint64_t landed,
                              const std::set<std::uint32_t>* dead, kv::Repair* done) {
  for (std::uint32_t i = 1; i <= slots_per_bucket; ++i) {
    const Slot slot{node, at + 8ULL * i};
    const Word word = fabric::load_word(lane->node.buckets->at(lane->buckets_at() + landed + 8ULL * i));
    if (!is_pending(word)) continue;
    const Fetched fetched = co_await fetch(lane, node, word, {}, nullptr);
    if (fetched.state == Fetched::State::failed) co_return false;
    // A pending entry's block is written before its slot names it, so that another block is a later one's.
    if (fetched.state == Fetched::State::changed) continue;
    if (!dead->contains(fetched.head.writer) && !lane->settings.has(Flaw::scrub_clears_all)) continue;
    LOCH_PROBE("race.scrub-clears-pending");
    const Swap taken = co_await swap(lane, slot, word, parked(word), Proof::before_stays, nullptr);
    if (taken == Swap::unknown) co_return false;
    ++done->counts["inserts_taken_back"];
  }
  co_return true;
}

// Reads a subtable in pieces of buckets_bytes.
coro::Task<bool> scrub_subtable(Lane* lane, fabric::NodeId node, std::uint32_t suffix,
                                const std::set<std::uint32_t>* dead, kv::Repair* done) {
  const std::uint64_t end = lane->settings.shape.subtable_bytes() * (suffix + 1ULL);
  for (std::uint64_t at = lane->settings.shape.subtable_bytes() * suffix; at < end; at += buckets_bytes) {
    const auto bytes = static_cast<std::uint32_t>(std::min(buckets_bytes, end - at));
    const fabric::LocalSlice into{lane->node.buckets, lane->buckets_at()};
    const bool is_read = co_await read(lane, &lane->own.table[node], at, into, bytes, nullptr);
    if (!is_read) co_return false;
    for (std::uint64_t bucket = 0; bucket < bytes; bucket += bucket_bytes) {
      const bool is_clean = co_await scrub_bucket(lane, node, at + bucket, bucket, dead, done);
      if (!is_clean) co_return false;
    }
  }
  co_return true;
}

// Takes the locks of dead clients away, clears the subtables of pending entries, and goes on with the splits
// that the dead began.
coro::Task<bool> scrub_node(Lane* lane, fabric::NodeId node, const std::set<std::uint32_t>* dead,
                            kv::Repair* done) {
  const Shape& shape = lane->settings.shape;
  const bool is_read = co_await read_directory(lane, node, nullptr);
  if (!is_read) co_return false;
  const std::vector<std::uint8_t> depths = lane->own.directory[node];
  std::vector<std::uint32_t> left;
  for (std::uint32_t suffix = 0; suffix < depths.size(); ++suffix) {
    if (depths[suffix] == none) continue;
    const Slot slot{node, shape.entry_at(suffix)};
    const std::optional<Word> entry = co_await read_slot(lane, slot);
    if (!entry) co_return false;
    if (locked_by(*entry) != nobody && dead->contains(locked_by(*entry))) {
      LOCH_PROBE("race.scrub-unlocks");
      const Word open = directory_entry(entry_depth(*entry));
      const Swap opened = co_await swap(lane, slot, *entry, open, Proof::before_stays, nullptr);
      if (opened == Swap::unknown) co_return false;
      ++done->counts["splits_taken_over"];
      left.push_back(suffix);
    }
    const bool is_clean = co_await scrub_subtable(lane, node, suffix, dead, done);
    if (!is_clean) co_return false;
    // … and the subtable into which this one may just be split
    const std::uint32_t added = suffix | 1U << depths[suffix];
    if (depths[suffix] >= shape.max_depth) continue;
    const bool is_clean_too = co_await scrub_subtable(lane, node, added, dead, done);
    if (!is_clean_too) co_return false;
  }
  for (std::size_t i = 0; i < left.size(); ++i) {
    const Split ended = co_await split(lane, node, left[i], depths[left[i]]);
    if (ended == Split::failed) co_return false;
  }
  co_return true;
}

coro::Task<Settled> settle(Lane* lane, Doubt* doubt) {
  if (doubt->step == Doubt::Step::update) co_return co_await settle_update(lane, *doubt);
  if (doubt->step == Doubt::Step::unlock) co_return co_await settle_lock(lane, *doubt);
  co_return co_await settle_pending(lane, doubt);
}

// Tries once to settle each of the worker's doubts. Returns whether some are left that wait for nobody's next
// step.
coro::Task<bool> settle_doubts(Lane* lane) {
  std::deque<Doubt>& doubts = lane->own.doubts;
  bool are_left = false;
  for (std::size_t left = doubts.size(); left > 0; --left) {
    // Out of the list while it is looked at, since operations add to it meanwhile.
    Doubt doubt = doubts.front();
    doubts.pop_front();
    const Settled settled = co_await settle(lane, &doubt);
    are_left = are_left || settled == Settled::unreachable;
    if (settled == Settled::yes)
      ++lane->own.counters.settled;
    else
      doubts.push_back(doubt);
  }
  co_return are_left;
}

}  // namespace

coro::Task<void> RaceStore::background(fabric::Worker& worker, const bool* done) {
  NodeState& node = local(worker.node());
  if (!node.chunks) return settle(&worker, done);
  return node.chunks->client(worker, *node.workers.at(worker.index())).run_beside(settle(&worker, done));
}

// Settles doubts until *done, and then at most for race.settle-timeout.
coro::Task<void> RaceStore::settle(fabric::Worker* of, const bool* done) {
  fabric::Worker& worker = *of;
  Lane lane(*this, worker, settings_->config.window);
  Nanos until = fabric::forever;
  while (!worker.stopping() && worker.now() < until) {
    const bool is_over = *done;
    if (is_over && until == fabric::forever) until = worker.now() + settings_->settle_timeout;
    const bool are_left = co_await settle_doubts(&lane);
    if (is_over && !are_left) co_return;
    co_await worker.sleep_until(worker.now() + settings_->settle_interval);
  }
}

coro::Task<kv::Repair> RaceStore::scrub(fabric::Worker& worker, std::vector<kv::ClientId> dead) {
  const kv::DeployConfig& config = settings_->config;
  Lane lane(*this, worker, config.window + 1);
  kv::Repair done;
  std::set<std::uint32_t> writers;
  for (const kv::ClientId& client : dead) {
    if (config.drives(client.node)) writers.insert(config.client_number(client.node, client.worker));
  }
  for (std::uint32_t i = 0; i < config.serving_nodes(); ++i) {
    const bool is_clean = co_await scrub_node(&lane, static_cast<fabric::NodeId>(i), &writers, &done);
    done.is_complete = done.is_complete && is_clean;
  }
  co_return done;
}

}  // namespace loch::race
