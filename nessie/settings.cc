// Decides the settings of a deployment of Nessie from its options: the rules of the variant and the sizes
// of its tables, with checks.
#include "nessie/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/kv/checks.h"
#include "common/kv/spare.h"

namespace loch::nessie {
namespace {

using kv::refuse;

Result<> apply_chosen_fixes(const kv::Options& options, Layout layout, Rules& rules) {
  const auto chosen = [&](const char* name) { return options.boolean(std::string("nessie.mend-") + name); };
  const Fixes fixes{.h1 = chosen("h1"),
                    .h2 = chosen("h2"),
                    .h7 = chosen("h7"),
                    .h10 = chosen("h10"),
                    .h16 = chosen("h16"),
                    .pending = chosen("pending")};
  if (!fixes.any()) return {};
  if (layout == Layout::y2015 || options.choice("nessie.variant") == "hardened") {
    return refuse(
        "nessie.mend-h1, nessie.mend-h2 …: fix the published 2017 text; expected nessie.variant published "
        "and nessie.layout 2017 alongside them");
  }
  apply_fixes(fixes, rules);
  return {};
}

// Chooses the rules of the configured variant, and changes them by the options that switch single rules and
// by the mutant, if one is named.
Result<Rules> choose_rules(const kv::Options& options, Layout layout, std::string_view mutant) {
  const bool is_hardened = options.choice("nessie.variant") == "hardened";
  if (layout == Layout::y2015 && is_hardened) {
    return refuse("nessie.layout: 2015 has no fixed rules; expected nessie.variant published alongside it");
  }
  Rules rules = is_hardened ? hardened() : layout == Layout::y2015 ? published_2015() : published_2017();
  const auto needs_hardened = [&](std::string_view key) {
    return refuse(
        fmt::format("{}: exists in the hardened variant alone; expected nessie.variant hardened", key));
  };
  LOCH_TRY(apply_chosen_fixes(options, layout, rules));
  if (!options.boolean("nessie.previous-versions")) rules.use_previous = false;
  if (options.choice("nessie.commit") == "cas") {
    if (!is_hardened) return needs_hardened("nessie.commit");
    rules.commit = Commit::cas;
  }
  if (options.boolean("nessie.fast-update")) {
    if (!is_hardened) return needs_hardened("nessie.fast-update");
    rules.fast_update = true;
  }
  if (options.boolean("nessie.single-cas-delete")) {
    if (!is_hardened) return needs_hardened("nessie.single-cas-delete");
    rules.deletion = Deletion::single_cas;
  }
  if (!options.boolean("nessie.tagged-migrate")) rules.migrate_tags = false;
  if (!mutant.empty() && !apply_mutant(mutant, rules)) {
    return refuse(fmt::format("mutant: nessie has none named {}", mutant));
  }
  return rules;
}

// Refuses options and nodes that do not fit the entries' placement: on the clients' own nodes (local), or on
// memory nodes (remote).
Result<> check_placement(const kv::DeployConfig& config, const kv::Options& options) {
  if (options.choice("nessie.placement") == "local") {
    if (chunks::managers(options) != 0) {
      return refuse(
          "nessie.allocation: chunks are entries of memory nodes; expected nessie.placement remote "
          "alongside it");
    }
    LOCH_TRY(chunks::check_unused("nessie", options));
    LOCH_TRY(kv::check_client_driven("nessie", config));
    if (config.server_nodes == 0) return {};
    return refuse(
        fmt::format("server-nodes: a client of nessie writes DTEs into its own node's memory; {} were asked "
                    "for, expected 0, or nessie.placement remote alongside it",
                    config.server_nodes));
  }
  if (options.choice("nessie.variant") != "hardened") {
    return refuse(
        "nessie.placement: remote exists in the hardened variant alone; expected nessie.variant hardened");
  }
  if (config.server_nodes == 0) {
    return refuse(
        "nessie.placement: remote places DTEs on nodes that drive no load; expected server-nodes of at "
        "least 1 alongside it");
  }
  LOCH_TRY(kv::check_clients("nessie", config));
  LOCH_TRY(chunks::check_servers("nessie", config, options));
  constexpr std::uint32_t most_clients = 0xFFFF;
  const std::uint64_t clients = std::uint64_t{config.driving_nodes()} * config.client_workers;
  if (clients <= most_clients) return {};
  return refuse(fmt::format("clients: {} do not fit the 16 bits by which a DTE names its writer", clients));
}

Result<> check_sizes(const kv::DeployConfig& config, const kv::Options& options, std::uint32_t dti_bits) {
  if (config.nodes == 0 || config.serving_nodes() > std::uint64_t{1} << dti_bits) {
    return refuse(
        fmt::format("nodes: {} do not fit the {} bits of the index word's DTI; expected 1 to {}, or "
                    "a larger nessie.dti-bits",
                    config.nodes, dti_bits, std::uint64_t{1} << dti_bits));
  }
  LOCH_TRY(check_placement(config, options));
  if (config.value_size == 0 || config.value_size > (1U << 30)) {
    return refuse(fmt::format("value-size: {} bytes do not fit a DTE; expected 1 to 1G", config.value_size));
  }
  return kv::check_preload(config);
}

struct TableSizes {
  std::uint64_t slots_per_node = 0;
  std::uint64_t entries_per_node = 0;
};

// Number of data table entries (DTEs) that fit into nessie.spare-memory, limited to an eighth of the node's
// memory: spares for entries that were replaced and are not yet expired. On a real machine memory bandwidth
// limits the rate of PUTs, so that the need for spares is a number of bytes rather than a share of the keys.
double spare_by_memory(const kv::DeployConfig& config, const kv::Options& options) {
  auto bytes = static_cast<double>(options.integer("nessie.spare-memory"));
  if (config.memory_bytes != 0) bytes = std::min(bytes, static_cast<double>(config.memory_bytes) / 8);
  const EntryLayout entry(config.key_size, config.value_size);
  return std::floor(bytes / static_cast<double>(entry.stride()));
}

Result<TableSizes> size_tables(const kv::DeployConfig& config, const kv::Options& options) {
  const double keys = static_cast<double>(std::max<std::uint64_t>(config.max_keys, 1));
  const double keys_per_node = keys / config.serving_nodes();
  TableSizes sizes;
  sizes.slots_per_node =
      static_cast<std::uint64_t>(std::ceil(keys_per_node / options.real("nessie.load-factor")));
  const auto functions = static_cast<std::uint64_t>(options.integer("nessie.hash-functions"));
  if (sizes.slots_per_node * config.serving_nodes() < functions) {
    return refuse(fmt::format("nessie.hash-functions: {} functions need as many slots, the table has {}",
                              functions, sizes.slots_per_node * config.serving_nodes()));
  }
  const double whole_keys = std::ceil(keys_per_node);
  // Workers own the data table entries round robin. A worker needs at least one to execute a PUT and two to
  // move a key. Each client of a memory node may in addition leave a chunk almost unused, and request one
  // ahead of need.
  double least = 2.0 * config.client_workers;
  if (config.server_nodes != 0) least *= config.driving_nodes();
  if (chunks::managers(options) != 0) least *= static_cast<double>(options.integer("nessie.chunk-blocks"));
  const double spare = std::max(
      {static_cast<double>(options.integer("nessie.min-spare")), least, spare_by_memory(config, options)});
  sizes.entries_per_node = static_cast<std::uint64_t>(
      std::max(std::ceil(keys_per_node * options.real("nessie.overflow")), whole_keys + spare));
  return sizes;
}

// Returns the free memory of a node in bytes; an error if the tables do not fit.
Result<std::uint64_t> check_memory(const Settings& settings) {
  const kv::DeployConfig& config = settings.config;
  if (config.memory_bytes == 0) return UINT64_MAX;
  const std::uint64_t data = settings.entries_per_node * settings.entry.stride();
  const fabric::Elision elision = settings.entry.elision(config.kept_value_bytes);
  const std::uint64_t cache =
      settings.cache_entries * (std::min(config.kept_value_bytes, config.value_size) + config.key_size + 64);
  const std::uint64_t need = settings.share_bytes() * (1 + settings.spare_shares) +
                             elision.physical_bytes(data) +
                             elision.physical_bytes(settings.lanes() * settings.entry.stride()) + cache;
  if (need > config.memory_bytes) {
    return refuse(
        fmt::format("keys: {} keys with values of {} bytes take {} bytes of each of {} nodes (index, {} DTEs "
                    "with nessie.overflow, cache), which have {}",
                    config.max_keys, config.value_size, need, config.serving_nodes(),
                    settings.entries_per_node, config.memory_bytes));
  }
  return config.memory_bytes - need;
}

// Number of data table entries (DTEs) to add to a node, so that those replaced by the node's own PUTs within
// one expiry period need not be reused earlier (a PUT allocates its DTE on the client's node). Limited to
// half of the node's free memory.
std::uint32_t more_for_load(const Settings& s, const kv::Options& options, std::uint64_t bytes_left) {
  const auto limit = static_cast<std::uint64_t>(options.integer("nessie.spare-limit"));
  // All clients share the memory nodes; otherwise each node's entries are those of its own clients.
  const double clients =
      s.is_remote() ? static_cast<double>(s.clients()) / s.config.serving_nodes() : s.config.client_workers;
  const double spare = kv::spare_for_load(
      s.config, {.lanes = clients * s.config.window,
                 .reuse_after = s.expiry + s.clock_margin,
                 .entry_bytes = s.entry.elision(s.config.kept_value_bytes).physical_bytes(s.entry.stride()),
                 .whole_bytes = s.entry.stride(),
                 .limit_bytes = std::min(limit, bytes_left / 2)});
  const double keys = std::ceil(static_cast<double>(s.config.max_keys) / s.config.serving_nodes());
  const double most = static_cast<double>(s.format.most_entries() - 1) - s.entries_per_node;
  return static_cast<std::uint32_t>(std::clamp(keys + spare - s.entries_per_node, 0.0, most));
}

// Adds the entries that the load needs. Gives the entries of memory nodes that no preloaded record takes to
// the clients in equal parts, or leaves them to the nodes' managers.
void add_spares(Settings& s, const kv::Options& options, std::uint64_t bytes_left) {
  s.entries_per_node += more_for_load(s, options, bytes_left);
  if (!s.is_remote()) return;
  const std::uint64_t spare = s.entries_per_node - s.first_spare();
  s.chunks = chunks::plan_chunks("nessie", s.config, options, s.first_spare(), spare);
  if (!s.chunks) s.client_entries = static_cast<std::uint32_t>(spare / s.clients());
}

bool header_first(const kv::Options& options, const kv::DeployConfig& config, Layout layout) {
  const std::string& mode = options.choice("nessie.multi-read");
  if (layout == Layout::y2015 || mode == "off") return false;
  return mode == "on" || config.value_size >= options.integer("nessie.multi-read-size");
}

}  // namespace

Result<std::unique_ptr<const Settings>> decide(const kv::DeployConfig& config, const kv::Options& options,
                                               std::string_view mutant) {
  const auto dti_bits = static_cast<std::uint32_t>(options.integer("nessie.dti-bits"));
  LOCH_TRY(check_sizes(config, options, dti_bits));
  const Layout layout = options.choice("nessie.layout") == "2015" ? Layout::y2015 : Layout::y2017;
  if (layout == Layout::y2015 && dti_bits != paper_dti_bits) {
    return refuse(
        fmt::format("nessie.dti-bits: {}; the word of 2015 has 15 bits for the DTI and the filter "
                    "together; expected 8",
                    dti_bits));
  }
  LOCH_ASSIGN(const Rules rules, choose_rules(options, layout, mutant));
  LOCH_ASSIGN(const TableSizes sizes, size_tables(config, options));
  const auto filter_bits = static_cast<std::uint32_t>(options.integer("nessie.filter-bits"));
  const std::uint32_t most_bits = WordFormat::most_filter_bits(layout, rules, config.serving_nodes());
  const WordFormat format(layout, rules, std::min(filter_bits, most_bits), dti_bits);
  if (sizes.entries_per_node >= format.most_entries()) {
    return refuse(fmt::format(
        "nessie.overflow, nessie.min-spare: {} DTEs a node do not fit the index word, which names {}",
        sizes.entries_per_node, format.most_entries()));
  }
  if (filter_bits > most_bits) {
    return refuse(fmt::format(
        "nessie.filter-bits: {} do not fit the index word beside its other fields; expected 0 to {}",
        filter_bits, most_bits));
  }
  LOCH_TRY(kv::check_backoff("nessie", options));
  const cuckoo::Shape shape{
      .nodes = config.serving_nodes(),
      .slots_per_node = sizes.slots_per_node,
      .functions = static_cast<std::uint32_t>(options.integer("nessie.hash-functions"))};
  auto settings =
      std::make_unique<Settings>(Settings{.config = config,
                                          .layout = layout,
                                          .rules = rules,
                                          .format = WordFormat(layout, rules, filter_bits, dti_bits),
                                          .entry = EntryLayout(config.key_size, config.value_size),
                                          .family = cuckoo::HashFamily(shape, config.seed),
                                          .filter_bits = filter_bits});
  settings->slots_per_node = sizes.slots_per_node;
  settings->entries_per_node = static_cast<std::uint32_t>(sizes.entries_per_node);
  if (options.boolean("nessie.cache")) {
    const double keys_per_node = static_cast<double>(config.max_keys) / config.serving_nodes();
    settings->cache_entries =
        static_cast<std::uint64_t>(std::ceil(keys_per_node * options.real("nessie.cache-fraction")));
  }
  settings->reads_header_first = header_first(options, config, layout);
  settings->completion =
      options.choice("nessie.completion") == "cqe" ? CompletionBy::cqe : CompletionBy::watermark;
  settings->stamps_lazily = options.choice("nessie.stamping") == "lazy";
  settings->expiry = options.integer("nessie.expiry");
  settings->clock_margin = options.integer("nessie.clock-margin");
  if (rules.flaw == Flaw::margin_ignored) settings->clock_margin = 0;
  settings->backoff_start = options.integer("nessie.backoff-start");
  settings->backoff_cap = options.integer("nessie.backoff-cap");
  settings->attempts = static_cast<std::uint32_t>(options.integer("nessie.attempts"));
  settings->migrate_depth = static_cast<std::uint32_t>(options.integer("nessie.migrate-depth"));
  settings->recycle_interval = options.integer("nessie.recycle-interval");
  settings->reconnect_timeout = options.integer("nessie.reconnect-timeout");
  settings->settle_timeout = options.integer("nessie.settle-timeout");
  if (rules.has_incarnation && config.nodes > 1 && !settings->is_remote())
    settings->spare_shares = static_cast<std::uint32_t>(options.integer("nessie.spare-shares"));
  settings->scrub_repairs = options.choice("nessie.scrub") == "repair";
  settings->scrub_finds_leaks = options.boolean("nessie.leak-scan");
  LOCH_ASSIGN(const std::uint64_t bytes_left, check_memory(*settings));
  add_spares(*settings, options, bytes_left);
  return std::unique_ptr<const Settings>(std::move(settings));
}

}  // namespace loch::nessie
