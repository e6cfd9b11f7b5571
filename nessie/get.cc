// A GET: each attempt searches the key's candidate slots and fetches the value. All its coroutines are in
// this file, so that the compiler can make their frames parts of one.
#include "nessie/get.h"

#include <algorithm>

#include "common/fabric/memory.h"
#include "common/onesided/cached.h"
#include "nessie/attempts.h"
#include "nessie/entry.h"
#include "nessie/index.h"
#include "nessie/operations.h"

namespace loch::nessie {
namespace {

// Copies the value of an entry of this node into this client's buffer for READ data.
void copy_local_value(Access access, const Fetched& found) {
  const EntryLayout& entry = access.settings().entry;
  const Lane& lane = access.lane;
  const auto kept =
      static_cast<std::uint32_t>(found.region->kept(found.offset + entry.value_at(), entry.value_size()));
  if (kept == 0) return;
  fabric::copy_shared(lane.landing->at(lane.landing_base + entry.value_at()),
                      found.region->at(found.offset + entry.value_at()), kept);
}

// Compares the key of the entry that `word` names, and copies or READs the value of a committed entry of the
// key into the client's buffer. For a pending entry its previous version is looked up instead, which is
// committed or gone, so that the recursion has depth 1.
coro::Task<Looked> look_up_word(Access access, Word word, Nanos read_at, kv::Key key, bool is_previous) {
  const Settings& settings = access.settings();
  Lane& lane = access.lane;
  fabric::Worker& worker = lane.worker;
  // Entries of the client's own node are never cached.
  const bool is_cacheable = lane.node.cache != nullptr && settings.format.entry(word).node != lane.node.node;
  if (is_cacheable) {
    const std::optional<Looked> cached = look_in_cache(access, word, read_at, key);
    if (cached) {
      co_await worker.compute(worker.costs().compare(key.size));
      co_return *cached;
    }
  }
  const Extent extent = settings.reads_header_first ? Extent::header : Extent::full;
  // Does what fetch_for() does, but without a coroutine of its own, because every GET takes this path.
  Fetched found = co_await EntryRequest(access, word, extent);
  if (found.is_unsettled) [[unlikely]] {
    const Fetched settled = co_await settle_entry(access, word, found);
    found = settled;
  }
  if (found.ok) {
    co_await worker.compute(worker.costs().compare(key.size));
    compare_key(access, key, &found);
  }
  if (!found.ok) co_return Looked{found.why == Attempt::expired ? Look::expired : Look::failed, {}};
  if (!found.is_key) co_return Looked{is_previous ? Look::conflict : Look::other_key, {}};
  if (!is_committed(settings, word, found.meta)) {
    if (is_previous) co_return Looked{Look::conflict, {}};
    const bool is_copy = found.meta.kind == EntryKind::copy && !settings.rules.migrate_keeps_previous;
    if (!settings.rules.use_previous || found.prev == 0 || is_copy) co_return Looked{Look::pending, {}};
    ++access.own().counters.previous_reads;
    co_return co_await look_up_word(access, found.prev, read_at, key, true);
  }
  if (found.extent == Extent::header) {
    const Fetched whole = co_await fetch_for(access, word, Extent::full, key);
    if (!whole.ok) co_return Looked{whole.why == Attempt::expired ? Look::expired : Look::failed, {}};
    // If the key differs now, the entry was reused between the READ that compared its key and the READ of its
    // value.
    if (!whole.is_key) co_return Looked{Look::conflict, {}};
    found = whole;
  }
  const EntryLayout& entry = settings.entry;
  if (found.is_local) {
    // A local value is copied, because its entry may be reused one expiry period after it left the index.
    co_await worker.compute(worker.costs().copy(entry.value_size()));
    copy_local_value(access, found);
  }
  // All bytes of the value have been read. If the operation has taken longer than the expiry period, these
  // bytes may be those of a reused entry.
  if (access.is_over_age()) co_return Looked{Look::expired, {}};
  const kv::ValueView value{lane.landing->at(lane.landing_base + entry.value_at()), entry.value_size(),
                            std::min(settings.config.kept_value_bytes, entry.value_size())};
  if (is_cacheable && !found.is_local) {
    co_await worker.compute(worker.costs().copy(entry.value_size()));
    const onesided::CachedEntry place{lane.node.cache.get(), word, read_at + settings.expiry};
    onesided::fill_cache(place, worker.now(), key, value);
  }
  co_return Looked{Look::value, value};
}

}  // namespace

std::optional<Looked> look_in_cache(Access access, Word word, Nanos read_at, kv::Key key) {
  const Settings& settings = access.settings();
  const std::uint32_t size = settings.config.value_size;
  std::optional<Looked> found = onesided::look_in_cache(
      {access.node().cache.get(), word, read_at + settings.expiry}, access.worker().now(), key, size,
      std::min(settings.config.kept_value_bytes, size), access.stats, &access.lane.pinned);
  if (found && found->look == Look::value && access.is_over_age()) found->look = Look::expired;
  return found;
}

coro::Task<Looked> Tables::look_up(cuckoo::Place /*place*/, Word word, Nanos read_at, kv::Key key) const {
  return look_up_word(access, word, read_at, key, false);
}

Attempt attempt_of(onesided::Outcome outcome) {
  switch (outcome) {
    case onesided::Outcome::ok:
      return Attempt::ok;
    case onesided::Outcome::not_found:
      return Attempt::not_found;
    case onesided::Outcome::conflict:
      return Attempt::conflict;
    case onesided::Outcome::expired:
      return Attempt::expired;
    case onesided::Outcome::link_error:
      break;
  }
  return Attempt::link_error;
}

coro::Task<kv::OpResult> get(Lane* lane, kv::Key key, fabric::OpStats* stats) {
  LOCH_CHECK_EQ(key.size, lane->settings.entry.key_size());
  lane->pinned.release();
  for (std::uint32_t attempt = 0;; ++attempt) {
    const Got got = co_await onesided::get_once(Tables{begin_attempt(*lane, stats)}, key);
    const Attempt ended = attempt_of(got.ended);
    if (!is_worth_retrying(ended) || attempt + 1 == lane->settings.attempts) {
      if (ended == Attempt::expired) ++lane->own.counters.expired_operations;
      kv::OpResult result = result_of(ended, attempt);
      if (ended == Attempt::ok) result.value = got.value;
      co_return result;
    }
    ++lane->own.counters.conflicts;
    // The GET's first retry follows without back-off, because the operation that changed the index slot has
    // mostly ended by then.
    if (attempt > 0) co_await back_off(lane, attempt - 1);
  }
}

}  // namespace loch::nessie
