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
  static constexpr std::array statuses = {OpStatus::ok,       OpStatus::not_found, OpStatus::exists,
                                          OpStatus::conflict, OpStatus::conflict,  OpStatus::table_full,
                                          OpStatus::error,    OpStatus::error};
  static_assert(statuses.size() == static_cast<std::size_t>(Ended::unknown) + 1);
  const kv::Effect effect = ended == Ended::unknown ? kv::Effect::unknown : kv::Effect::none;
  return {.status = statuses[static_cast<std::size_t>(ended)], .effect = effect, .retries = retries};
}

// The client of one window slot, and the state of its operation; it executes one operation at a time.
class RaceClient final : public kv::Client, Lane {
 public:
  using Lane::Lane;

  coro::Task<kv::OpResult> get(kv::Key key, fabric::OpStats* of) override {
    begin(key, of);
    kv::OpResult result = co_await repeat(&RaceClient::get_once);
    if (result.status == kv::OpStatus::ok)
      result.value = {scratch.data() + settings.block.value_at(), settings.block.value_size,
                      settings.block.kept};
    co_return result;
  }
  coro::Task<kv::OpResult> put(kv::Key key, kv::ValueView value, fabric::OpStats* of) override {
    begin(key, of);
    return write(value);
  }
  coro::Task<kv::OpResult> insert_if_absent(kv::Key key, kv::ValueView value, fabric::OpStats* of) override {
    begin(key, of, true);
    return write(value);
  }
  coro::Task<kv::OpResult> remove(kv::Key key, fabric::OpStats* of) override {
    begin(key, of);
    return repeat(&RaceClient::remove_once);
  }
  bool can_migrate() const override { return settings.shape.max_depth > settings.shape.depth; }
  // Splits the key's subtable.
  coro::Task<kv::OpResult> migrate(kv::Key key, fabric::OpStats* of) override {
    begin(key, of);
    Ended ended = co_await look();
    if (ended == Ended::ok) ended = co_await grow();
    co_return result_of(ended == Ended::again ? Ended::ok : ended, 0);
  }

 private:
  using Attempt = coro::Task<Ended> (RaceClient::*)();

  void begin(kv::Key key, fabric::OpStats* of, bool only_if_absent = false) {
    key_ = key;
    places = settings.shape.places(key);
    stats = of;
    block_.reset();
    unwritten.reset();
    only_if_absent_ = only_if_absent;
  }
  [[nodiscard]] Word entry(bool pending) const {
    return Entry{places.fingerprint, settings.block.units(), block_->number, block_->generation, pending}
        .pack();
  }

  // Whether the buckets that were read were still the key's when their slots were read; `again` if not. On a
  // fabric where one READ may see a header and a slot at different instants, a split may have moved an entry
  // in between; a second READ of the headers shows that.
  coro::Task<Ended> is_sure() {
    if (!store.tears_buckets() || view.depth >= settings.shape.max_depth) co_return Ended::ok;
    const std::array<Word, 4> headers = view.headers;
    LOCH_CO_TRY_OR(Ended::again, look());
    co_return view.headers == headers ? Ended::ok : Ended::again;
  }

  // Looks for an entry of the key in the slots that were read, except slot `except`. ok: found a committed
  // one; conflict: found only a pending one (of an unfinished INSERT).
  coro::Task<Ended> find(bool wants_pending, std::optional<std::uint64_t> except = {}) {
    Ended ended = Ended::not_found;
    for (const View::Seen seen : view.seen()) {
      const Entry entry = Entry::unpack(seen.word);
      if (!seen.is_taken || seen.offset == except || entry.fingerprint != places.fingerprint) continue;
      if (entry.is_pending && (!wants_pending || ended == Ended::conflict)) continue;
      const Ended fetched = co_await fetch(places.node, seen.word, key_);
      if (fetched == Ended::not_found) continue;
      if (fetched != Ended::ok) co_return fetched;
      found_ = seen;
      if (!entry.is_pending) co_return Ended::ok;
      ended = Ended::conflict;
    }
    co_return ended;
  }

