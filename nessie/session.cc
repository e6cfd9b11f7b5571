// Operations as the load generator sees them: attempts until one settles, with back-off between.
#include "nessie/session.h"

#include <algorithm>

namespace loch::nessie {
namespace {

// A shorter wait is spun away: giving up the core costs more.
constexpr Nanos longest_spin = 50'000;

}  // namespace

Session::Session(NessieStore& store, fabric::Worker& worker, std::uint32_t lane)
    : store_(store),
      settings_(store.settings()),
      node_(store.local(worker.node())),
      own_(*node_.workers.at(worker.index())),
      worker_(worker),
      landing_base_(lane * settings_.entry.stride()),
      words_base_(std::uint64_t{lane} * lane_words * 8) {
  LOCH_CHECK_LT(lane, settings_.lanes());
  own_.sessions.push_back(this);
}

Session::~Session() { std::erase(own_.sessions, this); }

bool Session::is_worth_retrying(Attempt attempt) {
  return attempt == Attempt::conflict || attempt == Attempt::again || attempt == Attempt::no_entry;
}

kv::OpResult Session::result_of(Attempt attempt, std::uint32_t retries) const {
  kv::OpResult result;
  result.retries = retries;
  switch (attempt) {
    case Attempt::ok:
      result.status = kv::OpStatus::ok;
      break;
    case Attempt::not_found:
      result.status = kv::OpStatus::not_found;
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

// Exponential, with full jitter (H13: two writers that back off alike meet again).
coro::Task<void> Session::back_off(std::uint32_t attempt) {
  const std::uint32_t doublings = std::min(attempt, 32U);
  const Nanos upper = doublings >= 32 || (settings_.backoff_start << doublings) > settings_.backoff_cap
                          ? settings_.backoff_cap
                          : settings_.backoff_start << doublings;
  const auto span = static_cast<Nanos>(worker_.rng().below(static_cast<std::uint64_t>(upper))) + 1;
  const Nanos until = worker_.now() + span;
  if (span <= longest_spin) {
    co_await worker_.spin_until(until);
  } else {
    co_await worker_.sleep_until(until);
  }
}

coro::Task<kv::OpResult> Session::get(kv::Key key, fabric::OpStats* stats) {
  LOCH_CHECK_EQ(key.size, settings_.entry.key_size());
  stats_ = stats;
  pinned_.release();
  for (std::uint32_t attempt = 0;; ++attempt) {
    started_ = worker_.now();
    look_at_members();
    const Attempt ended = co_await get_once(key);
    if (!is_worth_retrying(ended) || attempt + 1 == settings_.attempts) {
      kv::OpResult result = result_of(ended, attempt);
      if (ended == Attempt::ok) result.value = value_;
      co_return result;
    }
    ++own_.counters.conflicts;
    // The first retry follows at once: what was in the way is mostly gone by then.
    if (attempt > 0) co_await back_off(attempt - 1);
  }
}

coro::Task<Attempt> Session::write_attempt() {
  started_ = worker_.now();
  look_at_members();
  if (writing_.kind == EntryKind::tombstone) {
    if (settings_.rules.deletion == Deletion::single_cas) co_return co_await remove_by_single_cas();
    if (settings_.rules.deletion == Deletion::clear_all) co_return co_await clear_all_ranks();
  }
  co_return co_await write_once();
}

coro::Task<kv::OpResult> Session::write(kv::Key key, kv::ValueView value, EntryKind kind) {
  writing_.key = key;
  writing_.value = value;
  writing_.kind = kind;
  writing_.hash = settings_.family.hash({key.data, key.size});
  writing_.is_written = false;
  writing_.linked = {};
  is_writing_ = true;
  pinned_.release();
  co_await worker_.compute(worker_.costs().operation());
  for (std::uint32_t attempt = 0;; ++attempt) {
    const Attempt ended = co_await write_attempt();
    if (!is_worth_retrying(ended) || attempt + 1 == settings_.attempts) {
      if (ended == Attempt::expired) ++own_.counters.expired_operations;
      give_back_entry();
      is_writing_ = false;
      co_return result_of(ended, attempt);
    }
    if (ended == Attempt::again) continue;
    ++own_.counters.conflicts;
    co_await back_off(attempt);
  }
}

coro::Task<kv::OpResult> Session::put(kv::Key key, kv::ValueView value, fabric::OpStats* stats) {
  LOCH_CHECK_EQ(key.size, settings_.entry.key_size());
  LOCH_CHECK_EQ(value.size, settings_.entry.value_size());
  stats_ = stats;
  co_return co_await write(key, value, EntryKind::put);
}

coro::Task<kv::OpResult> Session::remove(kv::Key key, fabric::OpStats* stats) {
  LOCH_CHECK_EQ(key.size, settings_.entry.key_size());
  stats_ = stats;
  const kv::ValueView nothing{};
  co_return co_await write(key, nothing, EntryKind::tombstone);
}

}  // namespace loch::nessie
