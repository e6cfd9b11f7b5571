// Executes GETs by READs of index words and entries, and checks that what was read is neither too old nor
// of another incarnation.
#include "nessie_hy/reader.h"

#include <algorithm>
#include <atomic>

#include "common/base/probe.h"
#include "common/cuckoo/index_word.h"
#include "common/fabric/memory.h"
#include "common/kv/back_off.h"
#include "common/onesided/cached.h"
#include "common/onesided/transfer.h"

namespace loch::nessie_hy {

using cuckoo::IndexWord;

namespace {

kv::OpResult result_of(const onesided::Got& got, std::uint32_t retries) {
  kv::OpResult result;
  result.retries = retries;
  switch (got.ended) {
    case onesided::Outcome::ok:
      result.value = got.value;
      break;
    case onesided::Outcome::not_found:
      result.status = kv::OpStatus::not_found;
      break;
    case onesided::Outcome::conflict:
      result.status = kv::OpStatus::conflict;
      break;
    case onesided::Outcome::expired:
      result.status = kv::OpStatus::timeout;
      break;
    case onesided::Outcome::link_error:
      result.status = kv::OpStatus::error;
      break;
  }
  return result;
}

}  // namespace

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
      peers_(store.peers()) {}

Reader::Where Reader::where(const cuckoo::Place& place) const {
  return {static_cast<fabric::NodeId>(place.node / table_.servers()), place.node % table_.servers(),
          place.node};
}

struct Reader::Tables {
  Reader& reader;

  [[nodiscard]] fabric::Worker& worker() const { return reader.worker_; }
  [[nodiscard]] std::uint32_t functions() const { return reader.table_.functions(); }
  [[nodiscard]] cuckoo::KeyHash hash(kv::Key key) const {
    return reader.table_.family.hash({key.data, key.size});
  }
  void expect(const cuckoo::Place& /*place*/) const {}
  [[nodiscard]] coro::Task<onesided::WordRead> read_word(cuckoo::Place place, Nanos /*read_at*/) const {
    return reader.read_word(place);
  }
  // Never called, because read_word() itself repeats a READ that failed.
  [[nodiscard]] static coro::Task<onesided::WordRead> settle_word(cuckoo::Place /*place*/,
                                                                  onesided::WordRead read) {
    co_return read;
  }
  [[nodiscard]] bool may_hold(std::uint64_t word, cuckoo::KeyHash& hash) const {
    return !IndexWord::is_empty(word) && IndexWord::filter(word) == hash.filter(reader.table_.filter_bits);
  }
  [[nodiscard]] coro::Task<Looked> look_up(cuckoo::Place place, std::uint64_t word, Nanos read_at,
                                           kv::Key key) const {
    return reader.look_up(reader.where(place), {word, read_at}, key);
  }
  // Whether a GET continues after a pending entry does not matter here, because a GET never finds a pending
  // entry: only one server worker writes to an index row (its table), and it links complete entries. No index
  // word returns to a slot.
  [[nodiscard]] static bool goes_on_past_pending() { return true; }
  [[nodiscard]] bool confirms_misses() const { return reader.settings_.verifies_misses; }
  [[nodiscard]] static bool is_over_age() { return false; }
  void count_mismatch() const {
    LOCH_PROBE("nessie-hy.miss-refuted");
    ++reader.counts_.mismatches;
  }
};

struct Reader::Reading {
  Reader& reader;
  fabric::NodeId node;
  fabric::RemoteRegion Peer::* table;  // region that is read: index or data
  std::uint64_t offset;
  fabric::LocalSlice to;
  std::uint32_t bytes;
  bool by_watermark;

