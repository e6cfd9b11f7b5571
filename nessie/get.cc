// One attempt of a GET.
#include "nessie/get.h"

#include <algorithm>
#include <cstring>

#include "common/fabric/memory.h"
#include "nessie/entry.h"
#include "nessie/index.h"
#include "nessie/verify.h"

namespace loch::nessie {
namespace {

void fill_cache(Access access, const Fetched& found, kv::ValueView value, Word word, Nanos read_at) {
  kv::WordCache& cache = *access.node().cache;
  kv::WordCache::Pin room = cache.reserve(word, access.worker().now());
  if (!room) return;
  const EntryLayout& entry = access.settings().entry;
  fabric::copy_from_shared(room.key(), found.region->at(found.offset), entry.key_size());
  fabric::copy_from_shared(room.value(), found.region->at(found.offset + entry.value_at()), value.kept);
  cache.publish(room, word, read_at + access.settings().expiry);
}

// The entry is committed and the key's: brings its value into this lane.
coro::Task<Looked> take_value(Access access, Fetched found, Word word, Nanos read_at, kv::Key key) {
  const EntryLayout& entry = access.settings().entry;
  Lane& lane = access.lane;
  fabric::Worker& worker = lane.worker;
  if (found.extent == Extent::header) {
    const Fetched whole = co_await fetch_for(access, word, Extent::full, key);
    if (!whole.ok) co_return Looked{whole.why == Attempt::expired ? Look::expired : Look::failed, {}};
    if (!whole.is_key) co_return Looked{Look::conflict, {}};  // H22: reused between the two READs
    found = whole;
  }
  if (found.is_local) {
    // Copied out, because the entry may be reused E after it has left the index.
    co_await worker.compute(worker.costs().copy(entry.value_size()));
    const auto kept =
        static_cast<std::uint32_t>(found.region->kept(found.offset + entry.value_at(), entry.value_size()));
    if (kept != 0) {
      fabric::copy_shared(lane.node.landing->at(lane.landing_base + entry.value_at()),
                          found.region->at(found.offset + entry.value_at()), kept);
    }
  }
  // Every byte is here: had the operation taken longer than E, they might be another entry's.
  if (access.is_over_age()) co_return Looked{Look::expired, {}};
  const std::uint32_t kept = std::min(access.settings().config.kept_value_bytes, entry.value_size());
  const kv::ValueView value{lane.node.landing->at(lane.landing_base + entry.value_at()), entry.value_size(),
                            kept};
  if (!found.is_local && lane.node.cache != nullptr) {
    co_await worker.compute(worker.costs().copy(entry.value_size()));
    fill_cache(access, found, value, word, read_at);
  }
  co_return Looked{Look::value, value};
}

// Compares the entry that `word` names with the key. A pending entry leads to the version before
// it, which is committed or gone: chains have length 1.
coro::Task<Looked> look_up(Access access, Word word, Nanos read_at, kv::Key key, bool is_previous) {
  const Settings& settings = access.settings();
  if (const std::optional<Looked> cached = look_in_cache(access, word, read_at, key)) {
    co_await access.worker().compute(access.worker().costs().compare(key.size));
    co_return *cached;
  }
  const Extent extent = settings.reads_header_first ? Extent::header : Extent::full;
  const Fetched found = co_await fetch_for(access, word, extent, key);
  if (!found.ok) co_return Looked{found.why == Attempt::expired ? Look::expired : Look::failed, {}};
  if (!found.is_key) co_return Looked{is_previous ? Look::conflict : Look::other_key, {}};
  if (is_committed(settings, word, found.meta))
    co_return co_await take_value(access, found, word, read_at, key);
  if (is_previous) co_return Looked{Look::conflict, {}};
  const bool is_copy = found.meta.kind == EntryKind::copy && !settings.rules.migrate_keeps_previous;
  if (!settings.rules.use_previous || found.prev == 0 || is_copy) co_return Looked{Look::pending, {}};
  ++access.own().counters.previous_reads;
  co_return co_await look_up(access, found.prev, read_at, key, true);
}

}  // namespace

std::optional<Looked> look_in_cache(Access access, Word word, Nanos read_at, kv::Key key) {
  if (access.node().cache == nullptr) return std::nullopt;
  const Settings& settings = access.settings();
  kv::WordCache::Pin hit = access.node().cache->find(word, access.worker().now(), read_at + settings.expiry);
  if (!hit) return std::nullopt;
  if (access.stats != nullptr) ++access.stats->cache_hits;
  if (std::memcmp(hit.key(), key.data, key.size) != 0) return Looked{Look::other_key, {}};
  kv::WordCache::Pin& pinned = access.lane.pinned;
  pinned = std::move(hit);
  const kv::ValueView value{pinned.value(), settings.config.value_size,
                            std::min(settings.config.kept_value_bytes, settings.config.value_size)};
  return Looked{access.is_over_age() ? Look::expired : Look::value, value};
}

coro::Task<Got> get_once(Access access, kv::Key key) {
  const Settings& settings = access.settings();
  fabric::Worker& worker = access.worker();
  cuckoo::KeyHash hash = settings.family.hash({key.data, key.size});
  SeenWords seen{};
  bool has_met_pending = false;
  const std::uint32_t functions = settings.functions();
  access.lane.expect(hash.candidate(0));
  co_await worker.compute(worker.costs().operation() + worker.costs().hash(key.size));
  for (std::uint32_t i = 0; i < functions; ++i) {
    if (i > 0) co_await worker.compute(worker.costs().hash(key.size));
    const cuckoo::Place place = hash.candidate(i);
    const Nanos read_at = worker.now();
    const WordRead read = co_await read_index(access, place);
    if (!read.ok) co_return Got{Attempt::link_error, {}};
    seen[i] = read.word;
    if (!holds_filter(settings, read.word, hash)) continue;
    const Looked looked = co_await look_up(access, read.word, read_at, key, false);
    switch (looked.look) {
      case Look::other_key:
        break;
      case Look::value:
        co_return Got{Attempt::ok, looked.value};
      case Look::expired:
        co_return Got{Attempt::expired, {}};
      case Look::conflict:
        co_return Got{Attempt::conflict, {}};
      case Look::failed:
        co_return Got{Attempt::link_error, {}};
      case Look::pending:
        // Hardened: a committed entry at a later rank wins over an insert that is still under way.
        if (!settings.rules.get_continues) co_return Got{Attempt::conflict, {}};
        has_met_pending = true;
        break;
    }
  }
  if (has_met_pending) co_return Got{Attempt::conflict, {}};
  if (!settings.rules.get_verifies) co_return Got{Attempt::not_found, {}};
  const Attempt confirmed = co_await confirm_absent(access, &hash, seen);
  co_return Got{confirmed, {}};
}

}  // namespace loch::nessie
