// GET (2017, 4.2.1 and 4.3.2): a forward pass over the candidate slots in rank order, and, if the
// key is in none of them, a reverse pass that confirms it.
#include <algorithm>
#include <cstring>

#include "common/fabric/memory.h"
#include "nessie/session.h"

namespace loch::nessie {

coro::Task<Attempt> Session::get_once(kv::Key key) {
  cuckoo::KeyHash hash = settings_.family.hash({key.data, key.size});
  std::array<Word, cuckoo::max_functions> seen{};
  bool has_met_pending = false;
  const std::uint32_t functions = settings_.functions();
  expect(hash.candidate(0));
  co_await worker_.compute(worker_.costs().operation() + worker_.costs().hash(key.size));
  for (std::uint32_t i = 0; i < functions; ++i) {
    if (i > 0) co_await worker_.compute(worker_.costs().hash(key.size));
    const cuckoo::Place place = hash.candidate(i);
    const Nanos read_at = worker_.now();
    const WordRead read = co_await read_index(place);
    if (!read.ok) co_return Attempt::link_error;
    seen[i] = read.word;
    if (!holds_filter(read.word, hash)) continue;
    const Look look = co_await look_up(read.word, read_at, key, false);
    switch (look) {
      case Look::other_key:
        break;
      case Look::value:
        co_return Attempt::ok;
      case Look::expired:
        co_return Attempt::expired;
      case Look::conflict:
        co_return Attempt::conflict;
      case Look::failed:
        co_return unreadable_;
      case Look::pending:
        // Hardened: a committed entry at a later rank wins over an insert that is still under way.
        if (!settings_.rules.get_continues) co_return Attempt::conflict;
        has_met_pending = true;
        break;
    }
  }
  if (has_met_pending) co_return Attempt::conflict;
  if (!settings_.rules.get_verifies) co_return Attempt::not_found;
  for (std::uint32_t i = functions - 1; i-- > 0;) {
    const cuckoo::Place place = hash.candidate(i);
    const WordRead read = co_await read_index(place);
    if (!read.ok) co_return Attempt::link_error;
    if (read.word != seen[i]) {
      ++own_.counters.reverse_mismatches;
      co_return Attempt::conflict;
    }
  }
  co_return is_over_age() ? Attempt::expired : Attempt::not_found;
}

// What the entry that `word` names says about the key. A pending entry leads to the version before
// it, which is committed or gone: chains have length 1.
coro::Task<Session::Look> Session::look_up(Word word, Nanos read_at, kv::Key key, bool is_previous) {
  if (const std::optional<Look> cached = look_in_cache(word, read_at, key)) {
    co_await worker_.compute(worker_.costs().compare(key.size));
    co_return *cached;
  }
  const Extent extent = settings_.reads_header_first ? Extent::header : Extent::full;
  const Fetched found = co_await fetch_for(word, extent, key);
  if (!found.ok) co_return Look::failed;
  if (!found.is_key) co_return is_previous ? Look::conflict : Look::other_key;
  if (is_committed(word, found.meta)) co_return co_await take_value(found, word, read_at, key);
  if (is_previous) co_return Look::conflict;
  const bool is_copy = found.meta.kind == EntryKind::copy && !settings_.rules.migrate_keeps_previous;
  if (!settings_.rules.use_previous || found.prev == 0 || is_copy) co_return Look::pending;
  ++own_.counters.previous_reads;
  co_return co_await look_up(found.prev, read_at, key, true);
}

std::optional<Session::Look> Session::look_in_cache(Word word, Nanos read_at, kv::Key key) {
  if (node_.cache == nullptr) return std::nullopt;
  kv::WordCache::Pin hit = node_.cache->find(word, worker_.now(), read_at + settings_.expiry);
  if (!hit) return std::nullopt;
  if (stats_ != nullptr) ++stats_->cache_hits;
  if (std::memcmp(hit.key(), key.data, key.size) != 0) return Look::other_key;
  pinned_ = std::move(hit);
  value_ = {pinned_.value(), settings_.config.value_size,
            std::min(settings_.config.kept_value_bytes, settings_.config.value_size)};
  return is_over_age() ? Look::expired : Look::value;
}

// The entry is committed and the key's: brings its value into this lane.
coro::Task<Session::Look> Session::take_value(Fetched found, Word word, Nanos read_at, kv::Key key) {
  const EntryLayout& entry = settings_.entry;
  if (found.extent == Extent::header) {
    const Fetched whole = co_await fetch_for(word, Extent::full, key);
    if (!whole.ok) co_return Look::failed;
    if (!whole.is_key) co_return Look::conflict;  // H22: reused between the two READs
    found = whole;
  }
  if (found.is_local) {
    // Copied out, because the entry may be reused E after it has left the index.
    co_await worker_.compute(worker_.costs().copy(entry.value_size()));
    const auto kept =
        static_cast<std::uint32_t>(found.region->kept(found.offset + entry.value_at(), entry.value_size()));
    if (kept != 0) {
      fabric::copy_shared(node_.landing->at(landing_base_ + entry.value_at()),
                          found.region->at(found.offset + entry.value_at()), kept);
    }
  }
  // Every byte is here: had the operation taken longer than E, they might be another entry's.
  if (is_over_age()) co_return Look::expired;
  const std::uint32_t kept = std::min(settings_.config.kept_value_bytes, entry.value_size());
  value_ = {node_.landing->at(landing_base_ + entry.value_at()), entry.value_size(), kept};
  if (!found.is_local && node_.cache != nullptr) {
    co_await worker_.compute(worker_.costs().copy(entry.value_size()));
    fill_cache(found, word, read_at);
  }
  co_return Look::value;
}

void Session::fill_cache(const Fetched& found, Word word, Nanos read_at) {
  kv::WordCache::Pin room = node_.cache->reserve(word, worker_.now());
  if (!room) return;
  const EntryLayout& entry = settings_.entry;
  fabric::copy_from_shared(room.key(), found.region->at(found.offset), entry.key_size());
  fabric::copy_from_shared(room.value(), found.region->at(found.offset + entry.value_at()), value_.kept);
  node_.cache->publish(room, word, read_at + settings_.expiry);
}

}  // namespace loch::nessie