  [[nodiscard]] fabric::Worker& worker() const { return reader.worker_; }
  [[nodiscard]] std::optional<fabric::WorkRequest> request() const {
    fabric::OpStats* stats = reader.stats_;
    if (stats != nullptr && table == &Peer::index) ++stats->index_read;
    return fabric::one_sided(fabric::Verb::read, reader.peers_[node].*table, offset, to, bytes, stats);
  }
  [[nodiscard]] std::optional<onesided::Landing> landing() const {
    if (!by_watermark) return std::nullopt;
    return onesided::Landing{.region = to.region,
                             .word_at = to.offset + bytes - 8,
                             .mark = coupled::watermark,
                             .until = worker().now() + reader.settings_.expiry};
  }
  [[nodiscard]] fabric::WorkRequest flush() const {
    const fabric::LocalSlice scratch{reader.node_.words, reader.word_at(lane_flush)};
    return fabric::one_sided(fabric::Verb::read, reader.peers_[node].index, 0, scratch, 8, nullptr);
  }
  void count_late() const {
    LOCH_PROBE("nessie-hy.watermark-late");
    ++reader.counts_.watch_timeouts;
  }
  [[nodiscard]] coro::Task<bool> reconnect() const { return reader.reconnect(node); }
};

coro::Task<kv::OpResult> Reader::get(kv::Key key, fabric::OpStats* stats) {
  LOCH_CHECK_EQ(key.size, table_.entry.key_size());
  stats_ = stats;
  pinned_.release();
  for (std::uint32_t attempt = 0;; ++attempt) {
    const onesided::Got got = co_await onesided::get_once(Tables{*this}, key);
    const bool is_conflict = got.ended == onesided::Outcome::conflict;
    const bool is_worth_retrying = is_conflict || got.ended == onesided::Outcome::expired;
    if (!is_worth_retrying || attempt + 1 == table_.attempts || worker_.stopping())
      co_return result_of(got, attempt);
    // The GET's first retry follows without back-off, because the operation that changed the index slot has
    // mostly ended by then.
    if (attempt > 0) co_await kv::back_off(&worker_, table_.backoff_start, table_.backoff_cap, attempt - 1);
    if (is_conflict) ++counts_.conflicts;
  }
}

coro::Task<onesided::WordRead> Reader::read_word(cuckoo::Place place) {
  const Where at = where(place);
  const std::uint64_t offset = table_.word_at(at.server, place.slot);
  if (is_here(at)) {
    if (stats_ != nullptr) ++stats_->local_accesses;
    const std::uint64_t word = fabric::load_word(tables_.index->at(offset));
    co_return onesided::WordRead{.ok = IndexWord::is_stored(word), .word = word};
  }
  const fabric::LocalSlice landing{node_.words, word_at(lane_index)};
  const Reading reading{*this, at.node, &Peer::index, offset, landing, 8, settings_.polls_watermarks};
  const bool has_come = co_await read(reading);
  if (!has_come) co_return onesided::WordRead{};
  const std::uint64_t word = fabric::load_word(node_.words->at(landing.offset));
  if (!IndexWord::is_stored(word) && settings_.takes_void)
    co_return onesided::WordRead{.ok = true, .word = IndexWord::empty(0)};
  // A word without the watermark bit, which every stored word has, was never initialised: the node came back
  // with empty memory.
  co_return onesided::WordRead{.ok = IndexWord::is_stored(word), .word = word};
}

// Compares the key of the entry that the index word names with `key`; counts GETs that expire and entries of
// other keys.
coro::Task<onesided::Looked> Reader::look_up(Where where, Found found, kv::Key key) {
  const Looked looked = co_await look_at_entry(where, found, key);
  if (looked.look == Look::expired) {
    LOCH_PROBE("nessie-hy.get-expired");
    ++counts_.expired;
  } else if (looked.look == Look::other_key) {
    LOCH_PROBE("nessie-hy.other-key");
    ++counts_.other_keys;
  }
  co_return looked;
}

coro::Task<onesided::Looked> Reader::look_at_entry(Where where, Found found, kv::Key key) {
  if (is_here(where)) co_return co_await look_here(where, found, key);
  if (const std::optional<Looked> cached = look_in_cache(where, found, key)) {
    co_await worker_.compute(worker_.costs().compare(key.size));
    co_return *cached;
  }
  const coupled::EntryLayout& entry = table_.entry;
  const std::uint32_t first = settings_.reads_header_first ? entry.header_bytes() : entry.full_bytes();
  const bool read = co_await read_entry(where, IndexWord::entry(found.word), first);
  if (!read) co_return Looked{Look::failed, {}};
  co_await worker_.compute(worker_.costs().compare(key.size));
  const bool is_other = !onesided::is_key(node_.landing->at(landing_), key);
  // If the entry was read too late, it may have been reused: its key does not tell whether the index word
  // named an entry of the wanted key.
  if (is_too_old(found.read_at)) co_return Looked{Look::expired, {}};
  if (is_other) co_return Looked{Look::other_key, {}};
  const Looked taken = co_await take_value(where, found);
  if (taken.look == Look::value) {
    // If header and value were read by separate READs, the second may have met a reused entry. The check of
    // the word's age excludes that already; the key is compared again all the same.
    const bool is_still = onesided::is_key(node_.landing->at(landing_), key);
    if (!is_still && !settings_.trusts_second_read) co_return Looked{Look::expired, {}};
    if (node_.cache != nullptr) {
      co_await worker_.compute(worker_.costs().copy(entry.value_size()));
      const Nanos expiry = settings_.caches_for_ever ? fabric::forever : found.read_at + settings_.expiry;
      onesided::fill_cache({node_.cache.get(), cache_word(where, found.word), expiry}, worker_.now(), key,
                           taken.value);
    }
  }
  co_return taken;
}

coro::Task<onesided::Looked> Reader::take_value(Where where, Found found) {
  if (settings_.reads_header_first) {
    const bool read = co_await read_entry(where, IndexWord::entry(found.word), table_.entry.full_bytes());
    if (!read) co_return Looked{Look::failed, {}};
  }
  // The whole entry has been read. If the expiry period has passed since its index word was read, the entry
  // may have been reused meanwhile, and its bytes may be another entry's.
  if (is_too_old(found.read_at)) co_return Looked{Look::expired, {}};
  co_return Looked{Look::value, landed_value()};
}

// Reads an entry on this node. The value is copied, because the entry may be reused one expiry period after
// it left the index.
coro::Task<onesided::Looked> Reader::look_here(Where where, Found found, kv::Key key) {
  const coupled::EntryLayout& entry = table_.entry;
  const std::uint64_t at = table_.entry_at(where.server, IndexWord::entry(found.word));
  if (stats_ != nullptr) ++stats_->local_accesses;
  co_await worker_.compute(worker_.costs().compare(key.size));
  const bool is_other = !onesided::is_key(tables_.data->at(at), key);
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
  std::atomic_thread_fence(std::memory_order_acquire);  // the entry is loaded before the clock is read
  if (is_too_old(found.read_at)) co_return Looked{Look::expired, {}};
  if (is_other) co_return Looked{Look::other_key, {}};
  co_return Looked{Look::value, landed_value()};
}

coro::Task<bool> Reader::read_entry(Where where, std::uint32_t entry, std::uint32_t bytes) {
  if (entry >= table_.entries_per_row) co_return false;
  // An entry may span several cache lines; polling its last byte is correct only if bytes arrive in order (an
  // assumption about the NIC, H19 in docs/protocols/nessie.md).
  const bool by_watermark =
      settings_.polls_watermarks && (worker_.capabilities().in_order_reads || settings_.polls_tail_unordered);
  const Reading reading{
      *this, where.node,  &Peer::data, table_.entry_at(where.server, entry), {node_.landing, landing_},
      bytes, by_watermark};
  co_return co_await read(reading);
}

coro::Task<bool> Reader::read(Reading reading) {
  if (!is_met(reading.node)) {
    const bool is_back = co_await reconnect(reading.node);
    if (!is_back) co_return false;
  }
  const onesided::Ended ended =
      co_await onesided::Transfer(worker_, *reading.request(), [&reading] { return reading.landing(); });
  if (ended.ok()) co_return true;
  co_return co_await onesided::try_again(reading, ended);
}

kv::ValueView Reader::landed_value() const {
  const coupled::EntryLayout& entry = table_.entry;
  return {node_.landing->at(landing_ + entry.value_at()), entry.value_size(), table_.kept_value()};
}

// The word under which the cache stores an entry. Index words of different rows (tables of server workers)
// may be equal; the row's number therefore replaces the upper bits of the index word, which are the filter
// and bits that are the same in all occupied words.
std::uint64_t Reader::cache_word(const Where& where, std::uint64_t word) const {
  constexpr std::uint32_t row_at = IndexWord::entry_bits + IndexWord::stamp_bits;
  return (word & ((std::uint64_t{1} << row_at) - 1)) | (std::uint64_t{where.row} + 1) << row_at;
}

std::optional<onesided::Looked> Reader::look_in_cache(Where where, Found found, kv::Key key) {
  std::optional<Looked> looked = onesided::look_in_cache(
      {node_.cache.get(), cache_word(where, found.word), found.read_at + settings_.expiry}, worker_.now(),
      key, table_.entry.value_size(), table_.kept_value(), stats_, &pinned_);
  if (!looked) return looked;
  LOCH_PROBE("nessie-hy.cache-hit");
  if (looked->look == Look::value && is_too_old(found.read_at)) looked->look = Look::expired;
  return looked;
}

// Reconnects to a node. Returns false if the node cannot be reached, or came back with empty memory, so that
// what this GET has read from the node is no longer valid.
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
    // The node's regions are looked up again, because they have new keys after a restart of the node.
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

}  // namespace loch::nessie_hy
