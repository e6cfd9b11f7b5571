// Registers race (RACE hashing): its options and the sizes that follow from them, requirements, promises
// after failures, and the fixes and holes (known faults) of its variants.
#include "race/module.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "common/kv/checks.h"
#include "common/kv/spare.h"
#include "common/kv/usual_options.h"
#include "race/store.h"

namespace loch::race {
namespace {

using kv::refuse;

Result<> check(const kv::DeployConfig& config, const kv::Options& options) {
  LOCH_TRY(kv::check_clients("race", config));
  LOCH_TRY(kv::check_preload(config));
  constexpr std::uint32_t most_units = 255;
  const BlockLayout block{config.key_size, config.value_size};
  if (config.value_size == 0 || config.value_size > most_units * block_unit || block.units() > most_units)
    return refuse(
        "value-size: {} bytes with keys of {} do not fit the 255 units of 64 bytes that a "
        "slot's word can name; expected a block of at most 16320 bytes",
        config.value_size, config.key_size);
  LOCH_TRY(chunks::check_servers("race", config, options));
  LOCH_TRY(kv::check_backoff("race", options));
  const bool is_published = options.choice("race.variant") == "published";
  const std::int64_t smaller = options.integer("race.begin-smaller"), most = options.integer("race.growth");
  for (const char* key : {"race.growth", "race.begin-smaller"}) {
    if (is_published && options.is_given(key) && options.integer(key) > 0)
      return refuse("{}: the published variant cannot split; expected 0", key);
  }
  if (smaller > most)
    return refuse(
        "race.begin-smaller: {} splits are due, and a subtable can be split {} times; expected at "
        "most race.growth",
        smaller, most);
  if (options.real("race.split-share") < 1 && (is_published || most == 0))
    return refuse("race.split-share: the table cannot split; expected 1, or race.growth of at least 1");
  for (const char* key : {"race.mend-r2", "race.mend-r5", "race.reuse"}) {
    if (!is_published && options.boolean(key))
      return refuse("{}: changes the published variant; expected race.variant published alongside", key);
  }
  if (options.is_given("race.spare-limit") && (!is_published || options.boolean("race.reuse")))
    return refuse(
        "race.spare-limit: bounds blocks that are never used again; expected race.variant published "
        "alongside, "
        "without race.reuse");
  return {};
}

Shape choose_shape(const kv::DeployConfig& config, const kv::Options& options) {
  const double keys =
      static_cast<double>(std::max<std::uint64_t>(config.max_keys, 1)) / config.serving_nodes();
  const double slots = std::ceil(keys / options.real("race.load-factor"));
  const double size = std::exp2(static_cast<double>(options.integer("race.begin-smaller"))) * slots_per_group;
  const auto groups = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(slots / size)));
  // There are never more subtables than groups of buckets.
  const std::uint32_t most = std::bit_width(groups) - 1;
  const std::uint32_t depth = std::min(static_cast<std::uint32_t>(options.integer("race.depth")), most);
  const bool is_published = options.choice("race.variant") == "published";
  const std::int64_t growth = is_published ? 0 : options.integer("race.growth");
  return {.nodes = config.serving_nodes(),
          .depth = depth,
          .max_depth = depth + static_cast<std::uint32_t>(growth),
          .groups = (groups + (1U << depth) - 1) >> depth,
          .has_correlated_hashes = is_published};
}

// Number of blocks that each client worker begins with on each node: for the keys that it inserts, and a
// reserve, because replaced blocks become free only later. If replaced blocks are never reused: one for each
// PUT that the load may make, as far as memory allows.
std::uint64_t blocks_per_client(const Settings& s, const kv::Options& options) {
  const kv::DeployConfig& config = s.config;
  const double clients = s.clients(), nodes = config.serving_nodes();
  const auto inserted = static_cast<double>(config.max_keys - config.keys);
  // One client may insert most of the new keys; but if there are many new keys, no client inserts them all.
  const double own = std::max(2 * inserted / nodes / clients, std::min(inserted, 64.0));
  auto spare = static_cast<double>(options.integer("race.spare-blocks"));
  // Room for two chunks (runs of blocks): a client may leave one almost unused, and requests one ahead of
  // need.
  if (chunks::managers(options) != 0)
    spare = std::max(spare, 2 * static_cast<double>(options.integer("race.chunk-blocks")));
  if (!s.frees_blocks) {
    const kv::SpareNeed need{.lanes = static_cast<double>(config.window),
                             .puts_per_ns_max = 1,
                             .reuse_after = config.load_time,
                             .entry_bytes = s.block.elision().physical_bytes(s.block.bytes()),
                             .limit_bytes = static_cast<std::uint64_t>(
                                 static_cast<double>(options.integer("race.spare-limit")) / clients)};
    spare = std::max(spare, kv::spare_for_load(config, need));
  }
  return static_cast<std::uint64_t>(spare + std::ceil(own)) + config.window;
}

