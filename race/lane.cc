// READs buckets and blocks and swaps slots, over new connections after errors.
#include "race/lane.h"

#include <algorithm>
#include <bit>

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
  // An overflow bucket that both combined buckets have is added once.
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

const View::Seen* View::free_slot() const {
  std::array<std::uint32_t, 2> taken{};
  for (const Seen& seen : *this) taken[seen.combined] += seen.is_taken ? 1 : 0;
  const std::uint8_t first = taken[1] < taken[0] ? 1 : 0;
  const Seen* best = nullptr;
  // A slot with a block gives its inserter one for the block that it takes.
  const auto rank = [&](const Seen& seen) {
    return (seen.word == 0 || is_frozen(seen.word) ? 4 : 0) + (seen.combined == first ? 0 : 2) +
           (seen.is_overflow ? 1 : 0);
  };
  for (const Seen& seen : *this) {
    if (!seen.is_taken && !seen.is_leaving && (best == nullptr || rank(seen) < rank(*best))) best = &seen;
  }
  return best;
}

const View::Seen* View::first_free() {
  order_as_published();
  const auto* found = std::find_if(begin(), end(), [](const Seen& seen) { return is_free(seen.word); });
  return found == end() ? nullptr : found;
}

void View::order_as_published() {
  const std::array<Seen, most> before = slots_;
  std::uint32_t next = 0;
  for (const bool is_overflow : {false, true}) {
    for (std::uint32_t i = 0; i < count_; ++i) {
      if (before[i].is_overflow == is_overflow) slots_[next++] = before[i];
    }
  }
}

Lane::Lane(RaceStore& of, fabric::Worker& by, std::uint32_t which)
    : store(of),
      settings(of.settings()),
      node(of.local(by.node())),
      own(*node.workers.at(by.index())),
      worker(by),
      number(std::uint64_t{by.index()} * (settings.config.window + 2) + which),
      scratch(settings.block.checked_bytes()) {}

coro::Task<bool> reconnect(Lane* lane, fabric::NodeId node) {
  ++lane->own.counters.reconnects;
  const Nanos deadline = lane->worker.now() + lane->settings.reconnect_timeout;
  fabric::Fabric& fabric = lane->store.fabric();
  rpc::Remote& table = lane->own.table[node];
  const bool is_table = co_await rpc::restore(lane->worker, fabric, table, table_region, deadline);
  if (!is_table) co_return false;
  rpc::Remote& blocks = lane->own.blocks[node];
  co_return co_await rpc::restore(lane->worker, fabric, blocks, blocks_region, deadline);
}

coro::Task<bool> read(Lane* lane, const rpc::Remote* from, std::uint64_t offset, fabric::LocalSlice into,
                      std::uint32_t bytes, fabric::OpStats* stats) {
  for (std::uint32_t tries = 0; tries < most_tries && !from->is_lost; ++tries) {
    const fabric::Completion done = co_await lane->worker.read(from->region, offset, into, bytes, stats);
    if (done.ok()) co_return true;
    const bool is_back = co_await reconnect(lane, from->region.node);
    if (!is_back) break;
  }
  co_return false;
}

