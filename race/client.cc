// The steps of GET, PUT, INSERT and DELETE: attempts until one ends the operation, with back-off between
// them.
#include <algorithm>
#include <array>

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "common/kv/back_off.h"
#include "race/lane.h"

namespace loch::race {
namespace {

// How one attempt of an operation ended. `again` and `conflict` are tried again, the latter after a back-off.
enum class Attempt : std::uint8_t {
  ok,
  not_found,
  exists,
  again,
  conflict,
  table_full,
  no_block,
  failed,
  ambiguous
};

// The entry of a key that a look at its slots found.
struct Found {
  enum class What : std::uint8_t { nothing, committed, pending, changed, failed };
  What what = What::nothing;
  Slot slot;
  Word word = 0;
};

// What an operation works on. It lives in the operation's frame; the attempts get it by pointer.
struct Operation {
  kv::Key key;
  kv::ValueView value;
  bool only_if_absent = false;
  Places places;
  std::optional<Block> block;  // a PUT's block, until a slot may name it
  bool is_written = false;     // whether the block has been written
  View view;
  fabric::OpStats* stats = nullptr;
};

kv::OpResult result_of(Attempt attempt, std::uint32_t retries) {
  using kv::OpStatus;
  // The status of an operation that ends with this attempt, in the order of Attempt's values.
  static constexpr std::array statuses = {OpStatus::ok,         OpStatus::not_found, OpStatus::exists,
                                          OpStatus::conflict,   OpStatus::conflict,  OpStatus::table_full,
                                          OpStatus::table_full, OpStatus::error,     OpStatus::error};
  static_assert(statuses.size() == static_cast<std::size_t>(Attempt::ambiguous) + 1);
  const kv::Effect effect = attempt == Attempt::ambiguous ? kv::Effect::unknown : kv::Effect::none;
  return {.status = statuses[static_cast<std::size_t>(attempt)],
          .effect = effect,
          .retries = retries,
          .value = {}};
}

Word word_of(const Lane& lane, const Operation& op, bool pending) {
  return Entry{op.places.fingerprint, lane.settings.block.units(), op.block->number, op.block->generation,
               pending}
      .pack();
}

// READs both combined buckets, and before them WRITEs the operation's block unless that was done.
coro::Task<Attempt> look_at_places(Lane* lane, Operation* op) {
  const bool writes = op->block && !op->is_written;
  const Block* block = writes ? &*op->block : nullptr;
  const bool is_seen = co_await look(lane, &op->places, block, &op->view, op->stats);
  if (!is_seen) co_return Attempt::failed;
  op->is_written = op->is_written || writes;
  if (!lane->settings.rules.is_pending_first) op->view.order_as_published();
  co_return Attempt::ok;
}

// Whether the buckets that were looked at were the key's when their slots were read. A split may have moved
// an entry between the READ of a header and that of a slot, where the fabric tears buckets.
coro::Task<bool> is_sure(Lane* lane, Operation* op) {
  if (!lane->store.tears_buckets() || op->view.depth() >= lane->settings.shape.max_depth) co_return true;
  View again;
  const bool is_seen = co_await look(lane, &op->places, nullptr, &again, op->stats);
  co_return is_seen&& again.headers() == op->view.headers();
}

coro::Task<Attempt> missed(Lane* lane, Operation* op) {
  const bool is_absent = co_await is_sure(lane, op);
  co_return is_absent ? Attempt::not_found : Attempt::again;
}

// Looks for an entry of the key among the slots that were seen, other than slot `except`. A committed entry
// is found before a pending one.
coro::Task<Found> find(Lane* lane, Operation* op, bool wants_pending, std::uint64_t except) {
  Found found;
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(op->view.end() - op->view.begin()); ++i) {
    const View::Seen seen = op->view.begin()[i];
    if (!seen.is_taken || seen.offset == except) continue;
    const Entry entry = Entry::unpack(seen.word);
    if (entry.fingerprint != op->places.fingerprint) continue;
    if (entry.is_pending && (!wants_pending || found.what == Found::What::pending)) continue;
    const Fetched fetched = co_await fetch(lane, op->places.node, seen.word, op->key, op->stats);
    if (fetched.state == Fetched::State::failed) co_return Found{.what = Found::What::failed};
    if (fetched.state == Fetched::State::changed) co_return Found{.what = Found::What::changed};
    if (fetched.state == Fetched::State::other_key) continue;
    found = {entry.is_pending ? Found::What::pending : Found::What::committed,
             {op->places.node, seen.offset},
             seen.word};
    if (!entry.is_pending) break;
  }
  co_return found;
}

Attempt unfound(Found::What what) { return what == Found::What::failed ? Attempt::failed : Attempt::again; }

// Leaves a CAS of unknown outcome to the worker's background work (repair.cc).
void leave(Lane& lane, Doubt::Step step, Slot slot, Word before, Word after, Word free = 0) {
  LOCH_PROBE("race.left-in-doubt");
  ++lane.own.counters.doubts;
  lane.own.doubts.push_back({step, slot, before, after, free});
}

// Splits the key's subtable, or goes on with a split that nobody is at.
coro::Task<Attempt> grow(Lane* lane, Operation* op) {
  const Shape& shape = lane->settings.shape;
  if (op->view.depth() >= shape.max_depth) co_return Attempt::table_full;
  const bool is_read = co_await read_directory(lane, op->places.node, op->stats);
  if (!is_read) co_return Attempt::failed;
  const std::uint32_t suffix = lane->own.home(shape, op->places);
  const std::uint32_t depth = lane->own.directory[op->places.node][suffix];
  if (depth > op->view.depth()) co_return Attempt::again;  // somebody has split it since the look
  const Split ended = co_await split(lane, op->places.node, suffix, depth);
  if (ended == Split::failed) co_return Attempt::failed;
  co_return ended == Split::done ? Attempt::again : Attempt::conflict;
}

// Waits for the split that has frozen the entry, or goes on with it.
coro::Task<Attempt> thaw(Lane* lane, Operation* op) {
  const Attempt grown = co_await grow(lane, op);
  co_return grown == Attempt::failed ? grown : Attempt::conflict;
}

coro::Task<Attempt> update(Lane* lane, Operation* op, Found found) {
  if (is_frozen(found.word)) co_return co_await thaw(lane, op);
  const Word mine = word_of(*lane, *op, false);
  const Swap done = co_await swap(lane, found.slot, found.word, mine, Proof::none, op->stats);
  if (done == Swap::lost) co_return Attempt::conflict;
  op->block.reset();
  if (done == Swap::unknown) {
    leave(*lane, Doubt::Step::update, found.slot, found.word, mine);
    co_return lane->settings.has(Flaw::update_error_fails) ? Attempt::failed : Attempt::ambiguous;
  }
  lane->own.give(lane->settings, found.slot.node, found.word);
  co_return Attempt::ok;
}

// Takes the operation's pending entry out of its slot, which then holds `free` again.
coro::Task<Attempt> withdraw(Lane* lane, Operation* op, Slot slot, Word free) {
  const Word mine = word_of(*lane, *op, true);
  ++lane->own.counters.withdrawn;
  const Swap done = co_await swap(lane, slot, mine, free, Proof::before_stays, op->stats);
  if (done == Swap::done) co_return Attempt::conflict;
  op->block.reset();
  if (done == Swap::unknown) leave(*lane, Doubt::Step::take_back, slot, mine, free, free);
  co_return Attempt::failed;
}

// Whether the slot is still one of the key's, in a bucket that is not being moved from under it.
bool holds(const Lane& lane, const Operation& op, Slot slot) {
  if (lane.settings.has(Flaw::own_slot_unchecked)) return true;
  const auto* seen = std::ranges::find(op.view, slot.offset, &View::Seen::offset);
  return seen != op.view.end() && (!seen->is_leaving || lane.settings.has(Flaw::inserts_while_moving));
}

// Commits the operation's pending entry if no other slot has an entry of the key, pending or not.
coro::Task<Attempt> commit(Lane* lane, Operation* op, Slot slot, Word free) {
  const Settings& s = lane->settings;
  for (std::uint32_t tries = 0; !s.has(Flaw::no_second_read); ++tries) {
    const Attempt looked = co_await look_at_places(lane, op);
    Found other{.what = Found::What::failed};
    if (looked == Attempt::ok) {
      const Found seen = co_await find(lane, op, !s.has(Flaw::skips_pending), slot.offset);
      other = seen;
    }
    // A split that has moved the slot's bucket, or is about to, does not take the entry with it.
    if (looked == Attempt::ok && !holds(*lane, *op, slot)) other.what = Found::What::pending;
    if (other.what == Found::What::nothing) {
      const bool is_right = co_await is_sure(lane, op);
      if (is_right) break;
      other.what = Found::What::changed;
    }
    if (other.what == Found::What::changed && tries < s.attempts) continue;
    LOCH_PROBE("race.insert-withdrawn");
    const Attempt withdrawn = co_await withdraw(lane, op, slot, free);
    co_return other.what == Found::What::failed ? Attempt::failed : withdrawn;
  }
  const Word pending = word_of(*lane, *op, true), committed = word_of(*lane, *op, false);
  const Swap done = co_await swap(lane, slot, pending, committed, Proof::before_stays, op->stats);
  op->block.reset();
  if (done == Swap::unknown) {
    leave(*lane, Doubt::Step::commit, slot, pending, committed, free);
    co_return Attempt::ambiguous;
  }
  lane->own.give(lane->settings, slot.node, free);
  // If the CAS is lost, a scrub took this client for dead, and has left the operation's block with the free
  // slot.
  co_return done == Swap::done ? Attempt::ok : Attempt::failed;
}

// Hardened INSERT of a key that no slot has: an entry that nobody sees, a second look, and the commit.
coro::Task<Attempt> insert(Lane* lane, Operation* op) {
  const View::Seen* found = op->view.free_slot();
  if (found == nullptr || op->view.share_taken() >= lane->settings.split_share) {
    const Attempt grown = co_await grow(lane, op);
    if (found == nullptr || grown == Attempt::again) co_return grown;
  }
  const Slot slot{op->places.node, found->offset};
  const Word before = found->word, free = is_frozen(before) ? 0 : before, mine = word_of(*lane, *op, true);
  if (is_frozen(before)) {
    const bool is_moved = co_await is_sure(lane, op);
    if (!is_moved) co_return Attempt::again;
  }
  const Swap done = co_await swap(lane, slot, before, mine, Proof::after_stays, op->stats);
  if (done == Swap::lost) co_return Attempt::conflict;
  if (done == Swap::unknown) {
    if (lane->settings.has(Flaw::link_error_frees)) co_return Attempt::failed;
    op->block.reset();
    leave(*lane, Doubt::Step::link, slot, free, mine, free);
    co_return Attempt::failed;
  }
  co_return co_await commit(lane, op, slot, free);
}

// INSERT as published: the entry is visible at once, and of several that the second look finds the one with
// the lowest address stays.
coro::Task<Attempt> insert_as_published(Lane* lane, Operation* op) {
  const View::Seen* free = op->view.first_free();
  if (free == nullptr) co_return Attempt::table_full;
  const Slot slot{op->places.node, free->offset};
  const Word mine = word_of(*lane, *op, false);
  const Swap done = co_await swap(lane, slot, 0, mine, Proof::none, op->stats);
  if (done == Swap::lost) co_return Attempt::conflict;
  op->block.reset();
  if (done == Swap::unknown) co_return Attempt::ambiguous;
  const Attempt looked = co_await look_at_places(lane, op);
  if (looked != Attempt::ok) co_return Attempt::ambiguous;
  std::vector<View::Seen> seen(op->view.begin(), op->view.end());
  std::ranges::sort(seen, {}, &View::Seen::offset);
  bool has_kept = false;
  for (std::uint32_t i = 0; i < seen.size(); ++i) {
    const Word word = seen[i].word;
    if (is_free(word) || Entry::unpack(word).fingerprint != op->places.fingerprint) continue;
    if (seen[i].offset != slot.offset) {
      const Fetched fetched = co_await fetch(lane, slot.node, word, op->key, op->stats);
      if (fetched.state == Fetched::State::failed) co_return Attempt::ambiguous;
      if (fetched.state != Fetched::State::is_key) continue;
    }
    if (has_kept) {
      const Slot other{slot.node, seen[i].offset};
      const Swap removed = co_await swap(lane, other, word, 0, Proof::none, op->stats);
      if (removed == Swap::done) lane->own.give(lane->settings, slot.node, word);
    }
    has_kept = true;
  }
  co_return Attempt::ok;
}

coro::Task<Attempt> put_once(Lane* lane, Operation* op) {
  const Attempt looked = co_await look_at_places(lane, op);
  if (looked != Attempt::ok) co_return looked;
  const Found found = co_await find(lane, op, true, ~std::uint64_t{0});
  switch (found.what) {
    case Found::What::committed:
      if (op->only_if_absent) co_return Attempt::exists;
      co_return co_await update(lane, op, found);
    case Found::What::pending:
      ++lane->own.counters.pending_met;
      co_return Attempt::conflict;
    case Found::What::nothing:
      if (lane->settings.rules.is_pending_first) co_return co_await insert(lane, op);
      co_return co_await insert_as_published(lane, op);
    case Found::What::changed:
    case Found::What::failed:
      break;
  }
  co_return unfound(found.what);
}

coro::Task<Attempt> remove_once(Lane* lane, Operation* op) {
  const Attempt looked = co_await look_at_places(lane, op);
  if (looked != Attempt::ok) co_return looked;
  const Found found = co_await find(lane, op, false, ~std::uint64_t{0});
  if (found.what == Found::What::nothing) co_return co_await missed(lane, op);
  if (found.what != Found::What::committed) co_return unfound(found.what);
  if (is_frozen(found.word)) co_return co_await thaw(lane, op);
  const bool parks = lane->settings.rules.parks_blocks;
  const Word free = parks ? parked(found.word) : 0;
  const Swap done = co_await swap(lane, found.slot, found.word, free, Proof::none, op->stats);
  if (done == Swap::lost) co_return Attempt::conflict;
  // Nobody can tell whose DELETE made the slot free.
  if (done == Swap::unknown) co_return Attempt::ambiguous;
  if (!parks) lane->own.give(lane->settings, found.slot.node, found.word);
  co_return Attempt::ok;
}

coro::Task<Attempt> get_once(Lane* lane, Operation* op) {
  const Attempt looked = co_await look_at_places(lane, op);
  if (looked != Attempt::ok) co_return looked;
  const Found found = co_await find(lane, op, lane->settings.has(Flaw::get_sees_pending), ~std::uint64_t{0});
  if (found.what == Found::What::nothing) co_return co_await missed(lane, op);
  if (found.what == Found::What::failed || found.what == Found::What::changed) co_return unfound(found.what);
  co_return Attempt::ok;
}

using Step = coro::Task<Attempt> (*)(Lane*, Operation*);

coro::Task<kv::OpResult> repeat(Lane* lane, Operation* op, Step step) {
  const Settings& s = lane->settings;
  const fabric::CpuCosts& costs = lane->worker.costs();
  co_await lane->worker.compute(costs.operation() + 2 * costs.hash(op->key.size));
  op->places = s.shape.places(op->key);
  for (std::uint32_t attempt = 0;; ++attempt) {
    const Attempt ended = co_await step(lane, op);
    const bool is_last = attempt + 1 >= s.attempts;
    if ((ended != Attempt::conflict && ended != Attempt::again) || is_last)
      co_return result_of(ended, attempt);
    if (ended == Attempt::again && attempt % 8 != 7) continue;
    ++lane->own.counters.conflicts;
    co_await kv::back_off(&lane->worker, s.backoff_start, s.backoff_cap, attempt);
  }
}

coro::Task<kv::OpResult> write(Lane* lane, kv::Key key, kv::ValueView value, bool only_if_absent,
                               fabric::OpStats* stats) {
  const Settings& s = lane->settings;
  Operation op{.key = key, .value = value, .only_if_absent = only_if_absent, .stats = stats};
  const fabric::NodeId node = s.shape.places(key).node;
  if (lane->node.chunks) {
    chunks::Client& chunks = lane->node.chunks->client(lane->worker, lane->own);
    const chunks::Supply supply = co_await chunks.supply(node, stats);
    if (supply == chunks::Supply::unreachable) co_return result_of(Attempt::failed, 0);
  }
  op.block = lane->own.take(node);
  if (!op.block) {
    ++lane->own.counters.no_block;
    co_return result_of(Attempt::no_block, 0);
  }
  const fabric::CpuCosts& costs = lane->worker.costs();
  co_await lane->worker.compute(costs.copy(key.size + value.size) + costs.crc(s.block.bytes()) + s.put_cpu);
  const BlockHead head{static_cast<std::uint16_t>(op.block->generation), static_cast<std::uint16_t>(key.size),
                       value.size, s.config.client_number(lane->worker.node(), lane->worker.index()), 0};
  write_block(s.block, lane->node.buffers->at(lane->out_at()),
              lane->node.buffers->at(lane->out_at() + s.block.crc_at()), head, key, value, lane->scratch);
  const kv::OpResult result = co_await repeat(lane, &op, put_once);
  // No slot names the block, and none will.
  if (op.block) lane->own.put_back(s, node, *op.block);
  co_return result;
}

class RaceClient final : public kv::Client {
 public:
  RaceClient(RaceStore& store, fabric::Worker& worker, std::uint32_t slot) : lane_(store, worker, slot) {}

