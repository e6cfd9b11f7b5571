// Executes GET, PUT, INSERT and DELETE of RACE hashing: makes attempts, with back-off between them, until one
// ends the operation.
#include <algorithm>
#include <array>

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "common/kv/back_off.h"
#include "race/lane.h"

namespace loch::race {
namespace {

kv::OpResult result_of(Ended ended, std::uint32_t retries) {
  using kv::OpStatus;
  // The operation's status, indexed by the value of Ended with which its last attempt ended.
  static constexpr std::array statuses = {OpStatus::ok,         OpStatus::not_found, OpStatus::exists,
                                          OpStatus::conflict,   OpStatus::conflict,  OpStatus::table_full,
                                          OpStatus::table_full, OpStatus::error,     OpStatus::error};
  static_assert(statuses.size() == static_cast<std::size_t>(Ended::unknown) + 1);
  const kv::Effect effect = ended == Ended::unknown ? kv::Effect::unknown : kv::Effect::none;
  return {.status = statuses[static_cast<std::size_t>(ended)], .effect = effect, .retries = retries};
}

// The client of one window slot, and the state of its operation; it executes one operation at a time.
class RaceClient final : public kv::Client, Lane {
 public:
  RaceClient(RaceStore& of, fabric::Worker& by, std::uint32_t slot) : Lane(of, by, slot) {}

  [[nodiscard]] coro::Task<kv::OpResult> get(kv::Key key, fabric::OpStats* stats) override {
    begin(key, stats);
    kv::OpResult result = co_await repeat(&RaceClient::get_once);
    const BlockLayout& block = settings.block;
    if (result.status == kv::OpStatus::ok)
      result.value = {scratch.data() + block.value_at(), block.value_size(), block.kept()};
    co_return result;
  }
  [[nodiscard]] coro::Task<kv::OpResult> put(kv::Key key, kv::ValueView value,
                                             fabric::OpStats* stats) override {
    begin(key, stats);
    return write(value);
  }
  [[nodiscard]] coro::Task<kv::OpResult> insert_if_absent(kv::Key key, kv::ValueView value,
                                                          fabric::OpStats* stats) override {
    begin(key, stats);
    only_if_absent_ = true;
    return write(value);
  }
  [[nodiscard]] coro::Task<kv::OpResult> remove(kv::Key key, fabric::OpStats* stats) override {
    begin(key, stats);
    return repeat(&RaceClient::remove_once);
  }
  [[nodiscard]] bool can_migrate() const override { return settings.shape.max_depth > settings.shape.depth; }
  [[nodiscard]] coro::Task<kv::OpResult> migrate(kv::Key key, fabric::OpStats* stats) override {
    begin(key, stats);
    const Ended ended = co_await split_once();
    co_return result_of(ended, 0);
  }

 private:
  using Attempt = coro::Task<Ended> (RaceClient::*)();

  void begin(kv::Key key, fabric::OpStats* stats) {
    key_ = key;
    places_ = settings.shape.places(key);
    stats_ = stats;
    block_.reset();
    only_if_absent_ = is_written_ = false;
  }
  [[nodiscard]] Word word(bool pending) const {
    return Entry{places_.fingerprint, settings.block.units(), block_->number, block_->generation, pending}
        .pack();
  }
  // Leaves it to the worker's background work (repair.cc) to find out whether a CAS of unknown outcome took
  // place.
  void leave(Doubt::Step step, Slot slot, Word before, Word after, Word free = 0) {
    LOCH_PROBE("race.left-in-doubt");
    ++own.counters.doubts;
    own.doubts.push_back({step, slot, before, after, free});
  }

  // READs both combined buckets of the key; before that, WRITEs the operation's block if that was not done
  // yet.
  coro::Task<Ended> look_at_places() {
    const Block* block = block_ && !is_written_ ? &*block_ : nullptr;
    LOCH_CO_TRY(look(&places_, block, &view_, stats_));
    is_written_ = is_written_ || block != nullptr;
    if (!settings.rules.is_pending_first) view_.order_as_published();
    co_return Ended::ok;
  }

