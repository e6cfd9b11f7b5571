// Options of the baselines: their tables, sizes of memory, and checks.
#include "baselines/settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/kv/checks.h"
#include "common/kv/value.h"

namespace loch::baselines {
namespace {

using kv::refuse;

// Memory in bytes for one server's records: the server's share of the keys, 20 % more for an uneven
// distribution, 120 bytes of the server's own fields for each record, and 25 % for slabs that are larger than
// their items.
std::uint64_t memory_of(const kv::DeployConfig& config, std::uint32_t servers) {
  constexpr double item_bytes = 120, slabs = 1.25, uneven = 1.2, least = 64e6;
  const double record = static_cast<double>(config.key_size) + config.value_size + item_bytes;
  const double share = static_cast<double>(std::max(config.max_keys, config.keys)) / servers;
  return static_cast<std::uint64_t>(share * uneven * record * slabs + least + 4e6 * config.window);
}

Result<> check_sizes(const Settings& s) {
  const kv::DeployConfig& config = s.config;
  const std::string_view system = name(s.system);
  if (config.key_size == 0 || (s.system == System::memcached && config.key_size > 250)) {
    return refuse(fmt::format("key-size: {} bytes; {} takes keys of 1 to 250", config.key_size, system));
  }
  constexpr std::uint32_t largest = 512U << 20;
  if (config.value_size > largest) {
    return refuse(
        fmt::format("value-size: {} bytes; {} takes at most {}", config.value_size, system, largest));
  }
  if (config.server_workers == 0) {
    return refuse(fmt::format("servers: 0; {} works in its servers: at least 1 a node", system));
  }
  if (s.system == System::redis && config.server_workers != 1) {
    return refuse(
        fmt::format("servers: {}; a Redis server executes its commands on one core: 1 a node, and "
                    "--redis.servers for more servers",
                    config.server_workers));
  }
  return {};
}

}  // namespace

std::string_view name(System system) { return system == System::memcached ? "memcached" : "redis"; }

std::string_view name(Link link) { return link == Link::ipoib ? "ipoib" : "ethernet"; }

std::string Settings::flag(std::string_view option) const {
  return fmt::format("{}.{}", name(system), option);
}

fabric::NodeId Settings::node_of(std::uint32_t server) const {
  return static_cast<fabric::NodeId>(server % config.serving_nodes());
}

std::uint32_t Settings::server_of(kv::Key key) const {
  return static_cast<std::uint32_t>(kv::key_digest(key) % servers);
}

std::vector<kv::OptionSpec> option_specs(System system) {
  using kv::OptionType;
  const std::string own(name(system));
  const auto key = [&](std::string_view option) { return fmt::format("{}.{}", own, option); };
  return {
      {key("address"),
       OptionType::text,
       "",
       "servers that run already: host:port or /path, with commas; empty: Loch starts its own (not on sim)",
       {}},
      {key("socket"),
       OptionType::choice,
       "unix",
       "how Loch's own servers listen: a Unix socket, or a port of 127.0.0.1 (not on sim)",
       {"unix", "loopback"}},
      {key("servers"),
       OptionType::integer,
       "0",
       "servers of the whole cluster, spread over the nodes that serve; 0: one a node",
       {},
       0,
       1024},
      {key("memory"),
       OptionType::size,
       "0",
       "bytes that each of Loch's own servers may use for data; 0: what the records need and a fifth more",
       {},
       0,
       1e15},
      {key("binary"),
       OptionType::text,
       "",
       "the server program; empty: looked for on PATH and among what ./loch brought",
       {}},
      {key("timeout"),
       OptionType::duration,
       "1s",
       "longest wait for a connection or a reply; then the connection is closed and the operation is an "
       "error",
       {},
       1e6,
       1e11},
      {key("start-timeout"),
       OptionType::duration,
       "20s",
       "longest wait for a server to be ready, and for the preload to go on",
       {},
       1e6,
       1e12},
      {key("link"),
       OptionType::choice,
       "ipoib",
       "sim: what the modelled kernel TCP runs over (Pilaf 2013, table 1 and figure 1)",
       {"ipoib", "ethernet"}},
      {key("work"),
       OptionType::choice,
       "store",
       "sim: what a modelled server does beyond an echo: a store's work, as measured of the real one, or "
       "none",
       {"store", "echo"}},
  };
}

std::map<std::string, kv::Mutant> mutants() {
  return {
      {"stale-copy",
       {"a client answers GETs from a copy of its own, which the others' PUTs do not make void", 1}},
      {"at-least-once",
       {"a request that is sent anew because its answer is late is executed anew, over what came since", 3}},
      {"write-behind", {"a server answers a PUT and stores it only after its next request", 18}},
  };
}

Result<Settings> decide(System system, const kv::DeployConfig& config, const kv::Options& options,
                        std::string_view mutant) {
  Settings s;
  s.config = config;
  s.system = system;
  LOCH_ASSIGN(s.given, parse_addresses(options.text(s.flag("address")), "--" + s.flag("address")));
  s.is_unix = options.choice(s.flag("socket")) == "unix";
  const auto asked = static_cast<std::uint32_t>(options.integer(s.flag("servers")));
  if (!s.given.empty() && asked != 0 && asked != s.given.size()) {
    return refuse(fmt::format("--{}: {}, but --{} names {}", s.flag("servers"), asked, s.flag("address"),
                              s.given.size()));
  }
  s.servers = !s.given.empty() ? static_cast<std::uint32_t>(s.given.size())
              : asked != 0     ? asked
                               : config.serving_nodes();
  s.threads = config.server_workers;
  s.binary = options.text(s.flag("binary"));
  s.memory_bytes = static_cast<std::uint64_t>(options.integer(s.flag("memory")));
  if (s.memory_bytes == 0) s.memory_bytes = memory_of(config, s.servers);
  s.timeout = options.integer(s.flag("timeout"));
  s.start_timeout = options.integer(s.flag("start-timeout"));
  s.link = options.choice(s.flag("link")) == "ipoib" ? Link::ipoib : Link::ethernet;
  s.only_echoes = options.choice(s.flag("work")) == "echo";
  s.keeps_copies = mutant == "stale-copy";
  s.executes_twice = mutant == "at-least-once";
  s.writes_behind = mutant == "write-behind";
  LOCH_TRY(check_sizes(s));
  return s;
}

}  // namespace loch::baselines
