// READs buckets and blocks and swaps slots, over new connections after errors.
#include "race/lane.h"

#include <algorithm>

#include "common/base/probe.h"
#include "common/fabric/memory.h"

namespace loch::race {
namespace {

constexpr std::uint32_t most_tries = 4;
constexpr std::uint64_t word_at = 2 * combined_bytes;  // in a lane's share of buckets_region: a single slot

}  // namespace

void View::add(const Places& places, std::size_t i, const std::byte* bytes, Word header) {
  for (std::uint32_t bucket = 0; bucket < 2; ++bucket) {
    const std::byte* from = bytes + std::size_t{bucket} * bucket_bytes;
    if (fabric::load_word(from) != header) is_laid_out_ = false;
    const bool is_overflow = (bucket == 0) == places.is_odd[i];
    for (std::uint32_t s = 1; s <= slots_per_bucket; ++s) {
      const std::uint64_t offset = places.bucket[i] + std::uint64_t{bucket} * bucket_bytes + 8ULL * s;
      if (std::any_of(begin(), end(), [&](const Seen& seen) { return seen.offset == offset; })) continue;
      slots_[count_++] = {offset, fabric::load_word(from + 8ULL * s), static_cast<std::uint8_t>(i),
                          is_overflow};
    }
  }
}

const View::Seen* View::free_slot() const {
  std::array<std::uint32_t, 2> taken{};
  for (const Seen& seen : *this) taken[seen.combined] += is_free(seen.word) ? 0 : 1;
  const std::uint8_t first = taken[1] < taken[0] ? 1 : 0;
  const Seen* best = nullptr;
  // A slot with a block gives its inserter one for the block that it takes.
  const auto rank = [&](const Seen& seen) {
    return (seen.word == 0 ? 4 : 0) + (seen.combined == first ? 0 : 2) + (seen.is_overflow ? 1 : 0);
  };
  for (const Seen& seen : *this) {
    if (is_free(seen.word) && (best == nullptr || rank(seen) < rank(*best))) best = &seen;
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

coro::Task<bool> look(Lane* lane, const Places* places, const Block* block, View* view,
                      fabric::OpStats* stats) {
  const Settings& s = lane->settings;
  const fabric::NodeId node = places->node;
  for (std::uint32_t tries = 0; tries < most_tries; ++tries) {
    std::array<fabric::WorkRequest, 3> chain;
    std::size_t count = 0;
    if (lane->own.table[node].is_lost || lane->own.blocks[node].is_lost) co_return false;
    if (block != nullptr) {
      const fabric::LocalSlice from{lane->node.buffers, lane->out_at()};
      chain[count] = fabric::one_sided(fabric::Verb::write, lane->own.blocks[node].region,
                                       block->number * block_unit, from, s.block.bytes(), stats);
      chain[count++].is_signaled = false;
    }
    for (std::size_t i = 0; i < places->bucket.size(); ++i) {
      const fabric::LocalSlice to{lane->node.buckets, lane->buckets_at() + i * combined_bytes};
      chain[count] = fabric::one_sided(fabric::Verb::read, lane->own.table[node].region, places->bucket[i],
                                       to, combined_bytes, stats);
      chain[count++].is_signaled = i + 1 == places->bucket.size();
    }
    if (stats != nullptr) stats->index_read += 2;
    const std::span<fabric::WorkRequest> requests(chain.data(), count);
    const fabric::WcStatus status = co_await lane->worker.post_and_wait(requests);
    if (status == fabric::WcStatus::success) {
      *view = View();
      const Word header = header_of(s.shape.depth, places->subtable);
      for (std::size_t i = 0; i < places->bucket.size(); ++i)
        view->add(*places, i, lane->node.buckets->at(lane->buckets_at() + i * combined_bytes), header);
      co_return true;
    }
    const bool is_back = co_await reconnect(lane, node);
    if (!is_back) co_return false;
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
  if (!is_key) ++lane->own.counters.false_fingerprints;
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
  using Outcome = Swap::Outcome;
  for (std::uint32_t tries = 0; tries < most_tries; ++tries) {
    const fabric::RemoteRegion table = lane->own.table[slot.node].region;
    if (stats != nullptr) ++stats->index_cas;
    const fabric::Completion done = co_await lane->worker.cas(table, slot.offset, before, after, stats);
    if (done.ok()) {
      if (done.result == before) co_return Swap{Outcome::swapped};
      ++lane->own.counters.lost_swaps;
      co_return Swap{Outcome::lost};
    }
    // The failed CAS cannot take effect any more once there is a new connection.
    ++lane->own.counters.ambiguous_swaps;
    const bool is_back = co_await reconnect(lane, slot.node);
    if (!is_back) co_return Swap{Outcome::unknown};
    const std::optional<Word> now = co_await read_slot(lane, slot);
    if (!now) co_return Swap{Outcome::unknown};
    if (*now == before) continue;
    // A word that names an entry has its block's generation, and is of one operation alone; a free one is of
    // many.
    if (*now == after && !is_free(after)) {
      LOCH_PROBE("race.cas-had-happened");
      co_return Swap{Outcome::swapped};
    }
    if (proof == Proof::after_stays) co_return Swap{Outcome::lost};
    if (proof == Proof::before_stays) co_return Swap{Outcome::swapped};
    co_return Swap{Outcome::unknown};
  }
  LOCH_PROBE("race.cas-tries-used-up");
  co_return Swap{Outcome::unknown};
}

}  // namespace loch::race