  // Whether the buckets that were read were still the key's when their slots were read; `again` if not. On a
  // fabric where one READ may see a header and a slot at different instants, a split may have moved an entry
  // in between; a second READ of the headers shows that.
  coro::Task<Ended> is_sure() {
    if (!store.tears_buckets() || view_.depth() >= settings.shape.max_depth) co_return Ended::ok;
    View second;
    LOCH_CO_TRY_OR(Ended::again, look(&places_, nullptr, &second, stats_));
    co_return second.headers() == view_.headers() ? Ended::ok : Ended::again;
  }

  // Looks for an entry of the key in the slots that were read, except slot `except`. ok: found a committed
  // one; conflict: found only a pending one (of an unfinished INSERT).
  coro::Task<Ended> find(bool wants_pending, std::uint64_t except = ~std::uint64_t{0}) {
    Ended ended = Ended::not_found;
    for (std::uint32_t i = 0; i < view_.size(); ++i) {
      const View::Seen seen = view_.begin()[i];
      const Entry entry = Entry::unpack(seen.word);
      if (!seen.is_taken || seen.offset == except || entry.fingerprint != places_.fingerprint) continue;
      if (entry.is_pending && (!wants_pending || ended == Ended::conflict)) continue;
      const Ended fetched = co_await fetch(places_.node, seen.word, key_, stats_);
      if (fetched == Ended::not_found) continue;
      if (fetched != Ended::ok) co_return fetched;
      found_at_ = {places_.node, seen.offset};
      found_ = seen.word;
      if (!entry.is_pending) co_return Ended::ok;
      ended = Ended::conflict;
    }
    co_return ended;
  }

  // Splits the key's subtable, or goes on with a split that no client is working on. Returns `again` if the
  // subtable has been split, so that the operation has to read the buckets again.
  coro::Task<Ended> grow() {
    const Shape& shape = settings.shape;
    if (view_.depth() >= shape.max_depth) co_return Ended::table_full;
    LOCH_CO_TRY(read_directory(places_.node, stats_));
    const std::uint32_t suffix = own.home(shape, places_);
    const std::uint32_t depth = own.directory[places_.node][suffix];
    // another client has split the subtable since the buckets were read
    if (depth > view_.depth()) co_return Ended::again;
    LOCH_CO_TRY(split(places_.node, suffix, depth));
    co_return Ended::again;
  }

  // Waits for the split that has frozen the entry (which must not change until it has been moved), or goes on
  // with that split.
  coro::Task<Ended> thaw() {
    const Ended grown = co_await grow();
    co_return grown == Ended::failed ? grown : Ended::conflict;
  }

  coro::Task<Ended> update() {
    if (is_frozen(found_)) co_return co_await thaw();
    const Word mine = word(false);
    const Ended done = co_await swap(found_at_, found_, mine, Proof::none, stats_);
    if (done == Ended::conflict) co_return done;
    block_.reset();
    if (done == Ended::ok) {
      own.give(found_at_.node, found_);
      co_return done;
    }
    leave(Doubt::Step::update, found_at_, found_, mine);
    co_return settings.has(Flaw::update_error_fails) ? Ended::failed : Ended::unknown;
  }

  // Takes the operation's pending entry out of its slot again; the slot then holds `free`, the word that it
  // held before.
  coro::Task<Ended> withdraw(Slot slot, Word free) {
    const Word mine = word(true);
    ++own.counters.withdrawn;
    const Ended done = co_await swap(slot, mine, free, Proof::before_stays, stats_);
    if (done == Ended::ok) co_return Ended::conflict;
    block_.reset();
    if (done == Ended::unknown) leave(Doubt::Step::take_back, slot, mine, free, free);
    co_return Ended::failed;
  }

  // The second look at the buckets by an INSERT, whose pending entry is in slot `mine`. not_found: no other
  // slot has an entry of the key, pending or committed, and `mine` is still one of the key's slots and not in
  // a bucket that a split is moving.
  coro::Task<Ended> look_for_others(std::uint64_t mine) {
    LOCH_CO_TRY(look_at_places());
    const Ended other = co_await find(!settings.has(Flaw::skips_pending), mine);
    // A split that has moved the slot's bucket, or is about to, leaves the pending entry behind in the old
    // bucket.
    const auto* seen = std::ranges::find(view_, mine, &View::Seen::offset);
    const bool is_mine =
        seen != view_.end() && (!seen->is_leaving || settings.has(Flaw::inserts_while_moving));
    if (!is_mine && !settings.has(Flaw::own_slot_unchecked)) co_return Ended::conflict;
    if (other == Ended::not_found) LOCH_CO_TRY(is_sure());
    co_return other;
  }