std::vector<kv::OptionSpec> option_specs() {
  using kv::OptionRole;
  using kv::with, kv::from, settings::of;
  using enum kv::OptionType;
  std::vector<kv::OptionSpec> all = {
      settings::choice("race.variant", {"hardened", "published"}, "rules: fixed, or as in SMART's artifact"),
      kv::fix_option("race", "r2",
                     "an INSERT shows a pending entry, reads again, and commits it if it is alone"),
      kv::fix_option("race", "r5", "word and block have a generation, which readers compare"),
      from("the 2021 paper; SMART's artifact frees none",
           of(boolean, "race.reuse", "false", "published: a block that left the table is used again")),
      with({"0", "1", "2"},
           of(integer, "race.depth", "8", "log2 of the number of subtables, at most", 0, 16)),
      with(OptionRole::load_factor,
           of(real, "race.load-factor", "0.3", "share of the slots that the largest number of keys fills",
              0.001, 0.9)),
      with({"0", "1", "3"}, of(integer, "race.growth", "2",
                               "how many times a subtable can be split; 0: the table is fixed", 0, 8)),
      of(integer, "race.begin-smaller", "0",
         "splits of each subtable that the largest number of keys will need: the table begins 2^this times "
         "smaller",
         0, 8),
      with({"0.05", "0.1", "0.2"},
           of(real, "race.split-share", "1",
              "an INSERT that sees this share of its slots taken splits the subtable", 0.05, 1)),
      with(OptionRole::spare_entries, of(integer, "race.spare-blocks", "1024",
                                         "blocks of each node that a client worker begins with", 1, 1e9)),
      of(size, "race.spare-limit", "256M",
         "memory a node for blocks beyond its keys where none is used again; 0: race.spare-blocks alone", 0,
         1e12),
      of(duration, "race.put-cpu", "0ns",
         "CPU time of a PUT beside the profile's costs, as SMART's artifact takes (spun where it is real)", 0,
         1e9),
      kv::attempts_option("race"),
      kv::backoff_start_option("race"),
      kv::backoff_cap_option("race", "100us"),
      kv::reconnect_timeout_option("race"),
      with(OptionRole::background_period,
           of(duration, "race.settle-interval", "1ms",
              "pause between two tries to settle CASes of unknown outcome", 1e3, 1e12)),
      of(duration, "race.settle-timeout", "200ms", "how long that is tried after the end of the load", 1,
         1e12),
  };
  chunks::add_options(all, "race");
  return all;
}

