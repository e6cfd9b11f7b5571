// Data table entries: looking at them where they are, writing one's own, marking replaced ones.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "common/fabric/memory.h"
#include "nessie/session.h"

namespace loch::nessie {
namespace {

bool is_equal(const std::byte* shared, kv::Key key) {
  std::uint32_t at = 0;
  for (; at + 8 <= key.size; at += 8) {
    Word wanted;
    std::memcpy(&wanted, key.data + at, 8);
    if (fabric::load_word(shared + at) != wanted) return false;
  }
  std::array<std::byte, 8> rest{};
  fabric::copy_from_shared(rest.data(), shared + at, key.size - at);
  return std::memcmp(rest.data(), key.data + at, key.size - at) == 0;
}

}  // namespace

coro::Task<Session::Fetched> Session::read_entry(EntryId id, Extent extent) {
  const EntryLayout& entry = settings_.entry;
  const auto peer = static_cast<fabric::NodeId>(id.node);
  Fetched found;
  found.extent = extent;
  if (id.node >= own_.peers.size() || id.index >= settings_.entries_per_node) co_return found;
  const std::uint32_t length = extent == Extent::header ? entry.header_bytes() : entry.full_bytes();
  const std::uint64_t last_word = landing_base_ + length - 8;
  // Polling the last byte of more than one line needs lines that arrive in order (H19).
  const bool by_watermark =
      settings_.completion == CompletionBy::watermark &&
      (worker_.capabilities().in_order_placement || settings_.rules.polls_tail_unordered);
  for (int attempt = 0; attempt < 2 && !found.ok; ++attempt) {
    fabric::WorkRequest request;
    request.peer = peer;
    request.remote = own_.peers[peer].data;
    request.remote_offset = id.index * entry.stride();
    request.local = {node_.landing, landing_base_};
    request.length = length;
    request.stats = stats_;
    fabric::WcStatus status = fabric::WcStatus::success;
    if (by_watermark) {
      const fabric::WatchOutcome outcome = co_await post_watched(request, node_.landing, last_word);
      if (outcome != fabric::WatchOutcome::ready) {
        const fabric::WcStatus settled = co_await settle(outcome, peer);
        status = settled;
      }
    } else {
      const fabric::Completion done = co_await worker_.execute(request);
      status = done.status;
    }
    found.ok = status == fabric::WcStatus::success;
    if (!found.ok) {
      const bool is_back = co_await reconnect(peer);
      if (!is_back) break;
    }
  }
  found.region = node_.landing;
  found.offset = landing_base_;
  co_return found;
}

coro::Task<Session::Fetched> Session::fetch(Word word, Extent extent) {
  const EntryId id = settings_.format.entry(word);
  Fetched found;
  if (id.node == node_.node && id.index < settings_.entries_per_node) {
    found.ok = true;
    found.is_local = true;
    found.extent = Extent::full;  // all of it is here
    found.region = node_.data;
    found.offset = own_.table.offset(id.index);
    count_local();
  } else {
    const Fetched remote = co_await read_entry(id, extent);
    found = remote;
  }
  if (!found.ok) co_return found;
  const EntryLayout& entry = settings_.entry;
  found.meta = EntryMeta::unpack(fabric::load_word(found.region->at(found.offset + entry.meta_at())));
  found.prev = fabric::load_word(found.region->at(found.offset + entry.prev_at()));
  co_return found;
}

coro::Task<Session::Fetched> Session::fetch_for(Word word, Extent extent, kv::Key key) {
  Fetched found = co_await fetch(word, extent);
  if (!found.ok) co_return found;
  co_await worker_.compute(worker_.costs().compare(key.size));
  found.is_key = is_equal(found.region->at(found.offset), key);
  if (!found.is_key) ++own_.counters.false_filter_hits;
  co_return found;
}

// Key, previous version and value first, the meta word last (H20: a CAS that is posted later finds
// them in memory).
void Session::write_entry(const EntryId& id, EntryMeta meta, Word prev, kv::Key key, kv::ValueView value) {
  const EntryLayout& entry = settings_.entry;
  const std::uint64_t at = own_.table.offset(id.index);
  fabric::Region& data = *node_.data;
  fabric::copy_to_shared(data.at(at), key.data, key.size);
  fabric::store_word_release(data.at(at + entry.prev_at()), prev);
  fabric::store_word_release(data.at(at + entry.stamp_at()), 0);
  const auto present = static_cast<std::uint32_t>(
      data.kept(at + entry.value_at(), std::min({value.kept, value.size, entry.value_size()})));
  if (present != 0) fabric::copy_to_shared(data.at(at + entry.value_at()), value.data, present);
  fabric::store_word_release(data.at(at + entry.tail_at()), watermark_bit);
  meta.generation = static_cast<std::uint16_t>(id.generation);
  fabric::store_word_release(data.at(at + entry.meta_at()), meta.pack());
}

void Session::set_meta(const EntryId& id, const EntryMeta& meta) {
  EntryMeta stored = meta;
  stored.generation = static_cast<std::uint16_t>(id.generation);
  const std::uint64_t at = own_.table.offset(id.index) + settings_.entry.meta_at();
  fabric::store_word_release(node_.data->at(at), stored.pack());
  // A commit is visible everywhere before its operation returns (H20).
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

// One aligned word says "free after this time": a flag beside a timestamp could be seen before it.
coro::Task<void> Session::stamp(EntryId id, Nanos deadline) {
  const std::uint64_t at = id.index * settings_.entry.stride() + settings_.entry.stamp_at();
  if (id.node == node_.node) {
    fabric::store_word_release(node_.data->at(at), static_cast<Word>(deadline));
    ++own_.counters.stamps_local;
    co_return;
  }
  const auto peer = static_cast<fabric::NodeId>(id.node);
  const fabric::LocalSlice source{node_.words, word_at(lane_stamp)};
  for (int attempt = 0; attempt < 2; ++attempt) {
    fabric::store_word_release(node_.words->at(source.offset), static_cast<Word>(deadline));
    const fabric::Completion done = co_await worker_.write(own_.peers[peer].data, at, source, 8, stats_);
    if (done.ok()) {
      ++own_.counters.stamps_remote;
      co_return;
    }
    const bool is_back = co_await reconnect(peer);
    if (!is_back) break;
  }
  ++own_.counters.stamps_lost;  // the leak scan finds it
}

coro::Task<void> Session::recycle(EntryId id) {
  const Nanos deadline = worker_.node_clock() + settings_.expiry;
  // Beyond this many, the background is too slow and the operations help.
  constexpr std::size_t most_waiting = 256;
  const bool is_here = id.node == node_.node;
  if (!is_here && settings_.stamps_lazily && own_.unlinked.size() < most_waiting) {
    own_.unlinked.push_back({id, deadline});
    co_return;
  }
  co_await stamp(id, deadline);
}

coro::Task<void> Session::flush_stamps(std::size_t most) {
  for (std::size_t i = 0; i < most && !own_.unlinked.empty(); ++i) {
    const Unlinked next = own_.unlinked.front();
    own_.unlinked.pop_front();
    co_await stamp(next.id, next.deadline);
  }
}

coro::Task<void> Session::charge_scan() {
  const std::uint64_t scanned = own_.table.take_scanned();
  if (scanned == 0) co_return;
  co_await worker_.compute(static_cast<Nanos>(scanned) * worker_.costs().compare(8));
}

}  // namespace loch::nessie