  // Commits the operation's pending entry if no other slot has an entry of the key, pending or committed;
  // otherwise withdraws the entry.
  coro::Task<Ended> commit(Slot slot, Word free) {
    for (std::uint32_t tries = 0; !settings.has(Flaw::no_second_read); ++tries) {
      const Ended others = co_await look_for_others(slot.offset);
      if (others == Ended::not_found) break;
      if (others == Ended::again && tries < settings.attempts) continue;
      LOCH_PROBE("race.insert-withdrawn");
      const Ended withdrawn = co_await withdraw(slot, free);
      co_return others == Ended::failed ? others : withdrawn;
    }
    const Word pending = word(true), committed = word(false);
    const Ended done = co_await swap(slot, pending, committed, Proof::before_stays, stats_);
    block_.reset();
    if (done == Ended::unknown) {
      leave(Doubt::Step::commit, slot, pending, committed, free);
      co_return done;
    }
    own.give(slot.node, free);
    // If the slot held another word, a scrub (repair of what dead clients left) has taken this client for
    // dead and freed the slot, which keeps the operation's block for a later INSERT.
    co_return done == Ended::ok ? done : Ended::failed;
  }

  // Hardened INSERT of a key that no slot has: a CAS writes a pending entry, which no GET sees; a second look
  // at the buckets follows, and then the CAS that commits the entry.
  coro::Task<Ended> insert() {
    const View::Seen* found = view_.free_slot();
    if (found == nullptr || view_.share_taken() >= settings.split_share) {
      const Ended grown = co_await grow();
      if (found == nullptr || grown == Ended::again) co_return grown;
    }
    const Slot slot{places_.node, found->offset};
    const Word before = found->word, free = is_frozen(before) ? 0 : before, mine = word(true);
    if (is_frozen(before)) LOCH_CO_TRY(is_sure());
    const Ended done = co_await swap(slot, before, mine, Proof::after_stays, stats_);
    if (done == Ended::conflict) co_return done;
    if (done == Ended::ok) co_return co_await commit(slot, free);
    if (settings.has(Flaw::link_error_frees)) co_return Ended::failed;
    block_.reset();
    leave(Doubt::Step::link, slot, free, mine, free);
    co_return Ended::failed;
  }

  // INSERT as published: the entry is visible at once; then the buckets are read again, and of several
  // entries of the key the one at the lowest address stays.
  coro::Task<Ended> insert_as_published() {
    const View::Seen* free = view_.free_slot(true);
    if (free == nullptr) co_return Ended::table_full;
    const Slot slot{places_.node, free->offset};
    const Word mine = word(false);
    const Ended done = co_await swap(slot, 0, mine, Proof::none, stats_);
    if (done == Ended::conflict) co_return done;
    block_.reset();
    if (done == Ended::unknown) co_return done;
    LOCH_CO_TRY_OR(Ended::unknown, look_at_places());
    std::vector<View::Seen> seen(view_.begin(), view_.end());
    std::ranges::sort(seen, {}, &View::Seen::offset);
    bool has_kept = false;
    for (std::uint32_t i = 0; i < seen.size(); ++i) {
      const Slot other{slot.node, seen[i].offset};
      const Word word = seen[i].word;
      if (is_free(word) || Entry::unpack(word).fingerprint != places_.fingerprint) continue;
      if (other != slot) {
        const Ended fetched = co_await fetch(slot.node, word, key_, stats_);
        if (fetched == Ended::failed) co_return Ended::unknown;
        if (fetched != Ended::ok) continue;
      }
      if (has_kept) {
        const Ended removed = co_await swap(other, word, 0, Proof::none, stats_);
        if (removed == Ended::ok) own.give(slot.node, word);
      }
      has_kept = true;
    }
    co_return Ended::ok;
  }

