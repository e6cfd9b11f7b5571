// Registers and fills the buckets of FaRM-em, and runs its server workers.
#include "farm_em/store.h"

#include <algorithm>

#include "common/fabric/memory.h"
#include "common/kv/preloading.h"
#include "common/kv/regions.h"
#include "farm_em/client.h"

namespace loch::farm {

FarmStore::FarmStore(std::unique_ptr<const Settings> settings)
    : settings_(std::move(settings)),
      puts_(settings_->puts == Puts::published ? make_published_puts(*settings_)
                                               : make_numbered_puts(*settings_)),
      index_name_(settings_->region("index")),
      values_name_(settings_->region("values")) {}

Result<> FarmStore::setup_node(fabric::Fabric& fabric, fabric::NodeId node) {
  const Settings& s = *settings_;
  const std::uint32_t kept = s.config.kept_value_bytes;
  const bool has_values = s.layout.form() == Form::variable;
  NodeState state;
  const auto add = [&](const std::string& name, std::uint64_t bytes, const fabric::Elision& elision,
                       bool is_read, std::uint64_t record_bytes = 0) {
    return fabric.register_region(node, {.name = name,
                                         .bytes = bytes,
                                         .remote_read = is_read,
                                         .elision = elision,
                                         .record_bytes = record_bytes});
  };
  if (s.config.serves(node)) {
    LOCH_ASSIGN(state.index, add(index_name_, s.index_bytes(), s.layout.bucket_elision(kept), true,
                                 s.layout.bucket_bytes()));
    if (has_values) {
      LOCH_ASSIGN(state.values, add(values_name_, s.values_per_node() * s.layout.value_size(),
                                    s.layout.value_elision(kept), true, s.layout.value_size()));
    }
  }
  if (s.config.drives(node)) {
    LOCH_ASSIGN(state.landing,
                add(s.region("landing"), std::uint64_t{s.lanes()} * s.layout.neighbourhood_bytes(),
                    s.layout.bucket_elision(kept), false));
    if (has_values) {
      LOCH_ASSIGN(state.landing_values,
                  add(s.region("landing-values"), std::uint64_t{s.lanes()} * s.layout.value_size(),
                      s.layout.value_elision(kept), false));
    }
    state.workers.resize(s.config.client_workers);
  }
  nodes_[node] = std::move(state);
  return puts_->setup_node(fabric, node);
}

Result<> FarmStore::connect(fabric::Fabric& fabric) {
  fabric_ = &fabric;
  const std::uint32_t serving = settings_->config.serving_nodes();
  LOCH_ASSIGN(index_, kv::look_up(fabric, serving, index_name_));
  if (settings_->layout.form() == Form::variable) {
    LOCH_ASSIGN(values_, kv::look_up(fabric, serving, values_name_));
  }
  return puts_->connect(fabric);
}

// Each node's buckets are filled by one thread, in the order of the records' numbers.
Result<> FarmStore::preload(fabric::Fabric& fabric, const kv::Dataset& data) {
  const std::size_t threads = kv::preload_threads(fabric);
  return in_parallel(threads, threads, [&, this](std::size_t part) -> Result<> {
    preload_nodes(data, part, threads);
    return {};
  });
}

// Fills those nodes of this process whose number modulo `parts` is `part`. Puts each key into the first free
// one of its six buckets. If none is free, it overwrites the home bucket, so that GETs of the overwritten key
// will not find it.
void FarmStore::preload_nodes(const kv::Dataset& data, std::size_t part, std::size_t parts) {
  const Layout& layout = settings_->layout;
  std::vector<std::byte> key(layout.key_size());
  std::vector<std::byte> value(std::min(settings_->config.kept_value_bytes, layout.value_size()));
  std::map<fabric::NodeId, std::vector<bool>> taken;
  for (auto& [node, state] : nodes_) {
    if (state.index != nullptr && node % parts == part) taken[node].resize(settings_->values_per_node());
  }
  for (std::uint64_t i = 0; i < data.count(); ++i) {
    data.key(i, key.data());
    cuckoo::KeyHash hash = settings_->family.hash(key);
    const cuckoo::Place home = hash.candidate(0);
    const auto node = static_cast<fabric::NodeId>(home.node);
    if (!taken.contains(node)) continue;
    std::vector<bool>& used = taken[node];
    std::uint64_t slot = home.slot;
    while (slot < home.slot + neighbourhood && used[slot]) ++slot;
    if (slot == home.slot + neighbourhood) slot = home.slot;
    used[slot] = true;
    const NodeState& state = nodes_.at(node);
    std::byte* bucket = state.index->at(slot * layout.bucket_bytes());
    fabric::copy_to_shared(bucket, key.data(), key.size());
    data.value(i, value.data(), static_cast<std::uint32_t>(value.size()));
    if (layout.form() == Form::inlined) {
      fabric::copy_to_shared(bucket + key.size(), value.data(), value.size());
      continue;
    }
    fabric::copy_to_shared(bucket + key.size(), &slot, pointer_bytes);
    fabric::copy_to_shared(state.values->at(slot * layout.value_size()), value.data(), value.size());
  }
}

coro::Task<void> FarmStore::serve(fabric::Worker& worker, std::uint32_t index) {
  return puts_->serve(worker, index);
}

std::unique_ptr<kv::Client> FarmStore::client(fabric::Worker& worker, std::uint32_t slot) {
  std::unique_ptr<WorkerState>& own = nodes_.at(worker.node()).workers.at(worker.index());
  if (own == nullptr) {
    own = std::make_unique<WorkerState>(worker, settings_->posting);
    const auto reached = [&](const fabric::RemoteRegion& region) {
      return rpc::Remote{.region = region, .epoch = worker.epoch(region.node), .is_lost = false};
    };
    for (const fabric::RemoteRegion& region : index_) own->index.push_back(reached(region));
    for (const fabric::RemoteRegion& region : values_) own->values.push_back(reached(region));
  }
  Putter& putter = puts_->putter(worker, slot);
  return std::make_unique<FarmClient>(*this, worker, *own, putter, slot);
}

std::map<std::string, double> FarmStore::counters() const {
  std::map<std::string, double> all;
  for (const auto& [node, state] : nodes_) {
    for (const auto& own : state.workers) {
      if (own == nullptr) continue;
      all["absent_keys"] += static_cast<double>(own->absent_keys);
      all["reconnects"] += static_cast<double>(own->reconnects);
      all["posted_reads"] += static_cast<double>(own->lists.counts().requests);
      all["signaled_reads"] += static_cast<double>(own->lists.counts().signaled);
    }
  }
  puts_->add_counters(all);
  return all;
}

}  // namespace loch::farm
