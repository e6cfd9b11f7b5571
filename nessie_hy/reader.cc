// GET by READs of index words and entries, with its checks of time and identity.
#include "nessie_hy/reader.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "common/base/probe.h"
#include "common/cuckoo/index_word.h"
#include "common/fabric/memory.h"
#include "common/kv/back_off.h"
#include "common/rpc/landing.h"

namespace loch::nessie_hy {

using cuckoo::IndexWord;

Reader::Reader(HyStore& store, fabric::Worker& worker, std::uint32_t lane)
    : store_(store),
      settings_(store.settings()),
      table_(settings_.table),
      worker_(worker),
      tables_(store.tables().local(worker.node())),
      node_(store.reading(worker.node())),
      counts_(*node_.counts[lane]),
      lane_(lane),
      landing_(lane * table_.entry.stride()),
      peers_(store.peers()),
      key_(table_.config.key_size) {}

Reader::Where Reader::where(const cuckoo::Place& place) const {
  return {static_cast<fabric::NodeId>(place.node / table_.servers()), place.node % table_.servers(),
          place.node};
}

coro::Task<kv::OpResult> Reader::get(kv::Key key, fabric::OpStats* stats) {
  LOCH_CHECK_EQ(key.size, table_.entry.key_size());
  stats_ = stats;
  pinned_.release();
  for (std::uint32_t attempt = 0;; ++attempt) {
    const Attempt ended = co_await get_once(key);
    const bool is_worth_retrying = ended == Attempt::conflict || ended == Attempt::expired;
    if (!is_worth_retrying || attempt + 1 == table_.attempts || worker_.stopping())
      co_return result_of(ended, attempt);
    // The first retry follows at once: what was in the way is mostly gone by then.
    if (attempt > 0) co_await kv::back_off(&worker_, table_.backoff_start, table_.backoff_cap, attempt - 1);
    if (ended == Attempt::conflict) ++counts_.conflicts;
  }
}

coro::Task<Reader::Attempt> Reader::get_once(kv::Key key) {
  const fabric::CpuCosts& costs = worker_.costs();
  cuckoo::KeyHash hash = table_.family.hash({key.data, key.size});
  std::array<std::uint64_t, cuckoo::max_functions> seen{};
  co_await worker_.compute(costs.operation() + costs.hash(key.size));
  const std::uint64_t filter = hash.filter(table_.filter_bits);
  for (std::uint32_t i = 0; i < table_.functions(); ++i) {
    if (i > 0) co_await worker_.compute(costs.hash(key.size));
    const cuckoo::Place place = hash.candidate(i);
    const Nanos read_at = worker_.now();
    const WordRead read = co_await read_word(place);
    if (!read.ok) co_return Attempt::link_error;
    seen[i] = read.word;
    if (IndexWord::is_empty(read.word)) continue;
    if (table_.filter_bits > 0 && IndexWord::filter(read.word) != filter) continue;
    const Look look = co_await look_up(where(place), {read.word, read_at}, key);
    if (look == Look::value) co_return Attempt::ok;
    if (look == Look::failed) co_return Attempt::link_error;
    if (look == Look::expired) {
      LOCH_PROBE("nessie-hy.get-expired");
      ++counts_.expired;
      co_return Attempt::expired;
    }
    LOCH_PROBE("nessie-hy.other-key");
    ++counts_.other_keys;
  }
  if (!settings_.verifies_misses) co_return Attempt::not_found;
  co_return co_await verify_miss(&hash, seen);
}

// No word comes back to a slot: those that are the same now have been so all the time, and when the last
// slot was read, the key was in none.
coro::Task<Reader::Attempt> Reader::verify_miss(cuckoo::KeyHash* hash,
                                                std::array<std::uint64_t, cuckoo::max_functions> seen) {
  for (std::uint32_t i = table_.functions() - 1; i-- > 0;) {
    const cuckoo::Place place = hash->candidate(i);
    const WordRead read = co_await read_word(place);
    if (!read.ok) co_return Attempt::link_error;
    if (read.word == seen[i]) continue;
    LOCH_PROBE("nessie-hy.miss-refuted");
    ++counts_.mismatches;
    co_return Attempt::conflict;
  }
  co_return Attempt::not_found;
}

coro::Task<Reader::WordRead> Reader::read_word(cuckoo::Place place) {
  const Where at = where(place);
  const std::uint64_t offset = table_.word_at(at.server, place.slot);
  if (is_here(at)) {
    if (stats_ != nullptr) ++stats_->local_accesses;
    const std::uint64_t word = fabric::load_word(tables_.index->at(offset));
    co_return WordRead{IndexWord::is_stored(word), word};
  }
  for (int attempt = 0; attempt < 2; ++attempt) {
    const bool is_known = co_await meet(at.node);
    if (!is_known) break;
    const std::uint64_t landing = word_at(lane_index);
    fabric::WorkRequest request;
    request.peer = at.node;
    request.remote = peers_[at.node].index;
    request.remote_offset = offset;
    request.local = {node_.words, landing};
    request.length = 8;
    request.stats = stats_;
    if (stats_ != nullptr) ++stats_->index_read;
    const fabric::WcStatus status = co_await read(request, landing, settings_.polls_watermarks);
    if (status == fabric::WcStatus::success) {
      const std::uint64_t word = fabric::load_word(node_.words->at(landing));
      if (!IndexWord::is_stored(word) && settings_.takes_void) co_return WordRead{true, IndexWord::empty(0)};
      // Memory without a mark is a table that nobody laid out: its node came back empty.
      co_return WordRead{IndexWord::is_stored(word), word};
    }
    const bool is_back = co_await reconnect(at.node);
    if (!is_back) break;
  }
  co_return WordRead{};
}

// Compares the entry that the word names with the key.
coro::Task<Reader::Look> Reader::look_up(Where where, Found found, kv::Key key) {
  if (is_here(where)) co_return co_await look_here(where, found, key);
  if (const std::optional<Look> cached = look_in_cache(where, found, key)) {
    co_await worker_.compute(worker_.costs().compare(key.size));
    co_return *cached;
  }
  const coupled::EntryLayout& entry = table_.entry;
  const std::uint32_t first = settings_.reads_header_first ? entry.header_bytes() : entry.full_bytes();
  const bool read = co_await read_entry(where, IndexWord::entry(found.word), first);
  if (!read) co_return Look::failed;
  co_await worker_.compute(worker_.costs().compare(key.size));
  const bool is_other = !is_key(*node_.landing, landing_, key);
  // Of an entry too old its key says nothing either.
  if (is_too_old(found.read_at)) co_return Look::expired;
  if (is_other) co_return Look::other_key;
  const Look taken = co_await take_value(where, found);
  if (taken == Look::value) {
    // The second READ of two may have seen another use of the entry (H22); the time says that it has not.
    const bool is_still = is_key(*node_.landing, landing_, key);
    if (!is_still && !settings_.trusts_second_read) co_return Look::expired;
    if (node_.cache != nullptr) {
      co_await worker_.compute(worker_.costs().copy(entry.value_size()));
      fill_cache(where, found, key);
    }
  }
  co_return taken;
}

coro::Task<Reader::Look> Reader::take_value(Where where, Found found) {
  const coupled::EntryLayout& entry = table_.entry;
  if (settings_.reads_header_first) {
    const bool read = co_await read_entry(where, IndexWord::entry(found.word), entry.full_bytes());
    if (!read) co_return Look::failed;
  }
  // Every byte is here: were the word older than E, they might be another entry's.
  if (is_too_old(found.read_at)) co_return Look::expired;
  value_ = {node_.landing->at(landing_ + entry.value_at()), entry.value_size(), table_.kept_value()};
  co_return Look::value;
}

// On the own node: copied out, because the entry may be reused E after it has left the index.
coro::Task<Reader::Look> Reader::look_here(Where where, Found found, kv::Key key) {
  const coupled::EntryLayout& entry = table_.entry;
  const std::uint64_t at = table_.entry_at(where.server, IndexWord::entry(found.word));
  if (stats_ != nullptr) ++stats_->local_accesses;
  co_await worker_.compute(worker_.costs().compare(key.size));
  const bool is_other = !is_key(*tables_.data, at, key);
  if (!is_other) {
    const std::uint64_t bytes = tables_.data->kept(at + entry.value_at(), entry.value_bytes());
    const std::uint64_t half = bytes / 16 * 8;
    const Nanos a_half = (worker_.costs().copy(entry.value_size()) + 1) / 2;
    const auto from = [&](std::uint64_t within) { return tables_.data->at(at + entry.value_at() + within); };
    const auto to = [&](std::uint64_t within) {
      return node_.landing->at(landing_ + entry.value_at() + within);
    };
    if (half > 0) fabric::copy_shared(to(0), from(0), half);
    co_await worker_.compute(a_half);
    if (bytes > half) fabric::copy_shared(to(half), from(half), bytes - half);
    co_await worker_.compute(a_half);
  }
  std::atomic_thread_fence(std::memory_order_acquire);  // the loads, then the time
  if (is_too_old(found.read_at)) co_return Look::expired;
  if (is_other) co_return Look::other_key;
  value_ = {node_.landing->at(landing_ + entry.value_at()), entry.value_size(), table_.kept_value()};
  co_return Look::value;
}

coro::Task<bool> Reader::read_entry(Where where, std::uint32_t entry, std::uint32_t bytes) {
  if (entry >= table_.entries_per_row) co_return false;
  // Polling the last byte of more than one line needs lines that arrive in order (H19).
  const bool by_watermark = settings_.polls_watermarks &&
                            (worker_.capabilities().in_order_placement || settings_.polls_tail_unordered);
  for (int attempt = 0; attempt < 2; ++attempt) {
    const bool is_known = co_await meet(where.node);
    if (!is_known) break;
    fabric::WorkRequest request;
    request.peer = where.node;
    request.remote = peers_[where.node].data;
    request.remote_offset = table_.entry_at(where.server, entry);
    request.local = {node_.landing, landing_};
    request.length = bytes;
    request.stats = stats_;
    const fabric::WcStatus status = co_await read(request, landing_ + bytes - 8, by_watermark);
    if (status == fabric::WcStatus::success) co_return true;
    const bool is_back = co_await reconnect(where.node);
    if (!is_back) break;
  }
  co_return false;
}

coro::Task<fabric::WcStatus> Reader::read(fabric::WorkRequest request, std::uint64_t last_word,
                                          bool by_watermark) {
  if (!by_watermark) {
    const fabric::Completion done = co_await worker_.execute(request);
    co_return done.status;
  }
  rpc::Landing landing{.region = request.local.region,
                       .word_at = last_word,
                       .mark = coupled::watermark,
                       .until = worker_.now() + settings_.expiry,
                       .flush = request};
  landing.flush.remote = peers_[request.peer].index;
  landing.flush.remote_offset = 0;
  landing.flush.local = {node_.words, word_at(lane_flush)};
  landing.flush.length = 8;
  landing.flush.stats = nullptr;
  const rpc::Landed landed = co_await rpc::read_by_watermark(&worker_, request, landing);
  if (landed.was_late) {
    LOCH_PROBE("nessie-hy.watermark-late");
    ++counts_.watch_timeouts;
  }
  co_return landed.status;
}

bool Reader::is_key(const fabric::Region& region, std::uint64_t at, kv::Key key) {
  fabric::copy_from_shared(key_.data(), region.at(at), key.size);
  return std::memcmp(key_.data(), key.data, key.size) == 0;
}

// Words of different rows may be equal; a row's number takes the place of what all occupied words have in
// common, and of the filter.
std::uint64_t Reader::cache_word(const Where& where, std::uint64_t word) const {
  constexpr std::uint32_t row_at = IndexWord::entry_bits + IndexWord::stamp_bits;
  return (word & ((std::uint64_t{1} << row_at) - 1)) | (std::uint64_t{where.row} + 1) << row_at;
}

std::optional<Reader::Look> Reader::look_in_cache(Where where, Found found, kv::Key key) {
  if (node_.cache == nullptr) return std::nullopt;
  kv::WordCache::Pin hit =
      node_.cache->find(cache_word(where, found.word), worker_.now(), found.read_at + settings_.expiry);
  if (!hit) return std::nullopt;
  LOCH_PROBE("nessie-hy.cache-hit");
  if (stats_ != nullptr) ++stats_->cache_hits;
  if (std::memcmp(hit.key(), key.data, key.size) != 0) return Look::other_key;
  pinned_ = std::move(hit);
  value_ = {pinned_.value(), table_.entry.value_size(), table_.kept_value()};
  return is_too_old(found.read_at) ? Look::expired : Look::value;
}

void Reader::fill_cache(Where where, Found found, kv::Key key) {
  const std::uint64_t word = cache_word(where, found.word);
  kv::WordCache::Pin room = node_.cache->reserve(word, worker_.now());
  if (!room) return;
  std::memcpy(room.key(), key.data, key.size);
  fabric::copy_from_shared(room.value(), value_.data, value_.kept);
  node_.cache->publish(room, word,
                       settings_.caches_for_ever ? fabric::forever : found.read_at + settings_.expiry);
}

// Reconnects to `node`, unless another lane of the worker has done so meanwhile.
coro::Task<bool> Reader::meet(fabric::NodeId node) {
  if (worker_.connected(node) && worker_.epoch(node) == peers_[node].epoch) co_return true;
  co_return co_await reconnect(node);
}

// False also if the node came back with fresh memory: what this GET has read of it means nothing now.
coro::Task<bool> Reader::reconnect(fabric::NodeId node) {
  if (!worker_.connected(node)) {
    LOCH_PROBE("nessie-hy.reconnect");
    ++counts_.reconnects;
    const Nanos deadline = worker_.now() + table_.channel.reconnect_timeout;
    const bool is_connected = co_await worker_.reconnect(node, deadline);
    if (!is_connected) co_return false;
  }
  Peer& known = peers_[node];
  const std::uint32_t epoch = worker_.epoch(node);
  if (known.epoch != epoch) {
    // A node that restarted has new keys for its regions; one that did not gives the same again.
    Result<Peer> fresh = store_.look_up(node);
    if (!fresh.has_value()) co_return false;
    const bool is_reborn = fresh->index.rkey != known.index.rkey;
    known = *fresh;
    known.epoch = epoch;
    if (is_reborn && !settings_.goes_on_reborn) {
      LOCH_PROBE("nessie-hy.server-reborn");
      co_return false;
    }
  }
  co_return true;
}

kv::OpResult Reader::result_of(Attempt ended, std::uint32_t retries) const {
  kv::OpResult result;
  result.retries = retries;
  switch (ended) {
    case Attempt::ok:
      result.value = value_;
      break;
    case Attempt::not_found:
      result.status = kv::OpStatus::not_found;
      break;
    case Attempt::conflict:
      result.status = kv::OpStatus::conflict;
      break;
    case Attempt::expired:
      result.status = kv::OpStatus::timeout;
      break;
    case Attempt::link_error:
      result.status = kv::OpStatus::error;
      break;
  }
  return result;
}

}  // namespace loch::nessie_hy