class RaceModule final : public kv::Module {
 public:
  [[nodiscard]] std::string_view name() const override { return "race"; }
  [[nodiscard]] std::string_view summary() const override {
    return "client-driven hash table for memory nodes: GET by READs of two buckets and a block, PUT by WRITE "
           "and CAS";
  }
  [[nodiscard]] std::string_view paper() const override {
    return "Zuo et al., One-sided RDMA-Conscious Extendible Hashing for Disaggregated Memory, USENIX ATC "
           "2021";
  }
  [[nodiscard]] std::vector<kv::OptionSpec> options() const override { return option_specs(); }
  [[nodiscard]] kv::Consistency consistency(const kv::Options& /*options*/) const override {
    // The published variant is checked for linearizability too, although its holes (known faults) violate it.
    return kv::Consistency::linearizable;
  }
  [[nodiscard]] kv::DataSupport data(const kv::Options& options) const override {
    return kv::insert_by_put(options.choice("race.variant") == "hardened",
                             "its published INSERT does not know whether the key is there (R4)");
  }
  [[nodiscard]] fabric::Requirements requirements(const kv::Options& options) const override {
    return {.rc = true,
            .atomic_scope = fabric::AtomicScope::nic,
            .untorn_bytes = 8,
            .max_rd_atomic = 1,
            .receives_rc = chunks::managers(options) != 0};
  }
  [[nodiscard]] kv::Promise promise(kv::Loss loss, const kv::Options& options) const override {
    if (options.choice("race.variant") != "hardened") return kv::Promise::unavailable;
    if (loss == kv::Loss::client_killed) return kv::Promise::after_scrub;
    // No entry has a replica, and the paper does not treat lost memory. Without a management worker, a client
    // that has used up its blocks gets no new ones.
    const bool is_hit =
        loss == kv::Loss::memory_lost || (loss == kv::Loss::server_killed && chunks::managers(options) != 0);
    return is_hit ? kv::Promise::unavailable : kv::Promise::serves;
  }
  [[nodiscard]] std::map<std::string, kv::Mutant> mutants() const override { return Flaw::mutants(); }
  [[nodiscard]] std::vector<kv::Fix> fixes(const kv::Options& options) const override {
    if (options.choice("race.variant") != "published") return {};
    std::vector<kv::Fix> all = {
        {"R2",
         "two entries of a key are visible at once: a value comes back, or a key that is there is missed",
         "race.mend-r2"},
        {"R5", "a block that is used again is taken for the one that a word named", "race.mend-r5"}};
    if (!options.boolean("race.reuse")) all.pop_back();
    std::erase_if(all, [&](const kv::Fix& fix) { return options.boolean(fix.option); });
    return all;
  }
  [[nodiscard]] std::vector<kv::Hole> holes() const override {
    return kv::single_holes(*this, {{"race.variant", "published"}, {"race.reuse", "true"}},
                            {{"R2", 16}, {"R5", 148}});
  }
  [[nodiscard]] Result<std::unique_ptr<kv::Store>> deploy(const kv::DeployConfig& config,
                                                          const kv::Options& options,
                                                          std::string_view mutant) const override {
    LOCH_TRY(check(config, options));
    LOCH_ASSIGN(const Flaw flaw, Flaw::named("race", mutant));
    const bool is_hardened = options.choice("race.variant") == "hardened";
    Settings s{
        .config = config,
        .flaw = flaw,
        .is_pending_first = is_hardened || options.boolean("race.mend-r2"),
        .has_generation = (is_hardened || options.boolean("race.mend-r5")) && flaw != "no-generation",
        .frees_blocks = is_hardened || options.boolean("race.reuse"),
        .is_published = !is_hardened,
        .shape = choose_shape(config, options),
        .block = {config.key_size, config.value_size, std::min(config.value_size, config.kept_value_bytes)},
        .put_cpu = options.integer("race.put-cpu"),
        .attempts = static_cast<std::uint32_t>(options.integer("race.attempts")),
        .split_share = options.real("race.split-share"),
        .backoff_start = options.integer("race.backoff-start"),
        .backoff_cap = options.integer("race.backoff-cap"),
        .reconnect_timeout = options.integer("race.reconnect-timeout"),
        .settle_interval = options.integer("race.settle-interval"),
        .settle_timeout = options.integer("race.settle-timeout")};
    // Keys are assigned to nodes by their hash, so that a node may get somewhat more than its share.
    const double mean = static_cast<double>(config.keys) / config.serving_nodes();
    const double more = config.serving_nodes() == 1 ? 0 : 8 * std::sqrt(mean) + 8;
    // one block more than records, because no slot names block 0
    s.preload_blocks = 1 + static_cast<std::uint64_t>(std::ceil(mean + more));
    s.client_blocks = blocks_per_client(s, options);
    const std::uint64_t all = s.blocks_per_node();
    s.chunks = chunks::plan_chunks("race", config, options, s.preload_blocks, all - s.preload_blocks);
    if (s.chunks && s.has("chunk-given-twice")) s.chunks->flaw = chunks::Flaw::repeated_is_free;
    if (all * s.block.units() >= std::uint64_t{1} << 34)
      return refuse("keys: more blocks than the 34 bits of a slot's word can name");
    LOCH_TRY(kv::check_memory(
        config, s.shape.table_bytes() + s.block.elision().physical_bytes(all * s.block.bytes())));
    return std::make_unique<RaceStore>(std::move(s));
  }
};

}  // namespace

std::unique_ptr<kv::Module> make_module() { return std::make_unique<RaceModule>(); }

void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules) { modules.push_back(make_module()); }

}  // namespace loch::race
