// Derives and checks the options and sizes of RACE hashing, and lists its known-bad variants.
#include "race/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/kv/checks.h"
#include "common/kv/spare.h"
#include "common/kv/usual_options.h"
#include "common/kv/variants.h"

namespace loch::race {
namespace {

using kv::refuse;

const std::vector<kv::NamedFlaw<Flaw>>& flaws() {
  using enum Flaw;
  static const std::vector<kv::NamedFlaw<Flaw>> all = {
      {"no-second-read", no_second_read, {"an INSERT commits without a second read (R2)", 13}},
      {"skips-pending", skips_pending, {"the second read looks for committed entries alone", 2}},
      {"get-sees-pending", get_sees_pending, {"a GET returns the value of a pending entry", 2}},
      {"no-block-generation", no_block_generation, {"a block's generation is not compared (R5)", 44}},
      {"no-generation", no_generation, {"words of a block that is used again are alike (R6)", 44}},
      {"checksum-unread", checksum_unread, {"a torn block is read as it is", 0, "explore_suite_test"}},
      {"link-error-frees", link_error_frees, {"a block whose link ended in an error is free (R16)", 276}},
      {"update-error-fails", update_error_fails, {"an UPDATE that ended in an error is not done (R16)", 147}},
      {"scrub-clears-all", scrub_clears_all, {"a scrub takes away what living clients insert", 140}},
      {"header-unread", header_unread, {"a key is looked for where the directory says (R12)", 10}},
      {"own-slot-unchecked", own_slot_unchecked, {"an INSERT commits in a bucket that has moved (R8)", 187}},
      {"inserts-while-moving", inserts_while_moving, {"an INSERT commits where a split has looked", 187}},
      {"moves-unfrozen", moves_unfrozen, {"a split copies words that others change (R9)", 15}},
      {"header-after-read", header_after_read, {"a split looks before its header is seen (R8)", 45}},
      {"chunk-given-twice",
       chunk_given_twice,
       {"a chunk whose ALLOC is repeated is another client's too", 0, "chunks_test"}},
  };
  return all;
}

Result<> check_config(const kv::DeployConfig& config) {
  LOCH_TRY(kv::check_clients("race", config));
  LOCH_TRY(kv::check_preload(config));
  constexpr std::uint32_t most_units = 255;
  const BlockLayout block(config.key_size, config.value_size, config.kept_value_bytes);
  if (config.value_size == 0 || config.value_size > most_units * block_unit || block.units() > most_units) {
    return refuse(
        fmt::format("value-size: {} bytes with keys of {} do not fit the 255 units of 64 bytes that a "
                    "slot's word can name; expected a block of at most 16320 bytes",
                    config.value_size, config.key_size));
  }
  return {};
}

Result<> check_growth(const kv::Options& options) {
  const std::int64_t smaller = options.integer("race.begin-smaller");
  if (smaller > 0 && options.choice("race.variant") == "published")
    return refuse("race.begin-smaller: the published variant cannot split; expected 0");
  if (smaller > options.integer("race.growth")) {
    return refuse(fmt::format(
        "race.begin-smaller: {} splits are due, and a subtable can be split {} times; expected at "
        "most race.growth",
        smaller, options.integer("race.growth")));
  }
  return {};
}

Result<Rules> choose_rules(const kv::Options& options, std::string_view mutant) {
  Rules rules;
  const bool is_published = options.choice("race.variant") == "published";
  for (const char* key : {"race.mend-r2", "race.mend-r5", "race.reuse"}) {
    if (!is_published && options.boolean(key))
      return refuse(
          fmt::format("{}: changes the published variant; expected race.variant published alongside", key));
  }
  if (is_published) {
    rules.is_pending_first = options.boolean("race.mend-r2");
    rules.has_word_generation = rules.has_block_generation = options.boolean("race.mend-r5");
    rules.frees_blocks = options.boolean("race.reuse");
    rules.parks_blocks = false;
  }
  LOCH_ASSIGN(rules.flaw, kv::flaw_of("race", mutant, flaws()));
  if (rules.flaw == Flaw::no_block_generation) rules.has_block_generation = false;
  if (rules.flaw == Flaw::no_generation) rules.has_block_generation = rules.has_word_generation = false;
  return rules;
}

Shape choose_shape(const kv::DeployConfig& config, const kv::Options& options) {
  const double keys =
      static_cast<double>(std::max<std::uint64_t>(config.max_keys, 1)) / config.serving_nodes();
  const double slots = std::ceil(keys / options.real("race.load-factor"));
  const double size = std::exp2(static_cast<double>(options.integer("race.begin-smaller"))) * slots_per_group;
  const auto groups = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(slots / size)));
  Shape shape{.nodes = config.serving_nodes()};
  shape.has_correlated_hashes = options.choice("race.variant") == "published";
  // There are never more subtables than groups of buckets.
  const auto most = static_cast<std::uint32_t>(std::bit_width(groups) - 1);
  shape.depth = std::min(static_cast<std::uint32_t>(options.integer("race.depth")), most);
  shape.groups = (groups + shape.subtables() - 1) / shape.subtables();
  shape.max_depth = shape.depth;
  if (!shape.has_correlated_hashes)
    shape.max_depth += static_cast<std::uint32_t>(options.integer("race.growth"));
  return shape;
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
  if (!s.rules.frees_blocks) {
    const kv::SpareNeed need{
        .lanes = static_cast<double>(config.window),
        .puts_per_ns_max = 1,
        .reuse_after = config.load_time,
        .entry_bytes = std::max<std::uint64_t>(1, s.block.elision().physical_bytes(s.block.bytes())),
        .limit_bytes =
            static_cast<std::uint64_t>(static_cast<double>(options.integer("race.spare-limit")) / clients)};
    spare = std::max(spare, kv::spare_for_load(config, need));
  }
  return static_cast<std::uint64_t>(spare + std::ceil(own)) + config.window;
}

}  // namespace

