// Chooses the slot for a PUT or DELETE: the first candidate that is EMPTY or holds the key (published), or
// after reading all candidates the one that holds the key, else an EMPTY one (hardened).
#include "nessie/choose.h"

#include "nessie/slot.h"

namespace loch::nessie {
namespace {

// The choice of the published variants: the first candidate slot that is EMPTY or holds the key.
coro::Task<Attempt> choose_first_fit(Access access, Writing* w) {
  const Settings& settings = access.settings();
  for (std::uint32_t i = 0; i < settings.functions(); ++i) {
    const SlotSeen slot = co_await look_at_slot(access, w->hash.candidate(i), w->key, &w->hash);
    if (slot.ended != Attempt::ok) co_return slot.ended;
    w->seen[i] = slot.word;
    if (settings.format.is_empty(slot.word)) {
      w->rank = i;
      co_return Attempt::ok;
    }
    if (slot.holder == Holder::other_key) continue;
    if (slot.holder == Holder::pending && settings.rules.aborts_on_pending) co_return Attempt::conflict;
    w->rank = i;
    w->is_update = true;
    co_return Attempt::ok;
  }
  co_return Attempt::ok;
}

// Chooses the first EMPTY candidate slot that is not reserved by an unfinished MIGRATE (move of a key).
coro::Task<Attempt> find_free_slot(Access access, Writing* w) {
  const Settings& settings = access.settings();
  bool is_any_reserved = false;
  for (std::uint32_t i = 0; i < settings.functions(); ++i) {
    if (!settings.format.is_empty(w->seen[i])) continue;
    const Reserve reserve = co_await is_reserved(access, w->seen[i]);
    if (const std::optional<Attempt> ended = ended_by(reserve)) co_return *ended;
    if (reserve == Reserve::free) {
      w->rank = i;
      co_return Attempt::ok;
    }
    is_any_reserved = true;
  }
  co_return is_any_reserved ? Attempt::conflict : Attempt::ok;
}

// The hardened variant's choice, which fixes known fault H1 (docs/protocols/nessie.md: a PUT that aborts has
// already removed a duplicate): reads all candidate slots before anything is changed, and takes the slot that
// holds the key, else the first free one.
coro::Task<Attempt> choose_after_full_scan(Access access, Writing* w) {
  const Settings& settings = access.settings();
  for (std::uint32_t i = 0; i < settings.functions(); ++i) {
    const cuckoo::Place place = w->hash.candidate(i);
    const Nanos read_at = access.worker().now();
    if (i + 1 < settings.functions()) access.lane.expect(w->hash.candidate(i + 1));
    const WordRead read = co_await read_index(access, place);
    if (!read.ok) co_return Attempt::link_error;
    w->seen[i] = read.word;
    if (w->is_update || !holds_filter(settings, read.word, w->hash)) continue;
    const Holder holder = co_await who_holds(access, w->key, read.word, read_at);
    if (const std::optional<Attempt> ended = ended_by(holder)) co_return *ended;
    if (holder == Holder::other_key) continue;
    if (holder == Holder::pending && settings.rules.aborts_on_pending) co_return Attempt::conflict;
    w->rank = i;
    w->is_update = true;
    if (w->only_if_absent || w->is_fast(settings.rules)) co_return Attempt::ok;
  }
  if (w->is_update) co_return Attempt::ok;
  co_return co_await find_free_slot(access, w);
}

}  // namespace

coro::Task<Attempt> choose(Access access, Writing* w) {
  // The free entry that the operation will write is prefetched into the CPU cache during the READs that
  // follow.
  if (!access.lane.in_hand.fresh) access.own().table.prefetch_next();
  access.lane.expect(w->hash.candidate(0));
  const auto functions = static_cast<Nanos>(access.settings().functions());
  co_await access.worker().compute(functions * access.worker().costs().hash(w->key.size));
  if (access.settings().rules.full_scan) co_return co_await choose_after_full_scan(access, w);
  co_return co_await choose_first_fit(access, w);
}

}  // namespace loch::nessie
