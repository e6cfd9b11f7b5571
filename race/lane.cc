// READs buckets and blocks and CASes slots of a RACE table; after an error, repeats that over a new
// connection.
#include "race/lane.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "common/base/probe.h"
#include "common/fabric/memory.h"

namespace loch::race {
namespace {

constexpr std::uint32_t most_tries = 4;
constexpr std::uint64_t word_at = 2 * combined_bytes;  // in a lane's share of buckets_region: a single slot

}  // namespace

void View::add(const Places& places, std::size_t i, bool is_overflow, std::uint64_t offset,
               const std::byte* bytes) {
  const Word header = fabric::load_word(bytes);
  headers_[2 * i + (is_overflow ? 1 : 0)] = header;
  depth_ = std::min(depth_, depth_of(header));
  // If both combined buckets share one overflow bucket, its slots are added once.
  if (is_overflow && i == 1 && places.bucket[0] / group_bytes == places.bucket[1] / group_bytes) return;
  const bool is_leaving = is_moving(header) && (places.suffix >> depth_of(header) & 1) != 0;
  for (std::uint32_t s = 1; s <= slots_per_bucket; ++s) {
    const Word word = fabric::load_word(bytes + 8ULL * s);
    const bool is_taken = !is_free(word) && (!is_frozen(word) || is_moving(header));
    slots_[count_++] = {offset + 8ULL * s, word,     static_cast<std::uint8_t>(i),
                        is_overflow,       is_taken, is_leaving};
  }
}

double View::share_taken() const {
  return static_cast<double>(std::count_if(begin(), end(), [](const Seen& seen) { return seen.is_taken; })) /
         count_;
}

const View::Seen* View::free_slot(bool as_published) const {
  std::array<std::uint32_t, 2> taken{};
  for (const Seen& seen : *this) taken[seen.combined] += seen.is_taken ? 1 : 0;
  const std::uint8_t first = taken[1] < taken[0] ? 1 : 0;
  // A free slot in which a DELETE left a block comes first: the INSERT gets that block in exchange for its
  // own.
  const auto rank = [&](const Seen& seen) {
    if (as_published) return seen.is_overflow ? 1 : 0;
    return (seen.word == 0 || is_frozen(seen.word) ? 4 : 0) + (seen.combined == first ? 0 : 2) +
           (seen.is_overflow ? 1 : 0);
  };
  const Seen* best = nullptr;
  for (const Seen& seen : *this) {
    if (!seen.is_taken && !seen.is_leaving && (best == nullptr || rank(seen) < rank(*best))) best = &seen;
  }
  return best;
}

void View::order_as_published() {
  std::ranges::sort(slots_.begin(), slots_.begin() + count_, {}, [](const Seen& seen) {
    return std::tuple(seen.is_overflow, seen.combined, seen.offset);
  });
}

Lane::Lane(RaceStore& of, fabric::Worker& by, std::uint32_t which)
    : store(of),
      settings(of.settings()),
      node(of.local(by.node())),
      own(*node.workers.at(by.index())),
      worker(by),
      number(std::uint64_t{by.index()} * (settings.config.window + 2) + which),
      scratch(settings.block.checked_bytes()) {}

coro::Task<Ended> Lane::reconnect(fabric::NodeId peer) {
  ++own.counters.reconnects;
  const Nanos deadline = worker.now() + settings.reconnect_timeout;
  fabric::Fabric& fabric = store.fabric();
  LOCH_CO_TRY_OR(Ended::failed, rpc::restore(worker, fabric, own.table[peer], table_region, deadline));
  LOCH_CO_TRY_OR(Ended::failed, rpc::restore(worker, fabric, own.blocks[peer], blocks_region, deadline));
  co_return Ended::ok;
}

coro::Task<Ended> Lane::read(const rpc::Remote* from, std::uint64_t offset, fabric::LocalSlice into,
                             std::uint32_t bytes, fabric::OpStats* stats) {
  for (std::uint32_t tries = 0; tries < most_tries && !from->is_lost; ++tries) {
    const fabric::Completion done = co_await worker.read(from->region, offset, into, bytes, stats);
    if (done.ok()) co_return Ended::ok;
    LOCH_CO_TRY(reconnect(from->region.node));
  }
  co_return Ended::failed;
}

// Where to read the halves (main and overflow bucket) of the key's two combined buckets, which splits may
// have moved: for each half, the suffix of the subtable in which to read it, and whether it has been found.
struct Lane::Search {
  std::array<std::array<std::uint32_t, 2>, 2> at{};
  std::array<std::array<bool, 2>, 2> is_found{};
  [[nodiscard]] bool has_ended(std::size_t i) const { return is_found[i][0] && is_found[i][1]; }
  // The suffix of the subtable in which combined bucket `i` is to be read next.
  [[nodiscard]] std::uint32_t next(std::size_t i) const { return at[i][is_found[i][0] ? 1 : 0]; }
};

// Adds to `view` those halves (main or overflow bucket) of combined bucket `i`, as just read, that are the
// key's, and computes in which subtables the others are to be read. Returns false if a half was never
// initialised.
bool Lane::take_halves(const Places& places, std::size_t i, Search& search, View& view) {
  const std::byte* bytes = buckets(i * combined_bytes).data();
  const std::uint32_t suffix = search.next(i);
  const std::uint64_t base = settings.shape.subtable_bytes() * suffix + places.bucket[i];
  for (std::uint32_t half = 0; half < 2; ++half) {
    if (search.is_found[i][half] || search.at[i][half] != suffix) continue;
    const std::uint64_t at = std::uint64_t{half} * bucket_bytes;
    const Word header = fabric::load_word(bytes + at);
    if (!is_header_of(header, suffix)) return false;
    if (low(places.suffix, depth_of(header)) == suffix || settings.has(Flaw::header_unread)) {
      search.is_found[i][half] = true;
      view.add(places, i, (half == 0) == places.is_odd[i], base + at, bytes + at);
    } else {
      // The keys of this half were split at the lowest bit in which the key's hash differs from the suffix.
      const auto bit = static_cast<std::uint32_t>(std::countr_zero(places.suffix ^ suffix));
      search.at[i][half] = low(places.suffix, bit + 1);
    }
  }
  return true;
}

// The request that READs a node's directory into the worker's buffer: twice as many entries as the worker
// knows of, because subtables may have been split since its last READ.
fabric::WorkRequest Lane::directory_request(fabric::NodeId peer, fabric::OpStats* stats) {
  const Shape& shape = settings.shape;
  const std::size_t known = std::max<std::size_t>(own.directory[peer].size(), shape.subtables());
  const auto words = static_cast<std::uint32_t>(std::min<std::size_t>(2 * known, 1ULL << shape.max_depth));
  return fabric::one_sided(fabric::Verb::read, own.table[peer].region, shape.directory_at(), directory(),
                           8 * (1 + words), stats);
}

// Copies what the READ of a directory (directory_request()) fetched into the worker's own directory of the
// node.
void Lane::learn(const fabric::WorkRequest& request) {
  const std::byte* words = directory().data();
  std::vector<std::uint8_t>& known = own.directory[request.peer];
  ++own.counters.directory_reads;
  known.resize(std::max<std::size_t>(known.size(), 1ULL << fabric::load_word(words)), none);
  for (std::size_t i = 0; i < std::min<std::size_t>(known.size(), request.length / 8 - 1); ++i)
    known[i] = static_cast<std::uint8_t>(entry_depth(fabric::load_word(words + 8 * (i + 1))));
}

coro::Task<Ended> Lane::read_directory(fabric::NodeId peer, fabric::OpStats* stats) {
  for (std::size_t known = 0; known != own.directory[peer].size() || known == 0;) {
    known = own.directory[peer].size();
    const fabric::WorkRequest request = directory_request(peer, stats);
    LOCH_CO_TRY(read(&own.table[peer], request.remote_offset, request.local, request.length, stats));
    learn(request);
  }
  co_return Ended::ok;
}

coro::Task<Ended> Lane::look(const Places* places, const Block* block, View* view, fabric::OpStats* stats) {
  const fabric::NodeId peer = places->node;
  const fabric::RemoteRegion& table = own.table[peer].region;
  const std::uint32_t home = own.home(settings.shape, *places);
  Search search{.at = {{{home, home}, {home, home}}}};
  *view = View();
  for (std::uint32_t tries = 0, rounds = 0; tries < most_tries;) {
    if (own.table[peer].is_lost || own.blocks[peer].is_lost) co_return Ended::failed;
    std::array<fabric::WorkRequest, 4> chain;
    std::size_t count = 0;
    if (block != nullptr) {
      chain[count++] = fabric::one_sided(fabric::Verb::write, own.blocks[peer].region,
                                         block->number * block_unit, out(), settings.block.bytes(), stats);
    }
    if (rounds > 0) chain[count++] = directory_request(peer, stats);
    const std::size_t has_directory = count;
    for (std::size_t i = 0; i < places->bucket.size(); ++i) {
      if (search.has_ended(i)) continue;
      const std::uint64_t at = settings.shape.subtable_bytes() * search.next(i) + places->bucket[i];
      chain[count++] = fabric::one_sided(fabric::Verb::read, table, at, buckets(i * combined_bytes),
                                         combined_bytes, stats);
      if (stats != nullptr) ++stats->index_read;
    }
    for (std::size_t i = 0; i + 1 < count; ++i) chain[i].is_signaled = false;
    const std::span<fabric::WorkRequest> requests(chain.data(), count);
    const fabric::WcStatus status = co_await worker.post_and_wait(requests);
    if (status != fabric::WcStatus::success) {
      ++tries;
      LOCH_CO_TRY(reconnect(peer));
      continue;
    }
    block = nullptr;
    if (rounds++ > 0) learn(chain[has_directory - 1]);
    for (std::size_t i = 0; i < places->bucket.size(); ++i) {
      if (!search.has_ended(i) && !take_halves(*places, i, search, *view)) co_return Ended::failed;
    }
    if (search.has_ended(0) && search.has_ended(1)) co_return Ended::ok;
    LOCH_PROBE("race.bucket-has-moved");
  }
  LOCH_PROBE("race.look-tries-used-up");
  co_return Ended::failed;
}

coro::Task<Ended> Lane::fetch(fabric::NodeId peer, Word word, kv::Key key, fabric::OpStats* stats) {
  const BlockLayout& block = settings.block;
  const Entry entry = Entry::unpack(word);
  LOCH_CO_TRY(read(&own.blocks[peer], entry.block * block_unit, in(), block.bytes(), stats));
  const fabric::CpuCosts& costs = worker.costs();
  co_await worker.compute(costs.crc(block.bytes()) + costs.compare(key.size));
  const fabric::LocalSlice crc{node.buffers, in().offset + block.crc_at()};
  if (!read_block(block, in().data(), crc.data(), scratch, &head) && !settings.has(Flaw::checksum_unread)) {
    ++own.counters.torn_blocks;
    LOCH_PROBE("race.block-torn");
    co_return Ended::again;
  }
  if (settings.rules.has_block_generation && head.generation != entry.generation) {
    ++own.counters.other_generations;
    LOCH_PROBE("race.block-used-again");
    co_return Ended::again;
  }
  if (key.size == 0) co_return Ended::ok;
  const std::byte* stored = scratch.data() + block.key_at();
  if (head.key_bytes == key.size && std::equal(key.data, key.data + key.size, stored)) co_return Ended::ok;
  ++own.counters.false_fingerprints;
  co_return Ended::not_found;
}

coro::Task<Ended> Lane::read_word(Slot slot, Word* word) {
  const fabric::LocalSlice into = buckets(word_at);
  LOCH_CO_TRY(read(&own.table[slot.node], slot.offset, into, 8));
  *word = fabric::load_word(into.data());
  co_return Ended::ok;
}

coro::Task<Ended> Lane::swap(Slot slot, Word before, Word after, Proof proof, fabric::OpStats* stats) {
  for (std::uint32_t tries = 0; tries < most_tries; ++tries) {
    const fabric::RemoteRegion table = own.table[slot.node].region;
    if (stats != nullptr) ++stats->index_cas;
    const fabric::Completion done = co_await worker.cas(table, slot.offset, before, after, stats);
    if (done.ok()) {
      if (done.result == before) co_return Ended::ok;
      ++own.counters.lost_swaps;
      co_return Ended::conflict;
    }
    // Once there is a new connection, the failed CAS can no longer take effect, so that the slot can tell
    // whether it did.
    ++own.counters.ambiguous_swaps;
    Word now = 0;
    LOCH_CO_TRY_OR(Ended::unknown, reconnect(slot.node));
    LOCH_CO_TRY_OR(Ended::unknown, read_word(slot, &now));
    if (now == before) continue;
    // If the slot holds `after` and that word names an entry, this CAS happened: the word has the block's
    // generation, so that only one operation writes it. Many operations may write the same word of a free
    // slot.
    if (now == after && !is_free(after)) {
      LOCH_PROBE("race.cas-had-happened");
      co_return Ended::ok;
    }
    if (proof == Proof::after_stays) co_return Ended::conflict;
    co_return proof == Proof::before_stays ? Ended::ok : Ended::unknown;
  }
  LOCH_PROBE("race.cas-tries-used-up");
  co_return Ended::unknown;
}

coro::Task<Ended> Lane::ensure(Slot slot, Word before, Word after, Proof proof) {
  const Ended ended = co_await swap(slot, before, after, proof);
  co_return ended == Ended::unknown ? Ended::failed : Ended::ok;
}

}  // namespace loch::race