std::vector<kv::OptionSpec> option_specs() {
  using kv::OptionRole, settings::of;
  using enum kv::OptionType;
  kv::OptionSpec limit = kv::spare_limit_option("race");
  limit.help =
      "memory a node for blocks beyond its keys where none is used again; 0: race.spare-blocks alone";
  kv::OptionSpec reuse =
      of(boolean, "race.reuse", "false", "published: a block that left the table is used again");
  reuse.source = "the 2021 paper; SMART's artifact frees none";
  std::vector<kv::OptionSpec> all = {
      settings::choice("race.variant", {"hardened", "published"}, "rules: fixed, or as in SMART's artifact"),
      kv::fix_option("race", "r2",
                     "an INSERT shows a pending entry, reads again, and commits it if it is alone"),
      kv::fix_option("race", "r5", "word and block have a generation, which readers compare"),
      reuse,
      kv::with(of(integer, "race.depth", "8", "log2 of the number of subtables, at most", 0, 16),
               OptionRole::none, {"0", "1", "2"}),
      kv::with(of(real, "race.load-factor", "0.3", "share of the slots that the largest number of keys fills",
                  0.001, 0.9),
               OptionRole::load_factor),
      kv::with(of(integer, "race.growth", "2",
                  "how many times a subtable can be split; 0: the table is fixed", 0, 8),
               OptionRole::none, {"0", "1", "3"}),
      of(integer, "race.begin-smaller", "0",
         "splits of each subtable that the largest number of keys will need: the table begins 2^this times "
         "smaller",
         0, 8),
      kv::with(of(real, "race.split-share", "1",
                  "an INSERT that sees this share of its slots taken splits the subtable", 0.05, 1),
               OptionRole::none, {"0.05", "0.1", "0.2"}),
      kv::with(of(integer, "race.spare-blocks", "1024",
                  "blocks of each node that a client worker begins with", 1, 1e9),
               OptionRole::spare_entries),
      limit,
      of(duration, "race.put-cpu", "0ns",
         "CPU time of a PUT beside the profile's costs, as SMART's artifact takes (spun where it is real)", 0,
         1e9),
      kv::attempts_option("race"),
      kv::backoff_start_option("race"),
      kv::backoff_cap_option("race", "100us"),
      kv::reconnect_timeout_option("race"),
      kv::with(of(duration, "race.settle-interval", "1ms",
                  "pause between two tries to settle CASes of unknown outcome", 1e3, 1e12),
               OptionRole::background_period),
      of(duration, "race.settle-timeout", "200ms", "how long that is tried after the end of the load", 1,
         1e12),
  };
  chunks::add_options(all, "race");
  return all;
}

std::map<std::string, kv::Mutant> mutants() { return kv::mutants_of(flaws()); }

Result<std::unique_ptr<const Settings>> decide(const kv::DeployConfig& config, const kv::Options& options,
                                               std::string_view mutant) {
  LOCH_TRY(check_config(config));
  LOCH_TRY(chunks::check_servers("race", config, options));
  LOCH_TRY(check_growth(options));
  LOCH_ASSIGN(const Rules rules, choose_rules(options, mutant));
  auto s = std::make_unique<Settings>(
      Settings{.config = config,
               .rules = rules,
               .shape = choose_shape(config, options),
               .block = BlockLayout(config.key_size, config.value_size, config.kept_value_bytes)});
  // Keys are assigned to nodes by their hash, so that a node may get somewhat more than its share.
  const double mean = static_cast<double>(config.keys) / config.serving_nodes();
  const double more = config.serving_nodes() == 1 ? 0 : 8 * std::sqrt(mean) + 8;
  // one block more than records, because no slot names block 0
  s->preload_blocks = 1 + static_cast<std::uint64_t>(std::ceil(mean + more));
  s->client_blocks = blocks_per_client(*s, options);
  s->chunks =
      chunks::plan_chunks("race", config, options, s->preload_blocks, s->clients() * s->client_blocks);
  if (s->chunks && s->has(Flaw::chunk_given_twice)) s->chunks->flaw = chunks::Flaw::repeated_is_free;
  s->split_share = options.real("race.split-share");
  s->put_cpu = options.integer("race.put-cpu");
  s->attempts = static_cast<std::uint32_t>(options.integer("race.attempts"));
  s->backoff_start = options.integer("race.backoff-start");
  s->backoff_cap = options.integer("race.backoff-cap");
  s->reconnect_timeout = options.integer("race.reconnect-timeout");
  s->settle_interval = options.integer("race.settle-interval");
  s->settle_timeout = options.integer("race.settle-timeout");
  if (s->blocks_per_node() * s->block.units() >= std::uint64_t{1} << 34)
    return refuse("keys: more blocks than the 34 bits of a slot's word can name");
  LOCH_TRY(kv::check_memory(config, s->shape.table_bytes() + s->block.elision().physical_bytes(
                                                                 s->blocks_per_node() * s->block.bytes())));
  return s;
}

}  // namespace loch::race