  // Looks for an entry of the key. not_found: at one instant there was none, whose slot is another than
  // `mine`, that of the operation's pending entry; and `mine`, if given, was a slot of the key then.
  coro::Task<Ended> look_for_key(bool wants_pending, std::optional<std::uint64_t> mine = {}) {
    LOCH_CO_TRY(look());
    const Ended found = co_await find(wants_pending, mine);
    if (mine && !settings.has("own-slot-unchecked")) {
      // A split that has moved the slot's bucket, or is about to, leaves the pending entry behind in the old
      // bucket.
      const auto seen = std::ranges::find(view.seen(), *mine, &View::Seen::offset);
      if (seen == view.seen().end()) co_return Ended::conflict;
      if (seen->is_leaving && !settings.has("inserts-while-moving")) co_return Ended::conflict;
    }
    if (found == Ended::not_found) LOCH_CO_TRY(is_sure());
    co_return found;
  }

  // Splits the key's subtable, or goes on with a split that no client is working on. Returns `again` if the
  // subtable has been split, so that the operation has to read the buckets again.
  coro::Task<Ended> grow() {
    if (view.depth >= settings.shape.max_depth) co_return Ended::table_full;
    LOCH_CO_TRY(read_directory(places.node));
    const std::uint32_t suffix = own.home(places);
    const std::uint32_t depth = own.directory[places.node][suffix];
    // another client has split the subtable since the buckets were read
    if (depth > view.depth) co_return Ended::again;
    fabric::OpStats* const counted = std::exchange(stats, nullptr);  // a split's requests are not counted
    const Ended ended = co_await split(places.node, suffix, depth);
    stats = counted;
    co_return ended == Ended::ok ? Ended::again : ended;
  }

  // CAS of the entry that find() has found. If a split has frozen the entry, which must not change until it
  // has been moved, waits for that split or goes on with it.
  coro::Task<Ended> replace(Word after) {
    const Slot slot{places.node, found_.offset};
    if (!is_frozen(found_.word)) co_return co_await swap(slot, found_.word, after, Proof::none);
    const Ended grown = co_await grow();
    co_return grown == Ended::failed ? grown : Ended::conflict;
  }

  coro::Task<Ended> update() {
    const Word mine = entry(false);
    const Ended done = co_await replace(mine);
    if (done == Ended::conflict || done == Ended::failed) co_return done;
    block_.reset();
    if (done == Ended::ok) own.give(places.node, found_.word);
    if (done == Ended::unknown) leave({Doubt::Step::update, {places.node, found_.offset}, found_.word, mine});
    co_return settings.has("update-error-fails") && done == Ended::unknown ? Ended::failed : done;
  }

  // Commits the operation's pending entry if no other slot has an entry of the key, pending or committed;
  // otherwise takes it out of its slot again, which then holds `free`, the word that it held before.
  coro::Task<Ended> commit(Slot slot, Word free) {
    const Word pending = entry(true);
    for (std::uint32_t tries = 0; !settings.has("no-second-read"); ++tries) {
      const Ended others = co_await look_for_key(!settings.has("skips-pending"), slot.offset);
      if (others == Ended::not_found) break;
      if (others == Ended::again && tries < settings.attempts) continue;
      LOCH_PROBE("race.insert-withdrawn");
      ++own.counters.withdrawn;
      const Ended withdrawn = co_await swap(slot, pending, free, Proof::before_stays);
      if (withdrawn != Ended::ok) block_.reset();
      if (withdrawn == Ended::unknown) leave({Doubt::Step::take_back, slot, pending, free});
      co_return withdrawn != Ended::ok || others == Ended::failed ? Ended::failed : Ended::conflict;
    }
    const Ended done = co_await swap(slot, pending, entry(false), Proof::before_stays);
    block_.reset();
    if (done == Ended::unknown) leave({Doubt::Step::commit, slot, pending, free});
    if (done != Ended::unknown) own.give(slot.node, free);
    // If the slot held another word, a scrub (repair of what dead clients left) has taken this client for
    // dead and freed the slot, which keeps the operation's block for a later INSERT.
    co_return done == Ended::conflict ? Ended::failed : done;
  }

  // INSERT of a key that no slot has: a CAS writes the entry. Hardened: the entry is pending, so that no GET
  // sees it; a second look at the buckets follows, and then the CAS that commits the entry.
  coro::Task<Ended> insert() {
    const bool is_hardened = settings.is_pending_first;
    const View::Seen* found = view.free_slot(!is_hardened);
    if (found == nullptr || view.share_taken() >= settings.split_share) {
      const Ended grown = co_await grow();
      if (found == nullptr || grown == Ended::again) co_return grown;
    }
    const Slot slot{places.node, found->offset};
    const Word before = found->word, free = is_frozen(before) ? 0 : before, mine = entry(is_hardened);
    if (is_frozen(before)) LOCH_CO_TRY(is_sure());
    const Proof proof = is_hardened ? Proof::after_stays : Proof::none;
    const Ended done = co_await swap(slot, before, mine, proof);
    if (done == Ended::conflict) co_return done;
    if (done == Ended::ok) {
      if (is_hardened) co_return co_await commit(slot, free);
      co_return co_await remove_others(slot.offset);
    }
    if (is_hardened && settings.has("link-error-frees")) co_return Ended::failed;
    block_.reset();
    if (!is_hardened) co_return done;
    leave({Doubt::Step::take_back, slot, mine, free});
    co_return Ended::failed;
  }