  coro::Task<Ended> put_once() {
    LOCH_CO_TRY(look_at_places());
    const Ended found = co_await find(true);
    if (found == Ended::ok && only_if_absent_) co_return Ended::exists;
    if (found == Ended::ok) co_return co_await update();
    if (found == Ended::conflict) ++own.counters.pending_met;
    if (found != Ended::not_found) co_return found;
    if (settings.rules.is_pending_first) co_return co_await insert();
    co_return co_await insert_as_published();
  }

  coro::Task<Ended> remove_once() {
    LOCH_CO_TRY(look_at_places());
    const Ended found = co_await find(false);
    if (found == Ended::not_found) LOCH_CO_TRY(is_sure());
    if (found != Ended::ok) co_return found;
    if (is_frozen(found_)) co_return co_await thaw();
    const bool parks = settings.rules.parks_blocks;
    const Word free = parks ? parked(found_) : 0;
    // If the outcome of this CAS is unknown, it stays so: a free slot does not tell which client's DELETE
    // freed it.
    LOCH_CO_TRY(swap(found_at_, found_, free, Proof::none, stats_));
    if (!parks) own.give(found_at_.node, found_);
    co_return Ended::ok;
  }

  coro::Task<Ended> get_once() {
    LOCH_CO_TRY(look_at_places());
    const Ended found = co_await find(settings.has(Flaw::get_sees_pending));
    if (found == Ended::not_found) LOCH_CO_TRY(is_sure());
    co_return found == Ended::conflict ? Ended::ok : found;
  }

  // Splits the key's subtable.
  coro::Task<Ended> split_once() {
    LOCH_CO_TRY(look_at_places());
    const Ended grown = co_await grow();
    co_return grown == Ended::again ? Ended::ok : grown;
  }

  coro::Task<kv::OpResult> repeat(Attempt attempt) {
    const fabric::CpuCosts& costs = worker.costs();
    co_await worker.compute(costs.operation() + 2 * costs.hash(key_.size));
    for (std::uint32_t retries = 0;; ++retries) {
      const Ended ended = co_await (this->*attempt)();
      const bool is_last = retries + 1 >= settings.attempts;
      if ((ended != Ended::conflict && ended != Ended::again) || is_last) co_return result_of(ended, retries);
      if (ended == Ended::again && retries % 8 != 7) continue;
      ++own.counters.conflicts;
      co_await kv::back_off(&worker, settings.backoff_start, settings.backoff_cap, retries);
    }
  }

  coro::Task<kv::OpResult> write(kv::ValueView value) {
    const BlockLayout& layout = settings.block;
    if (node.chunks) {
      const chunks::Supply supply = co_await node.chunks->client(worker, own).supply(places_.node, stats_);
      if (supply == chunks::Supply::unreachable) co_return result_of(Ended::failed, 0);
    }
    block_ = own.take(places_.node);
    if (!block_) {
      ++own.counters.no_block;
      co_return result_of(Ended::no_block, 0);
    }
    const fabric::CpuCosts& costs = worker.costs();
    co_await worker.compute(costs.copy(key_.size + value.size) + costs.crc(layout.bytes()) +
                            settings.put_cpu);
    const BlockHead mine{static_cast<std::uint16_t>(block_->generation),
                         static_cast<std::uint16_t>(key_.size), value.size,
                         settings.config.client_number(worker.node(), worker.index()), 0};
    const fabric::LocalSlice crc{node.buffers, out().offset + layout.crc_at()};
    write_block(layout, out().data(), crc.data(), mine, key_, value, scratch);
    const kv::OpResult result = co_await repeat(&RaceClient::put_once);
    // If the operation still has its block here, no slot names the block, and none will.
    if (block_) own.put_back(places_.node, *block_);
    co_return result;
  }

  kv::Key key_;
  Places places_;
  fabric::OpStats* stats_ = nullptr;
  bool only_if_absent_ = false;
  std::optional<Block> block_;  // a PUT's block, until a slot may name it
  bool is_written_ = false;     // whether block_ has been written to the node
  View view_;
  Slot found_at_;  // the slot of the entry that find() found
  Word found_ = 0;
};

}  // namespace

std::unique_ptr<kv::Client> RaceStore::client(fabric::Worker& worker, std::uint32_t slot) {
  LOCH_CHECK_LT(slot, settings_->config.window);
  return std::make_unique<RaceClient>(*this, worker, slot);
}

}  // namespace loch::race
