// Decides the options and sizes of a store whose server workers own their keys, and checks that its
// tables fit into the nodes' memory.
#include "common/coupled/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/cuckoo/index_word.h"
#include "common/kv/checks.h"
#include "common/kv/spare.h"

namespace loch::coupled {
namespace {

using kv::refuse;

Result<> check_sizes(const std::string& name, const kv::DeployConfig& config) {
  if (config.nodes == 0 || config.nodes > 4096) return refuse("nodes: expected 1 to 4096");
  if (config.server_nodes >= config.nodes) {
    return refuse(fmt::format("server-nodes: {} of {} nodes; somebody must drive the load",
                              config.server_nodes, config.nodes));
  }
  if (config.client_workers == 0 || config.window == 0) {
    return refuse("clients: expected at least 1 client worker and a window of at least 1");
  }
  if (config.server_workers == 0) {
    return refuse(fmt::format("servers: {} is served by workers that poll; expected at least 1", name));
  }
  if (config.key_size == 0 || config.key_size > 4096) {
    return refuse(fmt::format("key-size: {} bytes; expected 1 to 4096", config.key_size));
  }
  if (config.value_size == 0 || config.value_size > (1U << 30)) {
    return refuse(fmt::format("value-size: {} bytes; expected 1 to 1G", config.value_size));
  }
  return kv::check_preload(config);
}

// Number of entries of one server worker's table (row): for the keys that the hash functions may assign to
// the worker, and spare entries.
Result<std::uint32_t> entries_of_row(const std::string& name, const kv::DeployConfig& config,
                                     const kv::Options& options, double keys, std::uint64_t slots) {
  // A server worker may get `spread` keys more than the mean, 8 standard deviations. If one gets more, the
  // preload fails.
  const double spread = 8 * std::sqrt(keys) + 8;
  const double most_keys = std::min(static_cast<double>(slots), std::ceil(keys + spread));
  double bytes = static_cast<double>(options.integer(name + ".spare-memory"));
  if (config.memory_bytes != 0) bytes = std::min(bytes, static_cast<double>(config.memory_bytes) / 8);
  const EntryLayout entry(config.key_size, config.value_size);
  const double by_memory = bytes / static_cast<double>(entry.stride()) / config.server_workers;
  const double by_share = keys * (options.real(name + ".overflow") - 1);
  const double spare =
      std::max({by_memory, by_share, static_cast<double>(options.integer(name + ".min-spare"))});
  const double entries = std::ceil(most_keys + spare);
  if (entries >= static_cast<double>(1U << cuckoo::IndexWord::entry_bits)) {
    return refuse(fmt::format("{}.overflow: {:.0f} DTEs a server worker do not fit the index word's {} bits",
                              name, entries, cuckoo::IndexWord::entry_bits));
  }
  return static_cast<std::uint32_t>(entries);
}

}  // namespace

std::vector<kv::OptionSpec> table_options(const std::string& name) {
  using kv::OptionType;
  const auto integer = OptionType::integer;
  const auto duration = OptionType::duration;
  std::vector<kv::OptionSpec> specs = {
      {name + ".hash-functions",
       integer,
       "3",
       "cuckoo hash functions N, slots a key can be in (2017, 4.1.1)",
       {},
       1,
       4},
      {name + ".load-factor",
       OptionType::real,
       "0.4",
       "share of index slots that the largest number of keys fills (2017, 6)",
       {},
       0.01,
       0.95},
      {name + ".overflow",
       OptionType::real,
       "1.5",
       "DTEs per key, at least: the papers' tables have room for half as many again (2017, 6: 30 GB for 20)",
       {},
       1,
       1000},
      {name + ".min-spare",
       integer,
       "1024",
       "DTEs a server worker beyond its keys, at least: matters to small tables",
       {},
       1,
       1e9},
      {name + ".spare-memory",
       OptionType::size,
       "0",
       "bytes of DTEs a node beyond its keys, at least, but no more than an eighth of its memory",
       {},
       0,
       1e12,
       {},
       "128M"},
      {name + ".retry-after",
       duration,
       "20ms",
       "a request that has no reply by then is sent again, with its sequence number",
       {},
       1e3,
       1e12},
      {name + ".give-up-after",
       duration,
       "1s",
       "a request that has no reply by then is given up: its effect is unknown",
       {},
       1e3,
       1e12},
      {name + ".reconnect-timeout",
       duration,
       "20ms",
       "how long a worker tries to reach a node anew",
       {},
       1,
       1e12},
      {name + ".attempts",
       integer,
       "64",
       "attempts of one operation at a worker that has no entry free",
       {},
       1,
       1e9},
      {name + ".backoff-start",
       duration,
       "2us",
       "upper end of the first back-off; doubles each time, full jitter (2017, 4.3.2)",
       {},
       1,
       1e12},
      {name + ".backoff-cap", duration, "1ms", "largest upper end of a back-off", {}, 1, 1e12},
      {name + ".first-number",
       integer,
       "0",
       "where a client's requests begin to be numbered: close to 65535 the number in a frame soon wraps "
       "(tests)",
       {},
       0,
       65535},
  };
  kv::give_role(specs, name + ".first-number", kv::OptionRole::first_number);
  kv::give_role(specs, name + ".hash-functions", kv::OptionRole::hash_functions);
  kv::give_role(specs, name + ".load-factor", kv::OptionRole::load_factor);
  kv::give_role(specs, name + ".min-spare", kv::OptionRole::spare_entries);
  kv::give_role(specs, name + ".retry-after", kv::OptionRole::reply_timeout);
  kv::give_role(specs, name + ".give-up-after", kv::OptionRole::give_up);
  kv::give_role(specs, name + ".reconnect-timeout", kv::OptionRole::reconnect_timeout);
  kv::give_role(specs, name + ".attempts", kv::OptionRole::attempts);
  kv::give_role(specs, name + ".backoff-cap", kv::OptionRole::backoff_cap);
  return specs;
}

std::map<std::string, std::string> fuzz_options(const std::string& name, Rng& rng,
                                                const kv::DeployConfig& /*shape*/) {
  const auto pick = [&rng](std::vector<std::string> from) { return from[rng.below(from.size())]; };
  std::map<std::string, std::string> drawn;
  drawn[name + ".retry-after"] = pick({"10us", "40us", "200us", "1ms", "20ms"});
  drawn[name + ".give-up-after"] = pick({"30us", "60us", "100us", "500us", "5ms", "1s", "1s"});
  return drawn;
}

Result<Settings> decide(const std::string& name, const kv::DeployConfig& config, const kv::Options& options,
                        const Rules& rules, const rpc::ChannelFlaws& flaws, std::uint32_t filter_bits) {
  LOCH_TRY(check_sizes(name, config));
  LOCH_TRY(kv::check_backoff(name, options));
  const double rows = static_cast<double>(config.serving_nodes()) * config.server_workers;
  const double keys = static_cast<double>(std::max<std::uint64_t>(config.max_keys, 1)) / rows;
  const auto functions = static_cast<std::uint32_t>(options.integer(name + ".hash-functions"));
  const auto slots = std::max<std::uint64_t>(
      functions, static_cast<std::uint64_t>(std::ceil(keys / options.real(name + ".load-factor"))));
  LOCH_ASSIGN(const std::uint32_t entries, entries_of_row(name, config, options, keys, slots));
  const cuckoo::Shape shape{.nodes = config.serving_nodes() * config.server_workers,
                            .slots_per_node = slots,
                            .functions = functions,
                            .coupling = cuckoo::Coupling::partially_coupled};
  Settings s{.name = name,
             .config = config,
             .rules = rules,
             .entry = EntryLayout(config.key_size, config.value_size),
             .frames = FrameLayout(config.key_size, config.value_size),
             .family = cuckoo::HashFamily(shape, config.seed),
             .channel = {}};
  s.slots_per_row = slots;
  s.entries_per_row = s.near_entries = entries;
  s.filter_bits = filter_bits;
  s.attempts = static_cast<std::uint32_t>(options.integer(name + ".attempts"));
  s.backoff_start = options.integer(name + ".backoff-start");
  s.backoff_cap = options.integer(name + ".backoff-cap");
  rpc::ChannelConfig& channel = s.channel;
  channel.name = name;
  channel.parties = {.nodes = config.nodes,
                     .servers = config.server_workers,
                     .clients = config.client_workers,
                     .window = config.window,
                     .server_nodes = config.server_nodes};
  channel.request = s.frames.requests(s.kept_value());
  channel.reply = s.frames.replies(s.kept_value());
  channel.request_bytes = s.frames.request_sizes();
  channel.reply_bytes = s.frames.reply_sizes();
  channel.transport = fabric::Transport::rc;
  channel.retry_after = options.integer(name + ".retry-after");
  channel.give_up_after = options.integer(name + ".give-up-after");
  channel.reconnect_timeout = options.integer(name + ".reconnect-timeout");
  channel.first_number = static_cast<std::uint64_t>(options.integer(name + ".first-number"));
  channel.flaws = flaws;
  return s;
}

namespace {

// Returns the number of bytes of a node's memory that the tables and `more` further bytes leave free; an
// error if they do not fit.
Result<std::uint64_t> check_memory(const Settings& s, std::uint64_t more) {
  if (s.config.memory_bytes == 0) return UINT64_MAX;
  const std::uint64_t channel = rpc::WriteChannel(s.channel).memory_bytes();
  const std::uint64_t data = s.entry.elision(s.kept_value()).physical_bytes(s.data_bytes());
  const std::uint64_t need = s.index_bytes() + data + channel + more;
  if (need <= s.config.memory_bytes) return s.config.memory_bytes - need;
  return refuse(fmt::format(
      "keys: {} keys with values of {} bytes take {} bytes of each of {} nodes (index, {} DTEs a server "
      "worker with {}.overflow, {} of request slots), which have {}",
      s.config.max_keys, s.config.value_size, need, s.config.nodes, s.entries_per_row, s.name, channel,
      s.config.memory_bytes));
}

}  // namespace

Result<> fit_memory(Settings& s, std::uint64_t more, std::uint64_t spare_limit) {
  LOCH_ASSIGN(const std::uint64_t left, check_memory(s, more));
  const double rows = static_cast<double>(s.config.serving_nodes()) * s.config.server_workers;
  // A skewed load may send all PUTs to one worker; such a worker needs at least 0.5 us for each PUT.
  const double spare = kv::spare_for_load(
      s.config,
      {.lanes = static_cast<double>(s.config.driving_nodes()) * s.config.client_workers * s.config.window,
       .puts_per_ns_max = 1.0 / 500,
       .reuse_after = s.rules.expiry + s.rules.expiry / drift_share,
       .entry_bytes = s.entry.elision(s.kept_value()).physical_bytes(s.entry.stride()),
       .whole_bytes = s.entry.stride(),
       .limit_bytes = std::min(spare_limit, left / 2) / s.config.server_workers});
  const double keys = std::ceil(static_cast<double>(s.config.max_keys) / rows);
  constexpr double most = (1U << cuckoo::IndexWord::entry_bits) - 1;
  s.entries_per_row =
      static_cast<std::uint32_t>(std::min(most, std::max(static_cast<double>(s.near_entries), keys + spare)));
  return {};
}

}  // namespace loch::coupled
