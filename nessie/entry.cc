// Data table entries: looking at them where they are, writing one's own, marking replaced ones.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "common/base/probe.h"
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
  if (id.node >= own_.peers.size() || id.index >= settings_.entries_per_node) {
    unreadable_ = Attempt::link_error;
    co_return found;
  }
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
  unreadable_ = Attempt::link_error;
  co_return found;
}

bool Session::is_of(const EntryMeta& meta, Word stored, const EntryId& id) const {
  if (!WordFormat::is_stored(stored)) return false;
  const bool is_same_life = !settings_.format.has_incarnation() || meta.incarnation == id.incarnation;
  return is_same_life && (!settings_.format.has_generation() || meta.generation == id.generation);
}

coro::Task<Session::Fetched> Session::fetch(Word word, Extent extent) {
  const EntryId id = settings_.format.entry(word);
  Fetched found;
  if (own_.has_losses && id.node < own_.peers.size() && is_lost(id)) [[unlikely]] {
    unreadable_ = Attempt::link_error;
    found.is_gone = true;
    co_return found;
  }
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
  const Word stored = fabric::load_word(found.region->at(found.offset + entry.meta_at()));
  found.meta = EntryMeta::unpack(stored);
  found.prev = fabric::load_word(found.region->at(found.offset + entry.prev_at()));
  if (!is_of(found.meta, stored, id) && !settings_.rules.misses_lost_memory) [[unlikely]] {
    refuse_foreign(stored, &found);
  }
  co_return found;
}

// What lies there is not what the word named. An operation older than E may meet an entry that was written
// anew; a younger one can only be looking at memory that was lost, and that is an error, not a miss (A4).
void Session::refuse_foreign(Word stored, Fetched* found) {
  found->ok = false;
  if (WordFormat::is_stored(stored)) {
    LOCH_PROBE("nessie.entry-written-anew");
    found->is_replaced = true;
    unreadable_ = is_over_age() ? Attempt::expired : Attempt::link_error;
    return;
  }
  LOCH_PROBE("nessie.lost-value-met");
  ++own_.counters.lost_values_met;
  unreadable_ = Attempt::link_error;
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
  meta.incarnation = static_cast<std::uint8_t>(id.incarnation);
  fabric::store_word_release(data.at(at + entry.meta_at()), meta.pack());
}

void Session::set_meta(const EntryId& id, const EntryMeta& meta) {
  EntryMeta stored = meta;
  stored.generation = static_cast<std::uint16_t>(id.generation);
  stored.incarnation = static_cast<std::uint8_t>(id.incarnation);
  const std::uint64_t at = own_.table.offset(id.index) + settings_.entry.meta_at();
  fabric::store_word_release(node_.data->at(at), stored.pack());
  // A commit is visible everywhere before its operation returns (H20).
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

// One aligned word says which incarnation is free, and after what time: a flag beside a timestamp could be
// seen before it, and a stamp that executes late, or twice, would mark whatever lies there by then (A2).
coro::Task<bool> Session::stamp(Unlinked unlinked) {
  const EntryId id = unlinked.id;
  if (is_lost(id)) co_return true;  // its memory is gone
  const std::uint64_t at = id.index * settings_.entry.stride() + settings_.entry.stamp_at();
  const Word word = Stamp{unlinked.deadline, unlinked.is_suspicion, id.generation, id.incarnation}.pack();
  if (id.node == node_.node) {
    fabric::store_word_release(node_.data->at(at), word);
    ++own_.counters.stamps_local;
    co_return true;
  }
  const auto peer = static_cast<fabric::NodeId>(id.node);
  const fabric::LocalSlice source{node_.words, word_at(lane_stamp)};
  for (int attempt = 0; attempt < 2; ++attempt) {
    fabric::store_word_release(node_.words->at(source.offset), word);
    const fabric::Completion done = co_await worker_.write(own_.peers[peer].data, at, source, 8, stats_);
    if (done.ok()) {
      ++own_.counters.stamps_remote;
      co_return true;
    }
    LOCH_PROBE("nessie.stamp-repeated");
    const bool is_back = co_await reconnect(peer);
    if (!is_back) break;
  }
  LOCH_PROBE("nessie.stamp-put-off");
  ++own_.counters.stamps_put_off;
  co_return false;
}

coro::Task<void> Session::recycle(EntryId id) {
  const Unlinked unlinked{id, worker_.node_clock() + settings_.expiry, false};
  co_await mark(unlinked);
}

coro::Task<void> Session::suspect(EntryId id) {
  ++own_.counters.suspicions;
  const Unlinked suspected{id, worker_.node_clock() + settings_.expiry, true};
  co_await mark(suspected);
}

coro::Task<void> Session::mark(Unlinked unlinked) {
  // Beyond this many, the background is too slow and the operations help; but a node that is out of reach
  // holds nobody up.
  constexpr std::size_t most_waiting = 256;
  const bool is_here = unlinked.id.node == node_.node;
  const bool is_connected = worker_.connected(static_cast<fabric::NodeId>(unlinked.id.node));
  const bool may_wait = settings_.stamps_lazily && !is_repairing_ && own_.unlinked.size() < most_waiting;
  if (!is_here && (may_wait || !is_connected)) {
    own_.unlinked.push_back(unlinked);
    co_return;
  }
  const bool is_marked = co_await stamp(unlinked);
  if (!is_marked) own_.unlinked.push_back(unlinked);
}

// Looks at up to `most` of those that wait; one whose node is out of reach goes back into the queue, and
// the node is not asked again for a while. Returns how many were marked.
coro::Task<std::size_t> Session::flush_stamps(std::size_t most) {
  std::size_t marked = 0;
  const std::size_t waiting = std::min(most, own_.unlinked.size());
  for (std::size_t i = 0; i < waiting && !own_.unlinked.empty(); ++i) {
    const Unlinked next = own_.unlinked.front();
    own_.unlinked.pop_front();
    Peer& peer = own_.peers[next.id.node];
    const bool is_out = !worker_.connected(static_cast<fabric::NodeId>(next.id.node));
    if (is_out && !is_lost(next.id) && worker_.now() < peer.not_before) {
      own_.unlinked.push_back(next);
      continue;
    }
    const bool is_marked = co_await stamp(next);
    if (is_marked) {
      ++marked;
      continue;
    }
    own_.unlinked.push_back(next);
    own_.peers[next.id.node].not_before = worker_.now() + settings_.reconnect_timeout;
  }
  co_return marked;
}

coro::Task<void> Session::charge_scan() {
  const std::uint64_t scanned = own_.table.take_scanned();
  if (scanned == 0) co_return;
  co_await worker_.compute(static_cast<Nanos>(scanned) * worker_.costs().compare(8));
}

}  // namespace loch::nessie
