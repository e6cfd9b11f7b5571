// Splits a subtable while other clients work in it: bucket after bucket, each in steps that another client
// can take over.
//
// Entries of a bucket whose key's hash has the next bit set are moved to the slots of the same numbers in the
// new subtable. As long as the old bucket's header has no moving_bit, the entries count in the old bucket.
// With the bit set, they are frozen one by one: they still count there, but cannot be changed. Once the
// header has the new depth, they count where they have been copied to, and the frozen words that stay behind
// are free slots. So at each instant one word, the old bucket's header, decides in which of the two subtables
// an entry is to be found.
#include <algorithm>
#include <array>

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "common/kv/back_off.h"
#include "race/lane.h"

namespace loch::race {
namespace {

using Words = std::array<Word, slots_per_bucket>;

// One client's split of a subtable. Its steps return `again` if a pending entry or another client is in the
// way.
class Splitting {
 public:
  // `depth` and `suffix` are those of the subtable before the split.
  Splitting(Lane& lane, fabric::NodeId peer, std::uint32_t suffix, std::uint32_t depth)
      : lane_(lane), peer_(peer), suffix_(suffix), added_(suffix | 1U << depth), depth_(depth) {}

  // Moves the entries of all buckets, and then enters the new subtable in the directory.
  coro::Task<Ended> move_all() {
    const Shape& shape = lane_.settings.shape;
    for (std::uint64_t at = 0; at < shape.subtable_bytes(); at += bucket_bytes) {
      from_ = shape.subtable_bytes() * suffix_ + at;
      to_ = shape.subtable_bytes() * added_ + at;
      LOCH_CO_TRY(move_bucket());
    }
    const Slot global{peer_, shape.directory_at()}, entry{peer_, shape.entry_at(added_)};
    for (Word depth = 0;;) {
      LOCH_CO_TRY(lane_.read_word(global, &depth));
      if (depth > depth_) break;
      LOCH_CO_TRY(lane_.ensure(global, depth, depth_ + 1, Proof::after_stays));
    }
    co_return co_await lane_.ensure(entry, 0, directory_entry(depth_ + 1), Proof::before_stays);
  }

 private:
  // If the key of slot `i` belongs to the new subtable, freezes the slot's word (nobody may change it then)
  // and copies it there.
  coro::Task<Ended> move_slot(std::uint32_t i, Word word) {
    if (is_free(word)) co_return Ended::ok;
    if (!is_frozen(word)) {
      LOCH_CO_TRY(lane_.fetch(peer_, word));
      const std::byte* key = lane_.scratch.data() + lane_.settings.block.key_at();
      const std::uint32_t hash = lane_.settings.shape.places({key, lane_.head.key_bytes}).suffix;
      if ((hash >> depth_ & 1) == 0) co_return Ended::ok;
      // The pending entry will not stay: its inserter commits it if it read the header before this client
      // changed that, and otherwise takes it out of the slot.
      if (is_pending(word)) co_return Ended::again;
      if (!lane_.settings.has(Flaw::moves_unfrozen)) {
        const Ended frozen = co_await lane_.swap(from(i), word, word | frozen_bit, Proof::after_stays);
        if (frozen != Ended::ok) co_return frozen == Ended::unknown ? Ended::failed : Ended::again;
      }
      ++lane_.own.counters.entries_moved;
    }
    // This CAS fails, harmlessly, if a client that began this split has copied the word already.
    co_return co_await lane_.ensure(to(i), 0, word & ~frozen_bit, Proof::before_stays);
  }

  // Frees the slots whose entries an earlier split has moved, and then sets moving_bit in the bucket's
  // header.
  coro::Task<Ended> announce(Word header, Words words) {
    for (std::uint32_t i = 0; i < words.size(); ++i) {
      if (is_frozen(words[i])) LOCH_CO_TRY(lane_.ensure(from(i + 1), words[i], 0, Proof::after_stays));
    }
    co_return co_await lane_.ensure(from(0), header, header | moving_bit, Proof::before_stays);
  }