namespace {

// Where the buckets of a look are read: for each combined bucket, and in it for each half, the suffix of the
// subtable, and whether the half has been found.
struct Search {
  std::array<std::array<std::uint32_t, 2>, 2> at{};
  std::array<std::array<bool, 2>, 2> is_found{};
  [[nodiscard]] bool has_ended(std::size_t i) const { return is_found[i][0] && is_found[i][1]; }
  // The subtable to read combined bucket `i` in.
  [[nodiscard]] std::uint32_t next(std::size_t i) const { return at[i][is_found[i][0] ? 1 : 0]; }
};

// Takes from a combined bucket, read in subtable `suffix`, the halves that hold the key's slots, and finds
// out where the others are. False: memory that nobody has laid out.
bool take_halves(const Lane& lane, const Places& places, std::size_t i, Search& search, View& view) {
  const std::byte* bytes = lane.node.buckets->at(lane.buckets_at() + i * combined_bytes);
  const std::uint32_t suffix = search.next(i);
  const std::uint64_t base = lane.settings.shape.subtable_bytes() * suffix + places.bucket[i];
  for (std::uint32_t half = 0; half < 2; ++half) {
    if (search.is_found[i][half] || search.at[i][half] != suffix) continue;
    const std::uint64_t at = std::uint64_t{half} * bucket_bytes;
    const Word header = fabric::load_word(bytes + at);
    if (!is_header_of(header, suffix)) return false;
    if (low(places.suffix, depth_of(header)) == suffix || lane.settings.has(Flaw::header_unread)) {
      search.is_found[i][half] = true;
      view.add(places, i, (half == 0) == places.is_odd[i], base + at, bytes + at);
    } else {
      // Split off at the lowest bit in which the key's hash differs.
      const auto bit = static_cast<std::uint32_t>(std::countr_zero(places.suffix ^ suffix));
      search.at[i][half] = low(places.suffix, bit + 1);
    }
  }
  return true;
}

// The request that READs a node's directory into the worker's buffer for it: as much as the worker knows of,
// and as much again, for subtables that have been split off since.
fabric::WorkRequest directory_request(Lane* lane, fabric::NodeId node, fabric::OpStats* stats) {
  const Shape& shape = lane->settings.shape;
  const std::size_t known = std::max<std::size_t>(lane->own.directory[node].size(), shape.subtables());
  const auto words = static_cast<std::uint32_t>(std::min<std::size_t>(2 * known, 1ULL << shape.max_depth));
  return fabric::one_sided(fabric::Verb::read, lane->own.table[node].region, shape.directory_at(),
                           {lane->node.directory, lane->directory_at()}, 8 * (1 + words), stats);
}

// Takes over what such a READ brought.
void learn(Lane* lane, const fabric::WorkRequest& request) {
  const std::byte* words = lane->node.directory->at(lane->directory_at());
  std::vector<std::uint8_t>& directory = lane->own.directory[request.peer];
  ++lane->own.counters.directory_reads;
  directory.resize(std::max<std::size_t>(directory.size(), 1ULL << fabric::load_word(words)), none);
  for (std::size_t i = 0; i < std::min<std::size_t>(directory.size(), request.length / 8 - 1); ++i)
    directory[i] = static_cast<std::uint8_t>(entry_depth(fabric::load_word(words + 8 * (i + 1))));
}

}  // namespace

coro::Task<bool> read_directory(Lane* lane, fabric::NodeId node, fabric::OpStats* stats) {
  for (std::size_t known = 0; known != lane->own.directory[node].size() || known == 0;) {
    known = lane->own.directory[node].size();
    const fabric::WorkRequest request = directory_request(lane, node, stats);
    const bool is_read = co_await read(lane, &lane->own.table[node], request.remote_offset, request.local,
                                       request.length, stats);
    if (!is_read) co_return false;
    learn(lane, request);
  }
  co_return true;
}

coro::Task<bool> look(Lane* lane, const Places* places, const Block* block, View* view,
                      fabric::OpStats* stats) {
  const Settings& s = lane->settings;
  const fabric::NodeId node = places->node;
  Search search;
  const std::uint32_t home = lane->own.home(s.shape, *places);
  search.at = {{{home, home}, {home, home}}};
  *view = View();
  for (std::uint32_t tries = 0, rounds = 0; tries < most_tries;) {
    std::array<fabric::WorkRequest, 4> chain;
    std::size_t count = 0;
    if (lane->own.table[node].is_lost || lane->own.blocks[node].is_lost) co_return false;
    if (block != nullptr) {
      const fabric::LocalSlice from{lane->node.buffers, lane->out_at()};
      chain[count++] = fabric::one_sided(fabric::Verb::write, lane->own.blocks[node].region,
                                         block->number * block_unit, from, s.block.bytes(), stats);
    }
    if (rounds > 0) chain[count++] = directory_request(lane, node, stats);
    const std::size_t has_directory = count;
    for (std::size_t i = 0; i < places->bucket.size(); ++i) {
      if (search.has_ended(i)) continue;
      const std::uint64_t at = s.shape.subtable_bytes() * search.next(i) + places->bucket[i];
      const fabric::LocalSlice to{lane->node.buckets, lane->buckets_at() + i * combined_bytes};
      chain[count++] =
          fabric::one_sided(fabric::Verb::read, lane->own.table[node].region, at, to, combined_bytes, stats);
      if (stats != nullptr) ++stats->index_read;
    }
    for (std::size_t i = 0; i + 1 < count; ++i) chain[i].is_signaled = false;
    const std::span<fabric::WorkRequest> requests(chain.data(), count);
    const fabric::WcStatus status = co_await lane->worker.post_and_wait(requests);
    if (status != fabric::WcStatus::success) {
      ++tries;
      const bool is_back = co_await reconnect(lane, node);
      if (!is_back) co_return false;
      continue;
    }
    block = nullptr;
    if (rounds++ > 0) learn(lane, chain[has_directory - 1]);
    for (std::size_t i = 0; i < places->bucket.size(); ++i) {
      if (!search.has_ended(i) && !take_halves(*lane, *places, i, search, *view)) co_return false;
    }
    if (search.has_ended(0) && search.has_ended(1)) co_return true;
    LOCH_PROBE("race.bucket-has-moved");
  }
  LOCH_PROBE("race.look-tries-used-up");
  co_return false;
}

