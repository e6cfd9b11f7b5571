// Splits a subtable while other clients work in it: bucket after bucket, each in steps that another client
// can take over.
//
// Entries of a bucket whose key's hash has the next bit set are moved to the slots of the same numbers in the
// new subtable. As long as the old bucket's header has no moving_bit, the entries count in the old bucket.
// With the bit set, they are frozen one by one: they still count there, but cannot be changed. Once the
// header has the new depth, they count where they have been copied to, and the frozen words that stay behind
// are free slots. So at each instant one word, the old bucket's header, decides in which of the two subtables
// an entry is to be found.
#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "common/kv/back_off.h"
#include "race/lane.h"

namespace loch::race {
namespace {

// One client's split of a subtable. Its steps return `again` if a pending entry or another client is in the
// way.
struct Splitting {
  Lane& lane;
  const fabric::NodeId peer;
  const std::uint32_t suffix, depth;  // of the subtable before the split
  const std::uint32_t added = suffix | 1U << depth;
  // offsets of the bucket that is being moved and of its counterpart in the subtable `added`
  std::uint64_t old_at = 0, new_at = 0;

  // Slot `i` (or, if `i` is 0, the header) of the bucket that is being moved, and its counterpart.
  [[nodiscard]] Slot from(std::uint32_t i) const { return {peer, old_at + 8ULL * i}; }
  [[nodiscard]] Slot to(std::uint32_t i) const { return {peer, new_at + 8ULL * i}; }
  // The word of that slot (or the header) as move_bucket() has read it.
  [[nodiscard]] Word word(std::uint32_t i) const { return fabric::load_word(lane.buckets(8ULL * i).data()); }

  // Moves the entries of all buckets, and then enters the new subtable in the directory.
  coro::Task<Ended> move_all() {
    const Shape& shape = lane.settings.shape;
    for (std::uint64_t at = 0; at < shape.subtable_bytes(); at += bucket_bytes) {
      old_at = shape.subtable_bytes() * suffix + at;
      new_at = shape.subtable_bytes() * added + at;
      LOCH_CO_TRY(move_bucket());
    }
    const Slot global{peer, shape.directory_at()}, entry{peer, shape.entry_at(added)};
    for (;;) {
      LOCH_CO_TRY(lane.read_word(global));
      if (lane.word_read > depth) break;
      LOCH_CO_TRY(lane.ensure(global, lane.word_read, depth + 1));
    }
    co_return co_await lane.ensure(entry, 0, directory_entry(depth + 1));
  }

  // Moves one bucket's entries, or those that an unfinished split has not moved yet.
  coro::Task<Ended> move_bucket() {
    const Settings& s = lane.settings;
    for (std::uint32_t tries = 0; tries < s.attempts; ++tries) {
      LOCH_CO_TRY(lane.read(&lane.own.table[peer], old_at, lane.buckets(), bucket_bytes));
      const Word header = word(0);
      if (!is_header_of(header, suffix)) co_return Ended::failed;
      if (depth_of(header) > depth) co_return Ended::ok;
      if (!is_moving(header)) {
        // Slots whose entries an earlier split has moved become free, before the header says that frozen
        // words count.
        for (std::uint32_t i = 1; i <= slots_per_bucket; ++i) {
          if (is_frozen(word(i))) LOCH_CO_TRY(lane.ensure(from(i), word(i), 0));
        }
        LOCH_CO_TRY(lane.ensure(from(0), header, header | moving_bit));
        // The slots are read again after all clients can see the header: an INSERT whose entry this READ
        // misses will itself see that the bucket is being moved, and take its entry back.
        if (!s.has("header-after-read")) continue;
      }
      if (s.has("moved-before-copied")) LOCH_CO_TRY(turn_over(header | moving_bit));
      Ended all = Ended::ok;
      for (std::uint32_t i = 1; i <= slots_per_bucket; ++i) {
        const Ended one = co_await move_slot(i, word(i));
        if (one == Ended::failed) co_return one;
        if (one == Ended::again) all = one;
      }
      if (all == Ended::ok) {
        ++lane.own.counters.buckets_moved;
        co_return co_await turn_over(header | moving_bit);
      }
      LOCH_PROBE("race.split-waits");
      co_await kv::back_off(&lane.worker, s.backoff_start, s.backoff_cap, tries);
    }
    co_return Ended::again;
  }

  // Gives the bucket's counterpart a header, and the bucket its new depth: from that CAS on, the entries that
  // belong to the counterpart count there.
  coro::Task<Ended> turn_over(Word moving) {
    LOCH_CO_TRY(lane.ensure(to(0), 0, header_of(depth + 1, added)));
    co_return co_await lane.ensure(from(0), moving, header_of(depth + 1, suffix));
  }

  // If the key of slot `i` belongs to the new subtable, freezes the slot's word (nobody may change it then)
  // and copies it there.
  coro::Task<Ended> move_slot(std::uint32_t i, Word word) {
    if (is_free(word)) co_return Ended::ok;
    if (!is_frozen(word)) {
      LOCH_CO_TRY(lane.fetch(peer, word));
      const Places places = lane.settings.shape.places(BlockLayout::key_in(lane.scratch, lane.head));
      if ((places.suffix >> depth & 1) == 0) co_return Ended::ok;
      // The pending entry will not stay: its inserter commits it if it read the header before this client
      // changed that, and otherwise takes it out of the slot.
      if (is_pending(word)) co_return Ended::again;
      if (!lane.settings.has("moves-unfrozen")) {
        const Ended frozen = co_await lane.swap(from(i), word, word | frozen_bit, Proof::after_stays);
        if (frozen != Ended::ok) co_return frozen == Ended::unknown ? Ended::failed : Ended::again;
      }
      ++lane.own.counters.entries_moved;
    }
    // This CAS fails, harmlessly, if a client that began this split has copied the word already.
    co_return co_await lane.ensure(to(i), 0, word & ~frozen_bit);
  }
};

}  // namespace

coro::Task<Ended> Lane::split(fabric::NodeId peer, std::uint32_t suffix, std::uint32_t depth) {
  const Slot entry{peer, settings.shape.entry_at(suffix)};
  const Word open = directory_entry(depth);
  // The lock's word has a number, which tells it from all others that this worker sets, in its other lanes or
  // later.
  const Word locked = open | Word{me + 1} << 16 | Word{++own.locks} << 40;
  const Nanos began = worker.now();
  const Ended lock = co_await swap(entry, open, locked, Proof::after_stays);
  if (lock == Ended::unknown) leave({Doubt::Step::unlock, entry, locked, open});
  if (lock != Ended::ok) co_return lock == Ended::conflict ? lock : Ended::failed;
  Splitting splitting{*this, peer, suffix, depth};
  const Ended ended = co_await splitting.move_all();
  const Word after = ended == Ended::ok ? directory_entry(depth + 1) : open;
  const Ended unlocked = co_await swap(entry, locked, after, Proof::before_stays);
  if (unlocked == Ended::unknown) leave({Doubt::Step::unlock, entry, locked, after});
  if (ended != Ended::ok) co_return ended == Ended::again ? Ended::conflict : ended;
  ++own.counters.splits;
  own.counters.split_ns += static_cast<std::uint64_t>(worker.now() - began);
  co_return Ended::ok;
}

}  // namespace loch::race