  [[nodiscard]] coro::Task<kv::OpResult> get(kv::Key key, fabric::OpStats* stats) override {
    Operation op{.key = key, .stats = stats};
    kv::OpResult result = co_await repeat(&lane_, &op, get_once);
    const BlockLayout& block = lane_.settings.block;
    if (result.status == kv::OpStatus::ok)
      result.value = {lane_.scratch.data() + block.value_at(), block.value_size(), block.kept()};
    co_return result;
  }
  [[nodiscard]] coro::Task<kv::OpResult> put(kv::Key key, kv::ValueView value,
                                             fabric::OpStats* stats) override {
    return write(&lane_, key, value, false, stats);
  }
  [[nodiscard]] coro::Task<kv::OpResult> insert_if_absent(kv::Key key, kv::ValueView value,
                                                          fabric::OpStats* stats) override {
    return write(&lane_, key, value, true, stats);
  }
  [[nodiscard]] bool can_migrate() const override {
    return lane_.settings.shape.max_depth > lane_.settings.shape.depth;
  }
  // Splits the key's subtable.
  [[nodiscard]] coro::Task<kv::OpResult> migrate(kv::Key key, fabric::OpStats* stats) override {
    Operation op{.key = key, .stats = stats};
    op.places = lane_.settings.shape.places(key);
    const Attempt looked = co_await look_at_places(&lane_, &op);
    if (looked != Attempt::ok) co_return result_of(looked, 0);
    const Attempt grown = co_await grow(&lane_, &op);
    co_return result_of(grown == Attempt::again ? Attempt::ok : grown, 0);
  }
  [[nodiscard]] coro::Task<kv::OpResult> remove(kv::Key key, fabric::OpStats* stats) override {
    Operation op{.key = key, .stats = stats};
    co_return co_await repeat(&lane_, &op, remove_once);
  }

 private:
  Lane lane_;
};

}  // namespace

std::unique_ptr<kv::Client> RaceStore::client(fabric::Worker& worker, std::uint32_t slot) {
  LOCH_CHECK_LT(slot, settings_->config.window);
  return std::make_unique<RaceClient>(*this, worker, slot);
}

}  // namespace loch::race
