// Fills a cuckoo or linear-probing table in local memory, and counts the slots that look-ups access.
#include "baselines/micro/lookup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/base/rng.h"
#include "common/cuckoo/placement.h"

namespace loch::micro {
namespace {

cuckoo::HashFamily family_of(const LookupSettings& settings, std::uint64_t keys) {
  const auto wanted = static_cast<std::uint64_t>(std::ceil(static_cast<double>(keys) / settings.fill));
  const std::uint32_t functions = settings.is_linear ? 1 : settings.functions;
  return cuckoo::HashFamily(
      {.nodes = 1, .slots_per_node = std::max<std::uint64_t>(wanted, functions), .functions = functions},
      sub_seed(settings.shape.seed, "micro-cuckoo"));
}

}  // namespace

std::vector<kv::OptionSpec> lookup_option_specs() {
  using kv::OptionType;
  return {
      {"micro-cuckoo.table",
       OptionType::choice,
       "cuckoo",
       "how keys are placed: common/cuckoo's table, or one hash function and the next free slot",
       {"cuckoo", "linear"}},
      {"micro-cuckoo.functions",
       OptionType::integer,
       "3",
       "hash functions of the cuckoo table, slots that a key can be in (Pilaf 2013, 3.4: 3)",
       {},
       2,
       cuckoo::max_functions},
      {"micro-cuckoo.fill",
       OptionType::real,
       "0.75",
       "share of the slots that the keys fill",
       {},
       0.01,
       0.99},
  };
}

Result<LookupSettings> decide_lookup(const kv::DeployConfig& shape, const kv::Options& options) {
  LookupSettings settings;
  settings.shape = shape;
  settings.is_linear = options.choice("micro-cuckoo.table") == "linear";
  settings.functions = static_cast<std::uint32_t>(options.integer("micro-cuckoo.functions"));
  settings.fill = options.real("micro-cuckoo.fill");
  if (shape.keys == 0 || shape.keys >= LookupTable::free_slot) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("keys: {}; expected 1 to {}", shape.keys, LookupTable::free_slot - 1));
  }
  return settings;
}

LookupTable::LookupTable(const LookupSettings& settings, const kv::Dataset& data)
    : is_linear_(settings.is_linear),
      key_size_(settings.shape.key_size),
      family_(family_of(settings, data.count())),
      keys_(data.count() * settings.shape.key_size),
      owners_(family_.shape().slots(), free_slot) {
  for (std::uint64_t i = 0; i < data.count(); ++i) data.key(i, keys_.data() + i * key_size_);
}

Result<std::unique_ptr<LookupTable>> LookupTable::build(const LookupSettings& settings,
                                                        const kv::Dataset& data) {
  std::unique_ptr<LookupTable> table(new LookupTable(settings, data));
  if (table->is_linear_) {
    table->insert_linearly();
  } else {
    LOCH_TRY(table->place_by_cuckoo());
  }
  return table;
}

void LookupTable::insert_linearly() {
  for (std::uint32_t record = 0; record < keys(); ++record) {
    cuckoo::KeyHash hash = family_.hash(key(record));
    std::uint64_t slot = hash.candidate(0).slot;
    while (owners_[slot] != free_slot)
      // the loop ends at a free slot, which exists because less than the whole table is filled
      slot = slot + 1 == slots() ? 0 : slot + 1;
    owners_[slot] = record;
  }
}

Result<> LookupTable::place_by_cuckoo() {
  const auto writer = [this](std::uint64_t i, std::byte* out) {
    std::memcpy(out, key(static_cast<std::uint32_t>(i)).data(), key_size_);
  };
  LOCH_ASSIGN(const cuckoo::Placement placement, cuckoo::plan_placement(family_, keys(), key_size_, writer));
  for (std::uint64_t slot = 0; slot < slots(); ++slot) owners_[slot] = placement.owner(slot);
  return {};
}

