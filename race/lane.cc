// READs buckets and blocks and CASes slots of a RACE table; after an error, repeats that over a new
// connection.
#include "race/lane.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "common/base/probe.h"
#include "common/fabric/memory.h"

namespace loch::race {
constexpr std::uint32_t most_tries = 4;

void View::add(const Places& places, std::size_t i, std::uint32_t half, std::uint64_t subtable,
               const std::byte* bytes) {
  const Word header = fabric::load_word(bytes);
  // an even combined bucket begins with its main bucket, an odd one with the overflow bucket
  const bool is_overflow = (places.bucket[i] % group_bytes == 0) == (half == 1);
  headers[2 * i + half] = header;
  depth = std::min(depth, depth_of(header));
  // If both combined buckets share one overflow bucket, its slots are added once.
  if (is_overflow && i == 1 && places.bucket[0] / group_bytes == places.bucket[1] / group_bytes) return;
  const bool is_leaving = is_moving(header) && (places.suffix >> depth_of(header) & 1) != 0;
  for (std::uint32_t s = 1; s <= slots_per_bucket; ++s) {
    const Word word = fabric::load_word(bytes + 8ULL * s);
    const bool is_taken = !is_free(word) && (!is_frozen(word) || is_moving(header));
    const std::uint64_t offset = subtable + places.bucket[i] + half * bucket_bytes + 8ULL * s;
    slots[count++] = {offset, word, static_cast<std::uint8_t>(i), is_overflow, is_taken, is_leaving};
  }
}

double View::share_taken() const {
  return static_cast<double>(std::ranges::count(seen(), true, &Seen::is_taken)) / count;
}

const View::Seen* View::free_slot(bool as_published) const {
  std::array<std::uint32_t, 2> taken{};
  for (const Seen& each : seen()) taken[each.combined] += each.is_taken ? 1 : 0;
  const std::uint8_t first = taken[1] < taken[0] ? 1 : 0;
  // A free slot in which a DELETE left a block comes first: the INSERT gets that block in exchange for its
  // own.
  const auto rank = [&](const Seen& each) {
    if (as_published) return each.is_overflow ? 1 : 0;
    return (each.word == 0 || is_frozen(each.word) ? 4 : 0) + (each.combined == first ? 0 : 2) +
           (each.is_overflow ? 1 : 0);
  };
  const Seen* best = nullptr;
  for (const Seen& each : seen()) {
    if (!each.is_taken && !each.is_leaving && (best == nullptr || rank(each) < rank(*best))) best = &each;
  }
  return best;
}

void View::order_as_published() {
  std::ranges::sort(std::span(slots.data(), count), {}, [](const Seen& each) {
    return std::tuple(each.is_overflow, each.combined, each.offset);
  });
}

coro::Task<Ended> Lane::reconnect(fabric::NodeId peer) {
  ++own.counters.reconnects;
  const Nanos deadline = worker.now() + settings.reconnect_timeout;
  fabric::Fabric& fabric = store.fabric();
  LOCH_CO_TRY_OR(Ended::failed, rpc::restore(worker, fabric, own.table[peer], table_region, deadline));
  LOCH_CO_TRY_OR(Ended::failed, rpc::restore(worker, fabric, own.blocks[peer], blocks_region, deadline));
  co_return Ended::ok;
}

coro::Task<Ended> Lane::read(const rpc::Remote* from, std::uint64_t offset, fabric::LocalSlice into,
                             std::uint32_t bytes) {
  for (std::uint32_t tries = 0; tries < most_tries && !from->is_lost; ++tries) {
    if ((co_await worker.read(from->region, offset, into, bytes, stats)).ok()) co_return Ended::ok;
    LOCH_CO_TRY(reconnect(from->region.node));
  }
  co_return Ended::failed;
}

// Adds to `view` those halves of combined bucket `i`, as just read, that are the key's, and computes in which
// subtables the others are to be read. Returns false if a half was never initialised.
bool Lane::take_halves(std::size_t i) {
  const std::uint32_t suffix = view.next(i);
  for (std::uint32_t half = 0; half < 2; ++half) {
    if (view.where[i][half] != suffix) continue;
    const std::byte* bytes = buckets(i * combined_bytes + half * bucket_bytes).data();
    const Word header = fabric::load_word(bytes);
    if (!is_header_of(header, suffix)) return false;
    if (bits(places.suffix, 0, depth_of(header)) == suffix || settings.has("header-unread")) {
      view.where[i][half] = View::nowhere;
      view.add(places, i, half, settings.shape.subtable_bytes() * suffix, bytes);
    } else {
      // The keys of this half were split at the lowest bit in which the key's hash differs from the suffix.
      view.where[i][half] = bits(places.suffix, 0, std::countr_zero(places.suffix ^ suffix) + 1);
    }
  }
  return true;
}

// The request that READs a node's directory into the worker's buffer: twice as many entries as the worker
// knows of, because subtables may have been split since its last READ.
fabric::WorkRequest Lane::directory_request(fabric::NodeId peer) {
  const Shape& shape = settings.shape;
  const std::size_t known = std::max<std::size_t>(own.directory[peer].size(), shape.subtables());
  const auto words = static_cast<std::uint32_t>(std::min<std::size_t>(2 * known, 1ULL << shape.max_depth));
  return fabric::one_sided(fabric::Verb::read, own.table[peer].region, shape.directory_at(), directory,
                           8 * (1 + words), stats);
}

// Copies what the READ of a directory (directory_request()) fetched into the worker's own directory of the
// node.
void Lane::learn(const fabric::WorkRequest& request) {
  const std::byte* words = directory.data();
  std::vector<std::uint8_t>& known = own.directory[request.peer];
  ++own.counters.directory_reads;
  known.resize(std::max<std::size_t>(known.size(), 1ULL << fabric::load_word(words)), none);
  for (std::size_t i = 0; i < std::min<std::size_t>(known.size(), request.length / 8 - 1); ++i)
    known[i] = static_cast<std::uint8_t>(entry_depth(fabric::load_word(words + 8 * (i + 1))));
}

coro::Task<Ended> Lane::read_directory(fabric::NodeId peer) {
  for (std::size_t known = 0; known != own.directory[peer].size() || known == 0;) {
    known = own.directory[peer].size();
    const fabric::WorkRequest request = directory_request(peer);
    LOCH_CO_TRY(read(&own.table[peer], request.remote_offset, request.local, request.length));
    learn(request);
  }
  co_return Ended::ok;
}

coro::Task<Ended> Lane::look() {
  const rpc::Remote &table = own.table[places.node], &blocks = own.blocks[places.node];
  const std::uint32_t home = own.home(places);
  const std::uint32_t most_inline = std::min(worker.capabilities().max_inline_bytes, block_unit);
  view = {.where = {{{home, home}, {home, home}}}};
  for (std::uint32_t tries = 0, rounds = 0; tries < most_tries;) {
    if (table.is_lost || blocks.is_lost) co_return Ended::failed;
    std::array<fabric::WorkRequest, 4> chain;
    std::size_t count = 0;
    if (rounds > 0) {
      chain[count++] = directory_request(places.node);
    } else if (unwritten) {
      chain[count++] = fabric::one_sided(fabric::Verb::write, blocks.region, unwritten->number * block_unit,
                                         out, settings.block.bytes(), stats);
      chain[0].is_inline = settings.is_published && settings.block.bytes() <= most_inline;
    }
    for (std::size_t i = 0; i < 2; ++i) {
      if (view.next(i) == View::nowhere) continue;
      const std::uint64_t at = settings.shape.subtable_bytes() * view.next(i) + places.bucket[i];
      chain[count++] = fabric::one_sided(fabric::Verb::read, table.region, at, buckets(i * combined_bytes),
                                         combined_bytes, stats);
      if (stats != nullptr) ++stats->index_read;
    }
    for (std::size_t i = 0; i + 1 < count; ++i) chain[i].is_signaled = false;
    const fabric::WcStatus status = co_await worker.post_and_wait({chain.data(), count});
    if (status != fabric::WcStatus::success) {
      ++tries;
      LOCH_CO_TRY(reconnect(places.node));
      continue;
    }
    unwritten.reset();
    if (rounds++ > 0) learn(chain[0]);
    for (std::size_t i = 0; i < 2; ++i) {
      if (view.next(i) != View::nowhere && !take_halves(i)) co_return Ended::failed;
    }
    if (view.next(0) == View::nowhere && view.next(1) == View::nowhere) {
      if (!settings.is_pending_first) view.order_as_published();
      co_return Ended::ok;
    }
    LOCH_PROBE("race.bucket-has-moved");
  }
  LOCH_PROBE("race.look-tries-used-up");
  co_return Ended::failed;
}

coro::Task<Ended> Lane::fetch(fabric::NodeId peer, Word named_by, kv::Key key) {
  const BlockLayout& block = settings.block;
  const Entry entry = Entry::unpack(named_by);
  LOCH_CO_TRY(read(&own.blocks[peer], entry.block * block_unit, in, block.bytes()));
  co_await worker.compute(worker.costs().crc(block.bytes()) + worker.costs().compare(key.size));
  if (!block.read(in, scratch, &head) && !settings.has("checksum-unread")) {
    ++own.counters.torn_blocks;
    LOCH_PROBE("race.block-torn");
    co_return Ended::again;
  }
  if (settings.has_generation && head.generation != entry.generation &&
      !settings.has("no-block-generation")) {
    ++own.counters.other_generations;
    LOCH_PROBE("race.block-used-again");
    co_return Ended::again;
  }
  if (key.size == 0) co_return Ended::ok;
  const kv::Key stored = BlockLayout::key_in(scratch, head);
  if (std::equal(key.data, key.data + key.size, stored.data, stored.data + stored.size)) co_return Ended::ok;
  ++own.counters.false_fingerprints;
  co_return Ended::not_found;
}

coro::Task<Ended> Lane::read_word(Slot slot) {
  const fabric::LocalSlice into = buckets(2 * combined_bytes);  // behind the buckets that look() reads
  LOCH_CO_TRY(read(&own.table[slot.node], slot.offset, into, 8));
  word_read = fabric::load_word(into.data());
  co_return Ended::ok;
}

coro::Task<Ended> Lane::swap(Slot slot, Word before, Word after, Proof proof) {
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
    LOCH_CO_TRY_OR(Ended::unknown, reconnect(slot.node));
    LOCH_CO_TRY_OR(Ended::unknown, read_word(slot));
    if (word_read == before) continue;
    // If the slot holds `after` and that word names an entry, this CAS happened: the word has the block's
    // generation, so that only one operation writes it. Many operations may write the same word of a free
    // slot.
    if (word_read == after && !is_free(after)) {
      LOCH_PROBE("race.cas-had-happened");
      co_return Ended::ok;
    }
    if (proof == Proof::after_stays) co_return Ended::conflict;
    co_return proof == Proof::before_stays ? Ended::ok : Ended::unknown;
  }
  LOCH_PROBE("race.cas-tries-used-up");
  co_return Ended::unknown;
}

coro::Task<Ended> Lane::ensure(Slot slot, Word before, Word after) {
  const Ended ended = co_await swap(slot, before, after, Proof::before_stays);
  co_return ended == Ended::unknown ? Ended::failed : Ended::ok;
}

void Lane::leave(const Doubt& doubt) {
  LOCH_PROBE("race.left-in-doubt");
  ++own.counters.doubts;
  own.doubts.push_back(doubt);
}

}  // namespace loch::race
