// Registers and fills the items of DrTM-em, and checks at the end of a run that no lock is held (atomics=cas)
// or that no addition was lost or executed twice (atomics=faa).
#include "drtm_em/store.h"

#include <algorithm>

#include "common/fabric/memory.h"
#include "common/kv/regions.h"
#include "drtm_em/client.h"

namespace loch::drtm {

Result<> DrtmStore::setup_node(fabric::Fabric& fabric, fabric::NodeId node) {
  const Settings& s = *settings_;
  const fabric::Elision elision = s.item.elision(s.config.kept_value_bytes);
  NodeState state;
  if (s.config.serves(node)) {
    LOCH_ASSIGN(state.items, kv::add_region(fabric, node, items_region, s.items_per_node() * s.item.bytes(),
                                            {.remote_read = true,
                                             .remote_write = s.fault == "adds-by-write",
                                             .remote_atomic = true,
                                             .elision = elision,
                                             .record_bytes = s.item.bytes()}));
  }
  if (s.config.drives(node)) {
    LOCH_ASSIGN(state.landing,
                kv::add_region(fabric, node, landing_region, std::uint64_t{s.lanes()} * s.item.bytes(),
                               {.elision = elision}));
    LOCH_ASSIGN(state.words, kv::add_region(fabric, node, words_region, std::uint64_t{s.lanes()} * 8));
    state.workers.resize(s.config.client_workers);
  }
  nodes_[node] = std::move(state);
  return {};
}

Result<> DrtmStore::connect(fabric::Fabric& fabric) {
  fabric_ = &fabric;
  LOCH_ASSIGN(items_, kv::look_up(fabric, settings_->config.serving_nodes(), items_region));
  return {};
}

// Each item is written by one thread, since a later record replaces an earlier one of the same item.
Result<> DrtmStore::preload(fabric::Fabric& fabric, const kv::Dataset& data) {
  const std::size_t threads = kv::preload_threads(fabric);
  return in_parallel(threads, threads, [&, this](std::size_t part) -> Result<> {
    preload_items(data, kv::part_of(settings_->items_per_node(), part, threads));
    return {};
  });
}

void DrtmStore::preload_items(const kv::Dataset& data, kv::Span numbers) {
  const ItemLayout& item = settings_->item;
  std::vector<std::byte> key(item.key_size());
  std::vector<std::byte> value(std::min(settings_->config.kept_value_bytes, item.value_size()));
  for (std::uint64_t i = 0; i < data.count(); ++i) {
    data.key(i, key.data());
    cuckoo::KeyHash hash = settings_->family.hash(key);
    const cuckoo::Place place = hash.candidate(0);
    const auto found = nodes_.find(static_cast<fabric::NodeId>(place.node));
    if (place.slot < numbers.first || place.slot >= numbers.end || found == nodes_.end()) continue;
    const std::uint64_t at = place.slot * item.bytes();
    fabric::Region& items = *found->second.items;
    data.value(i, value.data(), static_cast<std::uint32_t>(value.size()));
    fabric::copy_to_shared(items.at(at), key.data(), key.size());
    if (!value.empty()) fabric::copy_to_shared(items.at(at + item.value_at()), value.data(), value.size());
  }
}

std::unique_ptr<kv::Client> DrtmStore::client(fabric::Worker& worker, std::uint32_t slot) {
  NodeState& node = nodes_.at(worker.node());
  std::unique_ptr<WorkerState>& own = node.workers.at(worker.index());
  if (own == nullptr) {
    own = std::make_unique<WorkerState>(worker, settings_->posting);
    for (const fabric::RemoteRegion& region : items_)
      own->items.push_back({.region = region, .epoch = worker.epoch(region.node), .is_lost = false});
  }
  return std::make_unique<DrtmClient>(*this, worker, *own, slot);
}

bool DrtmStore::holds_every_item() const {
  for (std::uint32_t node = 0; node < settings_->config.serving_nodes(); ++node) {
    if (!nodes_.contains(static_cast<fabric::NodeId>(node))) return false;
  }
  return true;
}

// Counts violations of the store's rules when no operation is under way. With atomics=faa, the sum of all
// state words has to equal the number of additions. With atomics=cas, no item may be locked, except by
// clients whose atomics failed with an unknown effect.
std::uint64_t DrtmStore::violations_at_rest(const WorkerState::Counts& sum) const {
  const ItemLayout& item = settings_->item;
  std::uint64_t total = 0, held = 0;
  for (const auto& [node, state] : nodes_) {
    if (state.items == nullptr) continue;
    for (std::uint64_t slot = 0; slot < settings_->items_per_node(); ++slot) {
      const std::uint64_t word = fabric::load_word(state.items->at(slot * item.bytes() + item.state_at()));
      total += word;
      held += word != 0 ? 1 : 0;
    }
  }
  if (settings_->atomics == Atomics::cas) return held > sum.locks_left ? held - sum.locks_left : 0;
  if (total < sum.atomics_done) return sum.atomics_done - total;
  return total > sum.atomics_begun ? total - sum.atomics_begun : 0;
}

std::map<std::string, double> DrtmStore::counters() const {
  WorkerState::Counts sum;
  rpc::PostingCounts posted;
  bool has_lost_items = false;
  for (const auto& [node, state] : nodes_) {
    for (const auto& own : state.workers) {
      if (own == nullptr) continue;
      const WorkerState::Counts& c = own->counts;
      sum.other_keys += c.other_keys;
      sum.lock_conflicts += c.lock_conflicts;
      sum.locks_not_held += c.locks_not_held;
      sum.reconnects += c.reconnects;
      sum.atomics_begun += c.atomics_begun;
      sum.atomics_done += c.atomics_done;
      sum.locks_left += c.locks_left;
      posted.requests += own->lists.counts().requests;
      posted.lists += own->lists.counts().lists;
      posted.signaled += own->lists.counts().signaled;
      for (const rpc::Remote& items : own->items) has_lost_items |= items.is_lost;
    }
  }
  // The state words can be summed up only if all items are in this process's memory and none was lost.
  const bool is_whole = holds_every_item() && fabric_->ranks() == 1 && !has_lost_items;
  const std::uint64_t violations = sum.locks_not_held + (is_whole ? violations_at_rest(sum) : 0);
  const auto number = [](std::uint64_t n) { return static_cast<double>(n); };
  return {{"other_keys", number(sum.other_keys)},
          {"lock_conflicts", number(sum.lock_conflicts)},
          {"reconnects", number(sum.reconnects)},
          {"locks_left", number(sum.locks_left)},
          {"posted_requests", number(posted.requests)},
          {"posting_lists", number(posted.lists)},
          {"signaled_requests", number(posted.signaled)},
          {std::string(kv::violations_counter), number(violations)}};
}

}  // namespace loch::drtm
