// The other ways to DELETE: one CAS, and the 2015 report's; and how an absent key is confirmed.
#include "common/base/probe.h"
#include "nessie/session.h"

namespace loch::nessie {

// All slots were read and none holds the key: N-1 of them once more (H10c).
coro::Task<Attempt> Session::confirm_absent() {
  const Attempt verified = co_await verify_slots(settings_.functions() - 1, false);
  co_return verified == Attempt::ok ? Attempt::not_found : verified;
}

// Hardened option: the committed word is swapped for EMPTY; every change of a committed entry is a
// CAS on its exact word, so that this one is the DELETE.
coro::Task<Attempt> Session::remove_by_single_cas() {
  Writing& w = writing_;
  const auto functions = static_cast<Nanos>(settings_.functions());
  w.rank = no_rank;
  w.staged_count = 0;
  co_await worker_.compute(functions * worker_.costs().hash(w.key.size));
  for (std::uint32_t i = 0; i < settings_.functions(); ++i) {
    const cuckoo::Place place = w.hash.candidate(i);
    const Nanos read_at = worker_.now();
    const WordRead read = co_await read_index(place);
    if (!read.ok) co_return Attempt::link_error;
    w.seen[i] = read.word;
    if (!holds_filter(read.word, w.hash)) continue;
    const Holder holder = co_await who_holds(read.word, read_at);
    if (holder == Holder::failed) co_return unreadable_;
    if (holder == Holder::other_key) continue;
    if (holder == Holder::pending) co_return Attempt::conflict;
    if (is_over_age()) co_return Attempt::expired;
    // EMPTY|word is what every deleter of it writes: finding it proves nothing about whose CAS it was (A1).
    const Swap swap = co_await take_back(place, read.word, settings_.format.emptied(read.word), Proof::none);
    const EntryId removed = settings_.format.entry(read.word);
    if (swap.outcome == Swap::Outcome::unknown) {
      LOCH_PROBE("nessie.single-delete-unknown");
      co_await suspect(removed);
      co_return Attempt::ambiguous;
    }
    if (!swap.done()) co_return Attempt::conflict;
    co_await recycle(removed);
    co_return Attempt::ok;
  }
  co_return co_await confirm_absent();
}

// 2015, 4.3.2 (H10d): from the lowest rank to the highest, each match to EMPTY; nothing is verified.
coro::Task<Attempt> Session::clear_all_ranks() {
  Writing& w = writing_;
  bool removed_any = false;
  const auto functions = static_cast<Nanos>(settings_.functions());
  co_await worker_.compute(functions * worker_.costs().hash(w.key.size));
  for (std::uint32_t i = settings_.functions(); i-- > 0;) {
    const cuckoo::Place place = w.hash.candidate(i);
    const Nanos read_at = worker_.now();
    const WordRead read = co_await read_index(place);
    if (!read.ok) co_return Attempt::link_error;
    if (!holds_filter(read.word, w.hash)) continue;
    const Holder holder = co_await who_holds(read.word, read_at);
    if (holder == Holder::failed) co_return unreadable_;
    if (holder == Holder::other_key) continue;
    const Swap swap = co_await swap_index(place, read.word, settings_.format.emptied(read.word), Proof::none);
    if (swap.outcome == Swap::Outcome::unknown) co_return Attempt::ambiguous;
    if (!swap.done()) co_return Attempt::conflict;
    const EntryId removed = settings_.format.entry(read.word);
    co_await recycle(removed);
    removed_any = true;
  }
  co_return removed_any ? Attempt::ok : Attempt::not_found;
}

}  // namespace loch::nessie
