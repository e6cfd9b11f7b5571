// The operations that the load generator calls, but for GET (get.cc): attempts until one ends the operation,
// with back-off between them.
#include "nessie/operations.h"

#include "common/kv/back_off.h"
#include "nessie/attempts.h"
#include "nessie/migrate.h"
#include "nessie/put.h"
#include "nessie/remote.h"
#include "nessie/remove.h"

namespace loch::nessie {

kv::OpResult result_of(Attempt attempt, std::uint32_t retries) {
  kv::OpResult result;
  result.retries = retries;
  switch (attempt) {
    case Attempt::ok:
      result.status = kv::OpStatus::ok;
      break;
    case Attempt::not_found:
      result.status = kv::OpStatus::not_found;
      break;
    case Attempt::exists:
      result.status = kv::OpStatus::exists;
      break;
    case Attempt::conflict:
    case Attempt::again:
      result.status = kv::OpStatus::conflict;
      break;
    case Attempt::expired:
      result.status = kv::OpStatus::timeout;
      break;
    case Attempt::no_entry:
    case Attempt::table_full:
      result.status = kv::OpStatus::table_full;
      break;
    case Attempt::link_error:
      result.status = kv::OpStatus::error;
      break;
    case Attempt::ambiguous:
      result.status = kv::OpStatus::error;
      result.effect = kv::Effect::unknown;
      break;
  }
  return result;
}

coro::Task<void> back_off(Lane* lane, std::uint32_t attempt) {
  return kv::back_off(&lane->worker, lane->settings.backoff_start, lane->settings.backoff_cap, attempt);
}

namespace {

coro::Task<Attempt> attempt_write(Access access, Writing* w) {
  if (w->kind == EntryKind::tombstone) {
    const Deletion deletion = access.settings().rules.deletion;
    if (deletion == Deletion::single_cas) co_return co_await remove_by_single_cas(access, w->key, &w->hash);
    if (deletion == Deletion::clear_all) co_return co_await clear_all_ranks(access, w->key, &w->hash);
  }
  co_return co_await write_once(access, w);
}

// What a PUT, DELETE (a tombstone and no value) or INSERT writes.
struct Wish {
  kv::Key key;
  kv::ValueView value;
  EntryKind kind = EntryKind::put;
  bool only_if_absent = false;
};

coro::Task<kv::OpResult> write(Lane* lane, Wish wish, fabric::OpStats* stats) {
  const kv::Key key = wish.key;
  Writing w;
  w.key = key;
  w.value = wish.value;
  w.kind = wish.kind;
  w.only_if_absent = wish.only_if_absent;
  w.hash = lane->settings.family.hash({key.data, key.size});
  InHand& hand = lane->in_hand;
  hand.linked = {};
  hand.is_writing = true;
  lane->pinned.release();
  co_await lane->worker.compute(lane->worker.costs().operation());
  for (std::uint32_t attempt = 0;; ++attempt) {
    const Attempt ended = co_await attempt_write(begin_attempt(*lane, stats), &w);
    if (!is_worth_retrying(ended) || attempt + 1 == lane->settings.attempts) {
      if (ended == Attempt::expired) ++lane->own.counters.expired_operations;
      if (hand.fresh) release_entry(*lane, *hand.fresh);
      hand.fresh.reset();
      hand.is_writing = false;
      co_return result_of(ended, attempt);
    }
    if (ended == Attempt::again) continue;
    ++lane->own.counters.conflicts;
    co_await back_off(lane, attempt);
  }
}

}  // namespace

coro::Task<kv::OpResult> put(Lane* lane, kv::Key key, kv::ValueView value, fabric::OpStats* stats) {
  LOCH_CHECK_EQ(key.size, lane->settings.entry.key_size());
  LOCH_CHECK_EQ(value.size, lane->settings.entry.value_size());
  const Wish wish{.key = key, .value = value};
  co_return co_await write(lane, wish, stats);
}

coro::Task<kv::OpResult> remove(Lane* lane, kv::Key key, fabric::OpStats* stats) {
  LOCH_CHECK_EQ(key.size, lane->settings.entry.key_size());
  const Wish wish{.key = key, .value = {}, .kind = EntryKind::tombstone};
  co_return co_await write(lane, wish, stats);
}

coro::Task<kv::OpResult> insert_if_absent(Lane* lane, kv::Key key, kv::ValueView value,
                                          fabric::OpStats* stats) {
  LOCH_CHECK_EQ(key.size, lane->settings.entry.key_size());
  LOCH_CHECK_EQ(value.size, lane->settings.entry.value_size());
  Wish wish{.key = key, .value = value, .kind = EntryKind::put, .only_if_absent = true};
  if (lane->has(Flaw::insert_in_two_steps)) {
    const kv::OpResult seen = co_await get(lane, key, stats);
    if (seen.status == kv::OpStatus::ok) co_return kv::OpResult{.status = kv::OpStatus::exists};
    if (seen.status != kv::OpStatus::not_found) co_return seen;
    wish.only_if_absent = false;
  }
  co_return co_await write(lane, wish, stats);
}

coro::Task<kv::OpResult> migrate_once(Lane* lane, kv::Key key, fabric::OpStats* stats) {
  const Access access{.lane = *lane, .stats = stats, .started = lane->worker.now()};
  const Attempt moved = co_await migrate_key(access, key);
  co_return result_of(moved, 0);
}

}  // namespace loch::nessie
