// micro-cuckoo: look-ups in a hash table in local memory (common/cuckoo's table, or one with linear probing),
// with the number of slots that each look-up accesses. Nothing is sent over the fabric. The table stays as it
// was preloaded: PUTs and DELETEs only look up their key.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/cuckoo/hash_family.h"
#include "common/kv/further_loads.h"
#include "common/kv/protocol.h"

namespace loch::micro {

struct LookupSettings {
  kv::DeployConfig shape;
  bool is_linear = false;
  std::uint32_t functions = 3;  // number of hash functions of the cuckoo table; linear probing has one
  double fill = 0.75;
};
[[nodiscard]] std::vector<kv::OptionSpec> lookup_option_specs();
[[nodiscard]] Result<LookupSettings> decide_lookup(const kv::DeployConfig& shape, const kv::Options& options);

// The keys, and for each slot of the table the key that it holds. Immutable after build().
class LookupTable {
 public:
  static constexpr std::uint32_t free_slot = 0xFFFF'FFFF;
  struct Probes {
    std::uint32_t slots = 0, hashes = 0;
    std::optional<std::uint32_t> record;  // identifies the record found; nullopt if the key is absent
  };

  // Fails with `exhausted` if the keys do not fit into a table filled to settings.fill.
  [[nodiscard]] static Result<std::unique_ptr<LookupTable>> build(const LookupSettings& settings,
                                                                  const kv::Dataset& data);
  [[nodiscard]] Probes look_up(std::span<const std::byte> key) const;
  [[nodiscard]] std::uint64_t slots() const { return owners_.size(); }
  [[nodiscard]] std::uint64_t keys() const { return keys_.size() / key_size_; }
  [[nodiscard]] std::span<const std::byte> key(std::uint32_t record) const {
    return {keys_.data() + std::uint64_t{record} * key_size_, key_size_};
  }

 private:
  LookupTable(const LookupSettings& settings, const kv::Dataset& data);
  void insert_linearly();
  [[nodiscard]] Result<> place_by_cuckoo();
  [[nodiscard]] bool holds(std::uint64_t slot, std::span<const std::byte> key) const;

  bool is_linear_;
  std::uint32_t key_size_;
  cuckoo::HashFamily family_;
  std::vector<std::byte> keys_;
  std::vector<std::uint32_t> owners_;
};

// Statistics of the number of slots that look-ups of the present keys access.
struct ProbeStats {
  double mean = 0, median = 0, most = 0;
};
[[nodiscard]] ProbeStats probes_of_all(const LookupTable& table);

class LookupStore final : public kv::Store, public kv::FurtherLoads {
 public:
  explicit LookupStore(LookupSettings settings) : settings_(std::move(settings)) {}
  [[nodiscard]] Result<> setup_node(fabric::Fabric& /*fabric*/, fabric::NodeId /*node*/) override {
    return {};
  }
  [[nodiscard]] Result<> connect(fabric::Fabric& /*fabric*/) override { return {}; }
  // Builds one table with all records in each process.
  [[nodiscard]] Result<> preload(fabric::Fabric& fabric, const kv::Dataset& data) override;
  [[nodiscard]] coro::Task<void> serve(fabric::Worker& /*worker*/, std::uint32_t /*index*/) override {
    co_return;
  }
  [[nodiscard]] std::unique_ptr<kv::Client> client(fabric::Worker& worker, std::uint32_t slot) override;
  [[nodiscard]] std::string transport() const override { return "local memory"; }
  [[nodiscard]] std::map<std::string, double> counters() const override;
  [[nodiscard]] std::vector<std::string_view> levels() const override {
    return {"probes_mean", "probes_median", "probes_max", "slots"};
  }

 private:
  friend class LookupClient;
  LookupSettings settings_;
  std::unique_ptr<LookupTable> table_;
  ProbeStats stats_;
  std::atomic<std::uint64_t> found_ = 0, missed_ = 0;
};

}  // namespace loch::micro
