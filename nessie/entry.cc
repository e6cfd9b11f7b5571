// Reads data table entries, local or remote, and writes those of this node.
#include "nessie/entry.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "common/onesided/cached.h"
#include "nessie/arrival.h"
#include "nessie/reach.h"

namespace loch::nessie {
namespace {

// Handles a fetched entry that is not the one that the index word named. If the operation is older than the
// expiry period, the entry may have been reused, and the attempt expires. An operation younger than that has
// read memory that was lost, which is an error and not a miss (case A4 in docs/protocols/nessie.md).
void refuse_foreign(Access access, Word stored, Fetched* found) {
  found->ok = false;
  if (WordFormat::is_stored(stored)) {
    LOCH_PROBE("nessie.entry-written-anew");
    found->is_replaced = true;
    found->why = access.is_over_age() ? Attempt::expired : Attempt::link_error;
    return;
  }
  LOCH_PROBE("nessie.lost-value-met");
  ++access.own().counters.lost_values_met;
}

// Reads the meta word and the previous version of an entry that has been fetched, and refuses it if it is not
// the one that the word named.
void take_header(Access access, Word word, Fetched* found) {
  const Settings& settings = access.settings();
  const Word stored = fabric::load_word(found->region->at(found->offset + settings.entry.meta_at()));
  found->meta = EntryMeta::unpack(stored);
  found->prev = fabric::load_word(found->region->at(found->offset + settings.entry.prev_at()));
  const EntryId id = settings.format.entry(word);
  if (!is_of(settings.format, found->meta, stored, id) && !settings.rules.misses_lost_memory) [[unlikely]] {
    refuse_foreign(access, stored, found);
  }
}

EntryReading reading_of(Access access, Word word, Extent extent) {
  const EntryLayout& entry = access.settings().entry;
  const EntryId id = access.settings().format.entry(word);
  return {{.access = access, .peer = static_cast<fabric::NodeId>(id.node)},
          id.index * entry.stride(),
          extent == Extent::header ? entry.header_bytes() : entry.full_bytes()};
}

coro::Task<Fetched> fetch_entry(Access access, Word word, Extent extent, std::optional<kv::Key> key) {
  Fetched found = co_await EntryRequest(access, word, extent);
  if (found.is_unsettled) [[unlikely]] {
    const Fetched settled = co_await settle_entry(access, word, found);
    found = settled;
  }
  if (!found.ok || !key) co_return found;
  co_await access.worker().compute(access.worker().costs().compare(key->size));
  compare_key(access, *key, &found);
  co_return found;
}

}  // namespace

std::optional<fabric::WorkRequest> EntryReading::request() const {
  const Lane& lane = access.lane;
  return fabric::one_sided(fabric::Verb::read, lane.own.peers[peer].data, offset,
                           {lane.landing, lane.landing_base}, length, access.stats);
}

std::optional<onesided::Landing> EntryReading::landing() const {
  const Lane& lane = access.lane;
  const bool by_watermark =
      lane.settings.completion == CompletionBy::watermark &&
      (lane.worker.capabilities().in_order_reads || lane.settings.rules.polls_tail_unordered);
  return landing_at(lane, lane.landing, lane.landing_base + length - 8, by_watermark, lane.worker.now());
}

bool EntryRequest::await_ready() {
  const Settings& settings = access_.settings();
  Lane& lane = access_.lane;
  const EntryId id = settings.format.entry(word_);
  if (lane.own.has_losses && id.node < lane.own.peers.size()) [[unlikely]] {
    found_.is_gone = is_lost(lane, id);
    const bool has_lost_memory = lane.settings.is_remote() && lane.own.peers[id.node].is_gone;
    if (found_.is_gone || has_lost_memory) return true;
  }
  if (id.node == lane.node.node && id.index < settings.entries_per_node) {
    found_.ok = true;
    found_.is_local = true;
    found_.extent = Extent::full;  // local memory holds the whole entry
    found_.region = lane.node.data;
    found_.offset = lane.own.table.offset(id.index);
    access_.count_local();
    return true;
  }
  if (id.node >= lane.own.peers.size() || id.index >= settings.entries_per_node) return true;
  const EntryReading reading = reading_of(access_, word_, found_.extent);
  transfer_.emplace(lane.worker, *reading.request(), [&reading] { return reading.landing(); });
  return transfer_->await_ready();
}

Fetched EntryRequest::await_resume() {
  if (transfer_) {
    found_.ended = transfer_->await_resume();
    found_.ok = found_.ended.ok();
    found_.is_unsettled = !found_.ok;
    found_.region = access_.lane.landing;
    found_.offset = access_.lane.landing_base;
  }
  if (found_.ok) take_header(access_, word_, &found_);
  return found_;
}

coro::Task<Fetched> settle_entry(Access access, Word word, Fetched found) {
  const EntryReading reading = reading_of(access, word, found.extent);
  const bool has_come = co_await onesided::try_again(reading, found.ended);
  found.ok = has_come;
  found.is_unsettled = false;
  if (found.ok) take_header(access, word, &found);
  co_return found;
}

void compare_key(Access access, kv::Key key, Fetched* found) {
  found->is_key = onesided::is_key(found->region->at(found->offset), key);
  if (!found->is_key) ++access.own().counters.false_filter_hits;
}

coro::Task<Fetched> fetch(Access access, Word word, Extent extent) {
  return fetch_entry(access, word, extent, std::nullopt);
}

coro::Task<Fetched> fetch_for(Access access, Word word, Extent extent, kv::Key key) {
  return fetch_entry(access, word, extent, key);
}

void write_entry(Lane& lane, const EntryId& id, EntryMeta meta, Word prev, kv::Key key, kv::ValueView value) {
  const EntryLayout& entry = lane.settings.entry;
  const Holdings* const remote = lane.own.holdings.get();
  const std::uint64_t at = remote == nullptr ? lane.own.table.offset(id.index) : lane.landing_base;
  fabric::Region& data = remote == nullptr ? *lane.node.data : *lane.node.staging;
  fabric::copy_to_shared(data.at(at), key.data, key.size);
  fabric::store_word_release(data.at(at + entry.prev_at()), prev);
  fabric::store_word_release(data.at(at + entry.stamp_at()), 0);
  const auto present = static_cast<std::uint32_t>(
      data.kept(at + entry.value_at(), std::min({value.kept, value.size, entry.value_size()})));
  if (present != 0) fabric::copy_to_shared(data.at(at + entry.value_at()), value.data, present);
  fabric::store_word_release(data.at(at + entry.tail_at()), watermark_bit);
  meta.generation = static_cast<std::uint16_t>(id.generation);
  meta.incarnation = static_cast<std::uint8_t>(id.incarnation);
  if (remote != nullptr) meta.writer = remote->writer();
  fabric::store_word_release(data.at(at + entry.meta_at()), meta.pack());
}

void set_meta(Lane& lane, const EntryId& id, const EntryMeta& meta) {
  EntryMeta stored = meta;
  stored.generation = static_cast<std::uint16_t>(id.generation);
  stored.incarnation = static_cast<std::uint8_t>(id.incarnation);
  const std::uint64_t at = lane.own.table.offset(id.index) + lane.settings.entry.meta_at();
  fabric::store_word_release(lane.node.data->at(at), stored.pack());
  // The commit must be visible to all clients before the operation returns (stores before CASes, H20 in
  // docs/protocols/nessie.md).
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

coro::Task<void> charge_scan(Lane* lane) {
  const std::uint64_t scanned = lane->own.table.take_scanned();
  if (scanned == 0) co_return;
  co_await lane->worker.compute(static_cast<Nanos>(scanned) * lane->worker.costs().compare(8));
}

}  // namespace loch::nessie