bool LookupTable::holds(std::uint64_t slot, std::span<const std::byte> wanted) const {
  return std::memcmp(key(owners_[slot]).data(), wanted.data(), key_size_) == 0;
}

LookupTable::Probes LookupTable::look_up(std::span<const std::byte> wanted) const {
  cuckoo::KeyHash hash = family_.hash(wanted);
  Probes probes;
  const std::uint64_t most = is_linear_ ? slots() : family_.shape().functions;
  std::uint64_t slot = hash.candidate(0).slot;
  while (probes.slots < most) {
    ++probes.slots;
    if (owners_[slot] == free_slot && is_linear_) break;
    if (owners_[slot] != free_slot && holds(slot, wanted)) {
      probes.record = owners_[slot];
      break;
    }
    if (probes.slots == most) break;
    if (is_linear_) {
      slot = slot + 1 == slots() ? 0 : slot + 1;
    } else {
      slot = hash.candidate(probes.slots).slot;
    }
  }
  probes.hashes = hash.known();
  return probes;
}

ProbeStats probes_of_all(const LookupTable& table) {
  std::map<std::uint32_t, std::uint64_t> keys_by_slots;
  for (std::uint32_t record = 0; record < table.keys(); ++record)
    ++keys_by_slots[table.look_up(table.key(record)).slots];
  ProbeStats stats;
  std::uint64_t seen = 0;
  for (const auto& [slots, keys] : keys_by_slots) {
    if (2 * seen < table.keys()) stats.median = slots;
    seen += keys;
    stats.mean += static_cast<double>(slots) * static_cast<double>(keys) / static_cast<double>(table.keys());
    stats.most = slots;
  }
  return stats;
}

class LookupClient final : public kv::Client {
 public:
  LookupClient(LookupStore& store, fabric::Worker& worker) : store_(store), worker_(worker) {}

  coro::Task<kv::OpResult> get(kv::Key key, fabric::OpStats* stats) override {
    co_return co_await look_up(key, stats);
  }
  coro::Task<kv::OpResult> put(kv::Key key, kv::ValueView /*value*/, fabric::OpStats* stats) override {
    co_return co_await look_up(key, stats);
  }
  coro::Task<kv::OpResult> remove(kv::Key key, fabric::OpStats* stats) override {
    co_return co_await look_up(key, stats);
  }

 private:
  coro::Task<kv::OpResult> look_up(kv::Key key, fabric::OpStats* stats) {
    const LookupTable::Probes probes = store_.table_->look_up({key.data, key.size});
    const fabric::CpuCosts& costs = worker_.costs();
    stats->local_accesses += probes.slots;
    co_await worker_.compute(costs.operation() + probes.hashes * costs.hash(key.size) +
                             probes.slots * (costs.memory() + costs.compare(key.size)));
    auto& outcome = probes.record ? store_.found_ : store_.missed_;
    outcome.fetch_add(1, std::memory_order_relaxed);
    co_return kv::OpResult{.status = probes.record ? kv::OpStatus::ok : kv::OpStatus::not_found, .value = {}};
  }

  LookupStore& store_;
  fabric::Worker& worker_;
};

Result<> LookupStore::preload(fabric::Fabric& /*fabric*/, const kv::Dataset& data) {
  LOCH_ASSIGN(table_, LookupTable::build(settings_, data));
  stats_ = probes_of_all(*table_);
  return {};
}

std::unique_ptr<kv::Client> LookupStore::client(fabric::Worker& worker, std::uint32_t /*slot*/) {
  return std::make_unique<LookupClient>(*this, worker);
}

std::map<std::string, double> LookupStore::counters() const {
  return {{"probes_mean", stats_.mean},
          {"probes_median", stats_.median},
          {"probes_max", stats_.most},
          {"slots", static_cast<double>(table_ == nullptr ? 0 : table_->slots())},
          {"found", static_cast<double>(found_)},
          {"missed", static_cast<double>(missed_)}};
}

}  // namespace loch::micro