  // The end of an INSERT as published, whose entry in slot `mine` is visible: reads the buckets again, and of
  // several entries of the key leaves the one at the lowest address.
  coro::Task<Ended> remove_others(std::uint64_t mine) {
    block_.reset();
    LOCH_CO_TRY_OR(Ended::unknown, look());
    std::vector<View::Seen> all(view.seen().begin(), view.seen().end());
    std::ranges::sort(all, {}, &View::Seen::offset);
    bool has_kept = false;
    for (const View::Seen seen : all) {
      if (is_free(seen.word) || Entry::unpack(seen.word).fingerprint != places.fingerprint) continue;
      if (seen.offset != mine) {
        const Ended fetched = co_await fetch(places.node, seen.word, key_);
        if (fetched == Ended::failed) co_return Ended::unknown;
        if (fetched != Ended::ok) continue;
      }
      if (has_kept) {
        const Ended removed = co_await swap({places.node, seen.offset}, seen.word, 0, Proof::none);
        if (removed == Ended::ok) own.give(places.node, seen.word);
      }
      has_kept = true;
    }
    co_return Ended::ok;
  }

  coro::Task<Ended> put_once() {
    LOCH_CO_TRY(look());
    Ended found = Ended::not_found;
    if (!settings.has("put-without-look")) found = co_await find(true);
    if (found == Ended::ok && only_if_absent_) co_return Ended::exists;
    if (found == Ended::ok) co_return co_await update();
    if (found == Ended::conflict) ++own.counters.pending_met;
    if (found != Ended::not_found) co_return found;
    co_return co_await insert();
  }

  coro::Task<Ended> remove_once() {
    LOCH_CO_TRY(look_for_key(false));
    const Word left = settings.is_published ? 0 : parked(found_.word);
    // If the outcome of this CAS is unknown, it stays so: a free slot does not tell which client's DELETE
    // freed it.
    LOCH_CO_TRY(replace(left));
    if (left == 0) own.give(places.node, found_.word);
    co_return Ended::ok;
  }

  coro::Task<Ended> get_once() {
    const Ended found = co_await look_for_key(settings.has("get-sees-pending"));
    co_return found == Ended::conflict ? Ended::ok : found;
  }

  coro::Task<kv::OpResult> repeat(Attempt attempt) {
    co_await worker.compute(worker.costs().operation() + 2 * worker.costs().hash(key_.size));
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
    if (node.chunks) {
      const chunks::Supply supply = co_await node.chunks->client(worker, own).supply(places.node, stats);
      if (supply == chunks::Supply::unreachable) co_return result_of(Ended::failed, 0);
    }
    block_ = own.free[places.node].take_oldest();
    if (!block_) {
      ++own.counters.no_block;
      co_return result_of(Ended::table_full, 0);
    }
    const BlockLayout& block = settings.block;
    const fabric::CpuCosts& costs = worker.costs();
    co_await worker.compute(costs.copy(key_.size + value.size) + costs.crc(block.bytes()) + settings.put_cpu);
    const BlockHead mine{static_cast<std::uint16_t>(block_->generation),
                         static_cast<std::uint16_t>(key_.size), value.size, me};
    block.write(out, mine, key_, value, scratch);
    unwritten = block_;
    const kv::OpResult result = co_await repeat(&RaceClient::put_once);
    // If the operation still has its block here, no slot names the block, and none will.
    if (block_) own.put_back(places.node, *block_);
    co_return result;
  }

  kv::Key key_;
  bool only_if_absent_ = false;
  std::optional<Block> block_;  // a PUT's block, until a slot may name it
  View::Seen found_;            // the slot of the entry that find() found
};

}  // namespace

std::unique_ptr<kv::Client> RaceStore::client(fabric::Worker& worker, std::uint32_t slot) {
  LOCH_CHECK_LT(slot, settings_.config.window);
  return std::make_unique<RaceClient>(*this, worker, slot);
}

}  // namespace loch::race