  // Writes the new bucket's header, and then the old bucket's, from which on the moved entries count in the
  // new bucket.
  coro::Task<Ended> hand_over() {
    LOCH_CO_TRY(lane_.ensure(to(0), 0, header_of(depth_ + 1, added_), Proof::before_stays));
    const Word before = header_of(depth_, suffix_) | moving_bit, after = header_of(depth_ + 1, suffix_);
    const Ended last = co_await lane_.ensure(from(0), before, after, Proof::before_stays);
    ++lane_.own.counters.buckets_moved;
    co_return last;
  }

  // Moves one bucket's entries, or those that an unfinished split has not moved yet.
  coro::Task<Ended> move_bucket() {
    const Settings& s = lane_.settings;
    const fabric::LocalSlice into = lane_.buckets();
    for (std::uint32_t tries = 0; tries < s.attempts; ++tries) {
      LOCH_CO_TRY(lane_.read(&lane_.own.table[peer_], from_, into, bucket_bytes));
      const Word header = fabric::load_word(into.data());
      Words words{};
      fabric::copy_from_shared(words.data(), into.data() + 8, sizeof words);
      if (!is_header_of(header, suffix_)) co_return Ended::failed;
      if (depth_of(header) > depth_) co_return Ended::ok;
      if (!is_moving(header)) {
        LOCH_CO_TRY(announce(header, words));
        // The slots are read again after all clients can see the header: an INSERT whose entry this READ
        // misses will itself see that the bucket is being moved, and take its entry back.
        if (!s.has(Flaw::header_after_read)) continue;
      }
      Ended all = Ended::ok;
      for (std::uint32_t i = 0; i < words.size(); ++i) {
        const Ended one = co_await move_slot(i + 1, words[i]);
        if (one == Ended::failed) co_return one;
        if (one == Ended::again) all = one;
      }
      if (all == Ended::ok) co_return co_await hand_over();
      LOCH_PROBE("race.split-waits");
      co_await kv::back_off(&lane_.worker, s.backoff_start, s.backoff_cap, tries);
    }
    co_return Ended::again;
  }

  // Slot `i` (or, if `i` is 0, the header) of the bucket that is being moved, and its counterpart in the new
  // subtable.
  [[nodiscard]] Slot from(std::uint32_t i) const { return {peer_, from_ + 8ULL * i}; }
  [[nodiscard]] Slot to(std::uint32_t i) const { return {peer_, to_ + 8ULL * i}; }

  Lane& lane_;
  const fabric::NodeId peer_;
  const std::uint32_t suffix_, added_, depth_;
  std::uint64_t from_ = 0, to_ = 0;  // offsets of the bucket that is being moved and of its counterpart
};

}  // namespace

coro::Task<Ended> Lane::split(fabric::NodeId peer, std::uint32_t suffix, std::uint32_t depth) {
  const Slot entry{peer, settings.shape.entry_at(suffix)};
  const Word me = settings.config.client_number(worker.node(), worker.index()) + 1;
  const Word open = directory_entry(depth);
  // The lock's word has a number, which tells it from all others that this worker sets, in its other lanes or
  // later.
  const Word locked = open | me << 16 | Word{++own.locks} << 40;
  const Nanos began = worker.now();
  const Ended lock = co_await swap(entry, open, locked, Proof::after_stays);
  if (lock == Ended::unknown) own.doubts.push_back({Doubt::Step::unlock, entry, locked, open, 0});
  if (lock != Ended::ok) co_return lock == Ended::conflict ? lock : Ended::failed;
  Splitting splitting(*this, peer, suffix, depth);
  const Ended ended = co_await splitting.move_all();
  const Word after = ended == Ended::ok ? directory_entry(depth + 1) : open;
  const Ended unlocked = co_await swap(entry, locked, after, Proof::before_stays);
  if (unlocked == Ended::unknown) own.doubts.push_back({Doubt::Step::unlock, entry, locked, after, 0});
  if (ended != Ended::ok) co_return ended == Ended::again ? Ended::conflict : ended;
  ++own.counters.splits;
  own.counters.split_ns += static_cast<std::uint64_t>(worker.now() - began);
  co_return Ended::ok;
}

}  // namespace loch::race