coro::Task<Fetched> fetch(Lane* lane, fabric::NodeId node, Word word, kv::Key key, fabric::OpStats* stats) {
  const Settings& s = lane->settings;
  const Entry entry = Entry::unpack(word);
  const fabric::LocalSlice into{lane->node.buffers, lane->in_at()};
  const bool has_come =
      co_await read(lane, &lane->own.blocks[node], entry.block * block_unit, into, s.block.bytes(), stats);
  if (!has_come) co_return Fetched{};
  const fabric::CpuCosts& costs = lane->worker.costs();
  co_await lane->worker.compute(costs.crc(s.block.bytes()) + costs.compare(key.size));
  Fetched out;
  const bool is_whole =
      read_block(s.block, lane->node.buffers->at(lane->in_at()),
                 lane->node.buffers->at(lane->in_at() + s.block.crc_at()), lane->scratch, &out.head);
  if (!is_whole && !s.has(Flaw::checksum_unread)) {
    ++lane->own.counters.torn_blocks;
    LOCH_PROBE("race.block-torn");
    out.state = Fetched::State::changed;
    co_return out;
  }
  if (s.rules.has_block_generation && out.head.generation != entry.generation) {
    ++lane->own.counters.other_generations;
    LOCH_PROBE("race.block-used-again");
    out.state = Fetched::State::changed;
    co_return out;
  }
  const std::byte* stored = lane->scratch.data() + s.block.key_at();
  const bool is_key = out.head.key_bytes == key.size && std::equal(key.data, key.data + key.size, stored);
  if (!is_key && key.size > 0) ++lane->own.counters.false_fingerprints;
  out.state = is_key ? Fetched::State::is_key : Fetched::State::other_key;
  co_return out;
}

coro::Task<std::optional<Word>> read_slot(Lane* lane, Slot slot) {
  const fabric::LocalSlice into{lane->node.buckets, lane->buckets_at() + word_at};
  const bool has_come = co_await read(lane, &lane->own.table[slot.node], slot.offset, into, 8, nullptr);
  if (!has_come) co_return std::nullopt;
  co_return fabric::load_word(into.data());
}

coro::Task<Swap> swap(Lane* lane, Slot slot, Word before, Word after, Proof proof, fabric::OpStats* stats) {
  for (std::uint32_t tries = 0; tries < most_tries; ++tries) {
    const fabric::RemoteRegion table = lane->own.table[slot.node].region;
    if (stats != nullptr) ++stats->index_cas;
    const fabric::Completion done = co_await lane->worker.cas(table, slot.offset, before, after, stats);
    if (done.ok()) {
      if (done.result == before) co_return Swap::done;
      ++lane->own.counters.lost_swaps;
      co_return Swap::lost;
    }
    // The failed CAS cannot take effect any more once there is a new connection.
    ++lane->own.counters.ambiguous_swaps;
    const bool is_back = co_await reconnect(lane, slot.node);
    if (!is_back) co_return Swap::unknown;
    const std::optional<Word> now = co_await read_slot(lane, slot);
    if (!now) co_return Swap::unknown;
    if (*now == before) continue;
    // A word that names an entry has its block's generation, and is of one operation alone; a free one is of
    // many.
    if (*now == after && !is_free(after)) {
      LOCH_PROBE("race.cas-had-happened");
      co_return Swap::done;
    }
    if (proof == Proof::after_stays) co_return Swap::lost;
    if (proof == Proof::before_stays) co_return Swap::done;
    co_return Swap::unknown;
  }
  LOCH_PROBE("race.cas-tries-used-up");
  co_return Swap::unknown;
}

}  // namespace loch::race
