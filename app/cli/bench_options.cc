#include "app/cli/bench_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <ranges>
#include <set>
#include <sstream>

#include "app/cli/registry.h"
#include "app/cli/search.h"
#include "common/base/output_place.h"
#include "common/kv/value.h"
#include "common/measure/file.h"

#include "common/cluster/launch_env.h"

namespace loch::cli {
namespace {

namespace po = boost::program_options;

// Values are kept as text and parsed here, so that every error is one line that names the flag.
po::options_description bench_flags() {
  po::options_description all("loch bench: one point", 100, 50);
  const auto flag = [&](const char* name, const char* metavar, const char* help) {
    all.add_options()(name, po::value<std::string>()->value_name(metavar), help);
  };
  const auto list = [&](const char* name, const char* metavar, const char* help) {
    all.add_options()(name, po::value<std::vector<std::string>>()->composing()->value_name(metavar), help);
  };
  const auto toggle = [&](const char* name, const char* help) {
    all.add_options()(name, po::value<std::string>()->implicit_value("true")->value_name("BOOL"), help);
  };
  flag("protocol", "NAME", "nessie (default), …: loch list protocols");
  flag("fabric", "NAME", "sim (default), shm, verbs");
  flag("hardware", "NAME|FILE", "sim: hardware profile (connectx3-10gbe): loch list hardware");
  flag("nodes", "N", "nodes of the cluster (3)");
  flag("server-nodes", "N",
       "the first N nodes only serve and the others only drive load (0: every node does both)");
  flag("clients", "N", "client workers a node (1)");
  flag("servers", "N", "server workers a node (the protocol's own default)");
  flag("window", "W", "outstanding operations a client worker (1)");
  flag("keys", "N", "preloaded records, whole cluster (100000)");
  flag("max-keys", "N", "records that the table is made for (keys, and what inserts may add)");
  flag("key-size", "BYTES", "bytes of a key (128)");
  flag("value-size", "BYTES", "bytes of a value: 512, 16K, 1M (1K)");
  flag("get", "SHARE", "share of GETs, 0 to 1 (0.9); the rest are PUTs");
  flag("delete", "SHARE", "share of DELETEs (0)");
  flag("distribution", "NAME",
       "uniform (default), zipfian (YCSB's), zipfian-n (over the real n), latest, hotspot, "
       "exponential, sequential, locality");
  flag("zipf-theta", "THETA", "skew of zipfian-n and latest (0.99)");
  flag("locality", "SHARE",
       "locality: share of accesses drawn from the node's own part of the keys, others from all (0.8)");
  flag("hotspot-data", "SHARE", "hotspot: share of the records that are hot (0.2)");
  flag("hotspot-operations", "SHARE", "hotspot: share of the operations that go there (0.8)");
  list("workload", "FILE", "YAML workload, or YCSB property file(s) unchanged");
  list("property-file,P", "FILE", "a YCSB property file; later ones win");
  list("property,p", "KEY=VALUE", "a YCSB property; wins over files");
  flag("rate", "OPS/S", "open loop: operations a second, whole cluster (0: closed loop)");
  flag("think", "TIME",
       "closed loop: CPU time that a client computes before each operation: 20us (0; spun where it is real)");
  flag("arrivals", "KIND", "open loop: poisson (default) or fixed gaps");
  flag("search", "GOAL", "the highest open-loop rate that meets p99:1000us, mean:20us, max:1ms …");
  flag("warmup", "TIME", "before the measurement: 50ms, 10s (sim 1ms, shm 500ms; virtual time on sim)");
  flag("duration", "TIME", "measurement window (sim 20ms, shm 5s)");
  flag("operations", "N", "measure so many operations instead of a duration");
  flag("seed", "N", "decides every random draw (1)");
  flag("repeats", "N", "runs with seeds seed, seed+1, …; the result is then a list (1)");
  flag("hogs", "N", "background CPU workers (SHA-256) a machine, of which a simulated node is one (0)");
  flag("hog-pin", "WHERE",
       "hogs: none (default; the kernel puts them), shared (on the server workers' cores), separate "
       "(on cores without a worker), clients (sim: on any core without a server worker); shm, verbs: shared "
       "and separate with --pin");
  flag("hog-nodes", "N", "sim: the first N nodes alone have hogs (0: all)");
  flag("settle", "TIME",
       "sim: clients spin so long before the warm-up, until hogs have spread over the cores (0)");
  flag("cores", "N", "sim: cores of a node that are in use, a socket's first (0: the profile's)");
  flag("device", "NAME", "verbs: RDMA device (the first with an active port): loch doctor");
  flag("port", "N", "verbs: port of the device (the first active one)");
  flag("gid-index", "N", "verbs: GID of the port (the best: RoCE v2 over IPv4 first)");
  toggle("pin", "workers pinned to cores of their own (sim: true, shm: false)");
  toggle("verify", "check every GET's value (its stamp alone where values are elided)");
  toggle("verify-full", "verify, and keep every byte of every value in memory");
  flag("history", "FILE", "record the history, for loch check");
  flag("trace", "FILE", "Chrome trace JSON, opens in Perfetto");
  flag("histogram", "FILE", "latencies in HdrHistogram's percentile format");
  flag("faults", "FILE", "YAML of faults to inject");
  flag("mutant", "NAME", "a known-bad variant: loch list mutants");
  toggle("scrub", "after the load, repair and report what lost nodes held (default: with several processes)");
  flag("repair-after", "TIME",
       "repair what failures did while the load goes on, so long after each: scrub, or declare lost (after "
       "the "
       "load)");
  flag("timeline", "TIME", "add a time series to the result, in bins of this width: 10ms; with --duration");
  flag("probe-keys", "N",
       "with --timeline: the last client worker of the last node drives no load, and writes N keys once a "
       "bin: how "
       "many cannot be written is in the time series (0)");
  flag("memory", "BYTES", "memory of a node (sim 64G; else what is free)");
  flag("json", "FILE", "write the result here, not to standard output");
  toggle("dry-run", "check the flags and run nothing");
  list("set", "KEY=VALUE", "the same as --KEY VALUE");
  return all;
}

std::vector<std::string> flag_names(const kv::Registry& registry) {
  std::vector<std::string> names = {"help"};
  for (const auto& option : bench_flags().options()) names.push_back(option->long_name());
  for (const auto& [name, module] : registry) {
    for (const kv::OptionSpec& spec : module->options()) names.push_back(spec.key);
  }
  return names;
}

std::string unknown_flag(std::string name, const kv::Registry& registry) {
  const std::string shown = name.substr(0, name.find('='));
  while (name.starts_with("-")) name.erase(0, 1);
  name = name.substr(0, name.find('='));
  const std::string near = kv::nearest(name, flag_names(registry));
  return fmt::format("{}: no such flag{}", shown.starts_with("-") ? shown : "--" + shown,
                     near.empty() ? "" : fmt::format("; did you mean --{}?", near));
}

// A simulated cluster has work in every millisecond, even if nobody asks it for anything.
constexpr double longest_simulated_s = 3600;

// The flags as given, --set folded in.
struct Given {
  po::variables_map map;
  std::map<std::string, std::string> settings;

  [[nodiscard]] std::optional<std::string> text(const std::string& key) const {
    if (const auto found = settings.find(key); found != settings.end()) return found->second;
    if (map.count(key) == 0) return std::nullopt;
    return map[key].as<std::string>();
  }
  [[nodiscard]] std::vector<std::string> list(const std::string& key) const {
    if (const auto found = settings.find(key); found != settings.end()) return {found->second};
    return map.count(key) == 0 ? std::vector<std::string>() : map[key].as<std::vector<std::string>>();
  }
};

std::unexpected<Error> bad(std::string_view key, std::string_view text, std::string_view expected) {
  return fail(ErrorCode::invalid_argument, fmt::format("--{}: \"{}\" is not {}", key, text, expected));
}

// Each of these leaves `into` alone when the flag was not given.
template <typename T>
Result<> whole(const Given& given, const std::string& key, T& into, std::uint64_t least, std::uint64_t most) {
  const auto text = given.text(key);
  if (!text) return {};
  const auto value = parse_size(*text, key);
  if (!value || *value < least || *value > most)
    return bad(key, *text, fmt::format("a whole number from {} to {}", least, most));
  into = static_cast<T>(*value);
  return {};
}
Result<> bytes(const Given& given, const std::string& key, std::uint32_t& into) {
  const auto text = given.text(key);
  if (!text) return {};
  const auto value = parse_size(*text, key);
  if (!value || *value == 0 || *value > 0x4000'0000)
    return bad(key, *text, "a size from 1 byte to 1G, such as 128 or 16K");
  into = static_cast<std::uint32_t>(*value);
  return {};
}
Result<> real(const Given& given, const std::string& key, double& into, double least, double most) {
  const auto text = given.text(key);
  if (!text) return {};
  double value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || end != text->data() + text->size() || !(value >= least && value <= most)) {
    return bad(key, *text, fmt::format("a number from {} to {:g}", least, most));
  }
  into = value;
  return {};
}
Result<> span(const Given& given, const std::string& key, Nanos& into) {
  const auto text = given.text(key);
  if (!text) return {};
  const auto value = parse_duration(*text, key);
  if (!value) return bad(key, *text, "a duration with its unit, such as 50ms or 10s");
  into = *value;
  return {};
}
Result<> boolean(const Given& given, const std::string& key, bool& into) {
  const auto text = given.text(key);
  if (!text) return {};
  if (*text != "true" && *text != "false") return bad(key, *text, "true or false");
  into = *text == "true";
  return {};
}
Result<> one_of(const Given& given, const std::string& key, std::string& into,
                std::vector<std::string> choices) {
  const auto text = given.text(key);
  if (!text) return {};
  if (std::ranges::find(choices, *text) == choices.end())
    return bad(key, *text, fmt::format("one of {}", fmt::join(choices, ", ")));
  into = *text;
  return {};
}

Result<Given> tokenise(const std::vector<std::string>& arguments, const kv::Registry& registry) {
  po::options_description all = bench_flags();
  std::set<std::string> keys;  // two protocols of one room may share an option
  for (const auto& [name, module] : registry) {
    for (const kv::OptionSpec& spec : module->options()) {
      if (keys.insert(spec.key).second) all.add_options()(spec.key.c_str(), po::value<std::string>(), "");
    }
  }
  Given given;
  try {
    namespace style = po::command_line_style;
    po::command_line_parser parser(arguments);
    // No positional arguments: boost would otherwise take a stray word in silence.
    const auto parsed = parser.options(all)
                            .positional(po::positional_options_description())
                            .style(style::unix_style & ~style::allow_guessing)
                            .run();
    po::store(parsed, given.map);
  } catch (const po::unknown_option& error) {
    return fail(ErrorCode::invalid_argument, unknown_flag(error.get_option_name(), registry));
  } catch (const po::too_many_positional_options_error&) {
    return fail(ErrorCode::invalid_argument,
                "bench: a word that belongs to no flag; loch bench --help lists the flags");
  } catch (const po::error_with_option_name& error) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: given more than once or without its value", error.get_option_name()));
  } catch (const po::error& error) {
    return fail(ErrorCode::invalid_argument, fmt::format("bench: {}", error.what()));
  }
  const auto names = flag_names(registry);
  if (given.map.count("set") == 0) return given;
  for (const std::string& text : given.map["set"].as<std::vector<std::string>>()) {
    LOCH_ASSIGN(auto setting, split_setting(text));
    if (std::ranges::find(names, setting.first) == names.end() || setting.first == "set") {
      return fail(ErrorCode::invalid_argument, unknown_flag(setting.first, registry));
    }
    given.settings[setting.first] = setting.second;
  }
  return given;
}

// A workload file's fields become the defaults that flags override.
Result<> apply_workload(const Given& given, BenchOptions& o) {
  std::vector<std::string> files = given.list("workload");
  for (const std::string& file : given.list("property-file")) files.push_back(file);
  const std::vector<std::string> overrides = given.list("property");
  if (files.empty() && overrides.empty()) return {};
  LOCH_ASSIGN(const workloads::WorkloadSpec spec, workloads::load_workload(files, overrides));
  o.workload_files = fmt::format("{}", fmt::join(files, " "));
  if (spec.mix) o.load.mix = *spec.mix;
  if (spec.distribution) o.load.distribution = *spec.distribution;
  if (spec.records) o.keys = *spec.records;
  if (spec.operations) o.load.operations = *spec.operations;
  if (spec.key_size) o.key_size = *spec.key_size;
  if (spec.value_size) o.value_size = *spec.value_size;
  if (spec.target_rate) o.load.rate = *spec.target_rate;
  if (spec.duration) o.load.duration = *spec.duration;
  if (spec.verify) o.load.verify = *spec.verify;
  o.key_order = spec.key_order;
  o.zero_padding = spec.zero_padding;
  o.notes = spec.notes;
  if (spec.threads) {
    o.notes.push_back(fmt::format(
        "threadcount: {} ignored; --nodes, --clients and --window say who drives load", *spec.threads));
  }
  return {};
}

Result<> apply_load(const Given& given, BenchOptions& o) {
  workloads::LoadConfig& load = o.load;
  if (given.text("get") || given.text("delete")) {
    workloads::OperationMix mix{.get = 0.9, .put = 0, .remove = 0, .insert = 0, .read_modify_write = 0};
    LOCH_TRY(real(given, "get", mix.get, 0, 1));
    LOCH_TRY(real(given, "delete", mix.remove, 0, 1));
    mix.put = 1 - mix.get - mix.remove;
    if (mix.put < -1e-9) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--get {:g} and --delete {:g}: together over 1", mix.get, mix.remove));
    }
    mix.put = std::max(0.0, std::round(mix.put * 1e12) / 1e12);  // 0.1, not 1 - 0.9
    load.mix = mix;
  }
  if (const auto text = given.text("distribution")) {
    const auto kind = workloads::parse_distribution(*text, "--distribution");
    if (!kind) return std::unexpected(kind.error());
    load.distribution.kind = *kind;
  }
  LOCH_TRY(real(given, "zipf-theta", load.distribution.zipf_theta, 1e-6, 10));
  LOCH_TRY(real(given, "locality", load.distribution.locality, 0, 1));
  LOCH_TRY(real(given, "hotspot-data", load.distribution.hotspot_data, 0, 1));
  LOCH_TRY(real(given, "hotspot-operations", load.distribution.hotspot_operations, 0, 1));
  LOCH_TRY(real(given, "rate", load.rate, 0, 1e12));
  std::string arrivals = "poisson";
  LOCH_TRY(one_of(given, "arrivals", arrivals, {"poisson", "fixed"}));
  load.fixed_gaps = arrivals == "fixed";
  LOCH_TRY(span(given, "think", load.think));
  if (load.think > 0 && (load.rate > 0 || !o.search.empty())) {
    return fail(ErrorCode::invalid_argument, "--think: of a closed loop; without --rate and --search");
  }
  const bool is_sim = o.fabric == "sim";
  load.warmup = is_sim ? 1'000'000 : 500'000'000;
  LOCH_TRY(span(given, "warmup", load.warmup));
  LOCH_TRY(span(given, "settle", load.settle));
  if (given.text("duration") && given.text("operations")) {
    return fail(ErrorCode::invalid_argument, "--duration and --operations: give one of them");
  }
  if (given.text("duration")) load.operations = 0;
  if (given.text("operations")) load.duration = 0;
  LOCH_TRY(span(given, "duration", load.duration));
  LOCH_TRY(whole(given, "operations", load.operations, 1, std::uint64_t{1} << 60));
  if (is_sim && load.rate > 0 && load.operations > 0 &&
      static_cast<double>(load.operations) / load.rate > longest_simulated_s) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("--rate {:g}: {} operations would take {:.3g} simulated seconds; at most {:g}, or give "
                    "--duration",
                    load.rate, load.operations, static_cast<double>(load.operations) / load.rate,
                    longest_simulated_s));
  }
  if (given.text("duration") && load.duration == 0) return bad("duration", "0", "above 0");
  if (load.operations > 0) load.duration = 0;
  if (load.operations == 0 && load.duration == 0) load.duration = is_sim ? 20'000'000 : 5'000'000'000;
  LOCH_TRY(whole(given, "seed", load.seed, 0, ~std::uint64_t{0} >> 1));
  LOCH_TRY(boolean(given, "verify", load.verify));
  LOCH_TRY(boolean(given, "verify-full", o.verify_full));
  load.verify = load.verify || o.verify_full;
  return {};
}

// The time series, and the repairs that it is there to show.
Result<> apply_timeline(const Given& given, BenchOptions& o) {
  workloads::LoadConfig& load = o.load;
  if (given.text("repair-after")) {
    Nanos after = 0;
    LOCH_TRY(span(given, "repair-after", after));
    o.repair_after = after;
  }
  LOCH_TRY(whole(given, "probe-keys", load.probe_keys, 0, 1024));
  if (load.probe_keys > 0 && !given.text("timeline"))
    return fail(ErrorCode::invalid_argument, "--probe-keys: goes with --timeline");
  if (!given.text("timeline")) return {};
  LOCH_TRY(span(given, "timeline", load.timeline));
  if (load.duration == 0)
    return fail(ErrorCode::invalid_argument, "--timeline: goes with --duration, not with --operations");
  if (auto shape = measure::timeline_shape(load.timeline, load.duration); !shape)
    return fail(ErrorCode::invalid_argument,
                fmt::format("--timeline {}: {}", *given.text("timeline"), shape.error().message));
  if (load.probe_keys > 0 && o.clients * (o.nodes - o.server_nodes) < 2)
    return fail(ErrorCode::invalid_argument, "--probe-keys: the only client would drive no load; add one");
  return {};
}

Result<> apply_shape(const Given& given, BenchOptions& o) {
  LOCH_TRY(whole(given, "nodes", o.nodes, 1, 1024));
  LOCH_TRY(whole(given, "server-nodes", o.server_nodes, 0, 1023));
  if (o.server_nodes >= o.nodes) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("--server-nodes {}: leaves no node of {} to drive load", o.server_nodes, o.nodes));
  }
  LOCH_TRY(whole(given, "clients", o.clients, 1, 4096));
  LOCH_TRY(whole(given, "servers", o.servers, 0, 4096));
  LOCH_TRY(whole(given, "window", o.window, 1, 4096));
  LOCH_TRY(whole(given, "keys", o.keys, 1, std::uint64_t{1} << 40));
  o.max_keys = o.keys;
  if (o.load.mix.insert > 0) o.max_keys = o.keys + std::max<std::uint64_t>(o.keys, o.load.operations) + 1000;
  LOCH_TRY(whole(given, "max-keys", o.max_keys, 1, std::uint64_t{1} << 40));
  if (o.max_keys < o.keys) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--max-keys {}: below --keys {}", o.max_keys, o.keys));
  }
  LOCH_TRY(bytes(given, "key-size", o.key_size));
  LOCH_TRY(bytes(given, "value-size", o.value_size));
  LOCH_TRY(whole(given, "repeats", o.repeats, 1, 10'000));
  LOCH_TRY(whole(given, "hogs", o.hogs, 0, 10'000));
  LOCH_TRY(one_of(given, "hog-pin", o.hog_pin, {"none", "shared", "separate", "clients"}));
  LOCH_TRY(whole(given, "hog-nodes", o.hog_nodes, 0, o.nodes));
  LOCH_TRY(whole(given, "cores", o.cores, 0, 64));
  o.pin = o.fabric == "sim";
  LOCH_TRY(boolean(given, "pin", o.pin));
  for (const char* key : {"device", "port", "gid-index"}) {
    if (given.text(key) && o.fabric != "verbs")
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--{}: for --fabric verbs, not {}", key, o.fabric));
  }
  if (const auto text = given.text("device")) o.device = *text;
  LOCH_TRY(whole(given, "port", o.port, 1, 255));
  std::uint32_t gid_index = 0;
  LOCH_TRY(whole(given, "gid-index", gid_index, 0, 255));
  if (given.text("gid-index")) o.gid_index = static_cast<int>(gid_index);
  if (given.text("scrub")) {
    bool scrub = false;
    LOCH_TRY(boolean(given, "scrub", scrub));
    o.scrub = scrub;
  }
  LOCH_TRY(boolean(given, "dry-run", o.dry_run));
  return apply_timeline(given, o);
}

// For messages: "12.5 GB", where parse_size's exact spelling would be long.
std::string rounded(double bytes) {
  constexpr std::array units = {"B", "KB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < units.size(); ++unit) bytes /= 1024;
  return fmt::format("{:.3g} {}", bytes, units[unit]);
}

// How many nodes have to share this machine's memory: all, unless their processes are elsewhere.
Result<std::uint32_t> nodes_here(const BenchOptions& o) {
  if (o.fabric == "verbs") {
    LOCH_ASSIGN(const cluster::LaunchEnv env, cluster::launch_env());
    if (env.ranks > 1 && env.ranks_here > 0) return env.ranks_here;
  }
  return o.nodes;
}

// Keeping every byte of every value must not fill this machine: beyond a gibibyte the simulation
// keeps the stamps alone.
Result<> apply_memory(const Given& given, BenchOptions& o) {
  const bool is_sim = o.fabric == "sim";
  const std::uint64_t available = measure::available_memory_bytes();
  constexpr std::uint64_t simulated_node = std::uint64_t{64} << 30;
  LOCH_ASSIGN(const std::uint32_t sharing, nodes_here(o));
  o.memory_bytes = is_sim ? simulated_node : available / sharing / 5 * 4;
  LOCH_TRY(whole(given, "memory", o.memory_bytes, 1, std::uint64_t{1} << 50));
  const double record = static_cast<double>(o.key_size) + o.value_size;
  const double data = record * static_cast<double>(o.max_keys);
  const std::uint32_t holding = o.server_nodes > 0 ? o.server_nodes : o.nodes;
  if (data > static_cast<double>(o.memory_bytes) * holding) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("--keys {} of {} + {} bytes: {} of data in {} nodes of {} memory; they do not fit",
                    o.max_keys, o.key_size, o.value_size, rounded(data), holding,
                    rounded(static_cast<double>(o.memory_bytes))));
  }
  constexpr double kept_whole_up_to = 1 << 30;
  const bool elide =
      is_sim && !o.verify_full && data > kept_whole_up_to && o.value_size > kv::value_stamp_bytes;
  o.kept_value_bytes = elide ? kv::value_stamp_bytes : o.value_size;
  const double held =
      (static_cast<double>(o.key_size) + o.kept_value_bytes) * static_cast<double>(o.max_keys);
  if (is_sim && available > 0 && held > static_cast<double>(available)) {
    return fail(ErrorCode::exhausted,
                fmt::format("--keys {}: the simulation would hold {} and this machine has {} free",
                            o.max_keys, rounded(held), rounded(static_cast<double>(available))));
  }
  return {};
}

Result<> apply_protocol(const Given& given, const kv::Registry& registry, BenchOptions& o) {
  LOCH_ASSIGN(const kv::Module* module, find_protocol(registry, o.protocol));
  o.protocol_options = kv::Options(module->options());
  o.servers = module->default_servers();
  for (const kv::OptionSpec& spec : module->options()) {
    if (o.fabric != "shm" || spec.initial_on_one_machine.empty()) continue;
    LOCH_TRY(o.protocol_options.set(spec.key, spec.initial_on_one_machine));
  }
  for (const auto& [name, other] : registry) {
    for (const kv::OptionSpec& spec : other->options()) {
      const auto text = given.text(spec.key);
      if (!text) continue;
      if (!o.protocol_options.values().contains(spec.key)) {
        return fail(ErrorCode::invalid_argument,
                    fmt::format("--{}: an option of {}, but --protocol is {}", spec.key, name, o.protocol));
      }
      if (auto ok = o.protocol_options.set(spec.key, *text); !ok) {
        return fail(ErrorCode::invalid_argument, "--" + ok.error().message);
      }
    }
  }
  if (const auto mutant = given.text("mutant")) {
    const auto mutants = module->mutants();
    if (!mutants.contains(*mutant)) {
      const auto keys = mutants | std::views::keys;
      const std::vector<std::string> names(keys.begin(), keys.end());
      const std::string near = kv::nearest(*mutant, names);
      return bad("mutant", *mutant,
                 fmt::format("a mutant of {}{}", o.protocol,
                             near.empty() ? "; loch list mutants names them"
                                          : fmt::format("; did you mean {}?", near)));
    }
    o.mutant = *mutant;
  }
  return {};
}

// An emulation's values mean nothing: that is said, and the run goes on without looking at them.
Result<> apply_meaning(const kv::Registry& registry, BenchOptions& o) {
  LOCH_ASSIGN(const kv::Module* module, find_protocol(registry, o.protocol));
  if (module->consistency(o.protocol_options) != kv::Consistency::none) return {};
  if (!o.history.empty()) {
    o.notes.push_back(fmt::format("--history: {} {}; the history proves nothing (loch check --model none)",
                                  o.protocol, module->unverifiable()));
  }
  if (!o.load.verify) return {};
  o.notes.push_back(
      fmt::format("--verify: {} {}; no value was verified", o.protocol, module->unverifiable()));
  o.load.verify = o.verify_full = false;
  return {};
}

}  // namespace

Result<std::pair<std::string, std::string>> split_setting(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return fail(ErrorCode::invalid_argument, fmt::format("--set: \"{}\" is not key=value", text));
  }
  std::string key = text.substr(0, equals);
  std::ranges::replace(key, '_', '-');
  return std::pair(std::move(key), text.substr(equals + 1));
}

Result<BenchOptions> parse_bench(const std::vector<std::string>& arguments, const kv::Registry& registry) {
  LOCH_ASSIGN(const Given given, tokenise(arguments, registry));
  BenchOptions o;
  o.argv = arguments;
  for (const auto& [key, into] :
       {std::pair{"protocol", &o.protocol}, std::pair{"fabric", &o.fabric},
        std::pair{"hardware", &o.hardware}, std::pair{"history", &o.history}, std::pair{"trace", &o.trace},
        std::pair{"histogram", &o.histogram}, std::pair{"faults", &o.faults}, std::pair{"search", &o.search},
        std::pair{"json", &o.json}}) {
    if (const auto text = given.text(key)) {
      if (text->empty()) return bad(key, *text, "a name");
      *into = *text;
    }
  }
  LOCH_TRY(find_fabric(o.fabric));
  if (given.text("hardware") && o.fabric != "sim") {
    return fail(ErrorCode::invalid_argument, fmt::format("--hardware: for --fabric sim, not {}", o.fabric));
  }
  LOCH_TRY(apply_protocol(given, registry, o));
  LOCH_TRY(apply_workload(given, o));
  LOCH_TRY(apply_load(given, o));
  LOCH_TRY(apply_shape(given, o));
  LOCH_TRY(apply_meaning(registry, o));
  LOCH_TRY(apply_memory(given, o));
  if (o.hogs > 0 && o.fabric != "sim" && o.hog_pin != "none" && !o.pin) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--hog-pin {}: workers have no cores of their own on {} without --pin", o.hog_pin,
                            o.fabric));
  }
  if (o.load.settle > 0 && o.fabric != "sim") {
    return fail(ErrorCode::unsupported, "--settle: for --fabric sim; elsewhere --warmup is enough");
  }
  for (const auto& [key, is_given] :
       {std::pair{"cores", o.cores > 0}, std::pair{"hog-nodes", o.hog_nodes > 0},
        std::pair{"hog-pin clients", o.hog_pin == "clients"}}) {
    if (is_given && o.fabric != "sim")
      return fail(ErrorCode::unsupported, fmt::format("--{}: for --fabric sim, not {}", key, o.fabric));
  }
  if (!o.history.empty() && o.value_size < 8) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("--history: values of {} bytes cannot name their writer; at least 8", o.value_size));
  }
  if (!o.history.empty() && (o.repeats > 1 || !o.search.empty())) {
    return fail(ErrorCode::invalid_argument,
                "--history: a history is of one run; without --repeats and --search");
  }
  if (!o.search.empty()) {
    LOCH_TRY(parse_goal(o.search));
    if (o.load.rate > 0 || o.repeats > 1 || o.load.duration == 0) {
      return fail(ErrorCode::invalid_argument,
                  "--search: finds the rate; without --rate, --repeats and --operations");
    }
  }
  return o;
}

kv::DeployConfig deploy_config(const BenchOptions& o) {
  kv::DeployConfig config;
  config.nodes = o.nodes;
  config.client_workers = o.clients;
  config.server_workers = o.servers;
  config.window = o.window;
  config.key_size = o.key_size;
  config.value_size = o.value_size;
  config.keys = o.keys;
  config.max_keys = o.max_keys;
  config.kept_value_bytes = o.kept_value_bytes;
  config.memory_bytes = o.memory_bytes;
  config.seed = o.load.seed;
  config.server_nodes = o.server_nodes;
  // A number of operations says nothing of how long they take.
  config.load_time = o.load.duration > 0 ? o.load.warmup + o.load.duration : fabric::forever;
  return config;
}

Result<> validate(const BenchOptions& o, const kv::Module& module) {
  for (const auto& [flag, path] : {std::pair{"json", &o.json}, std::pair{"histogram", &o.histogram},
                                   std::pair{"trace", &o.trace}, std::pair{"history", &o.history}}) {
    if (path->empty()) continue;
    if (const std::string why = why_no_output(*path); !why.empty()) {
      return fail(ErrorCode::invalid_argument, fmt::format("--{}: {}: {}", flag, *path, why));
    }
  }
  LOCH_TRY(
      workloads::Records::make({o.keys, o.max_keys, o.key_size, o.value_size, o.key_order, o.zero_padding}));
  LOCH_TRY(workloads::make_chooser(o.load.distribution, o.keys, o.max_keys - o.keys));
  LOCH_TRY(module.deploy(deploy_config(o), o.protocol_options, o.mutant));
  return {};
}

std::vector<BenchKey> bench_keys() {
  std::vector<BenchKey> keys;
  for (const auto& option : bench_flags().options()) {
    std::string key = option->long_name();
    std::ranges::replace(key, '-', '_');
    keys.push_back({std::move(key), option->long_name(), option->format_parameter(), option->description()});
  }
  return keys;
}

std::string bench_help(const kv::Registry& registry) {
  std::ostringstream out;
  out << "Usage: loch bench [flags]\n\n" << bench_flags();
  out << "\nProtocol options: loch bench --help PROTOCOL, for ";
  std::vector<std::string> names;
  for (const auto& each : registry) names.push_back(each.first);
  out << fmt::format("{}\n", fmt::join(names, ", "));
  out << "Exit status 0: it ran; 1: a value was wrong, or it ended in a deadlock or at its deadline;\n"
         "2: bad input; 130: interrupted.\n"
         "Example: loch bench --protocol herd --nodes 4 --clients 3 --servers 1 --get 0.95 --duration 20ms\n";
  return out.str();
}

Result<std::string> protocol_help(const kv::Registry& registry, const std::string& protocol) {
  LOCH_ASSIGN(const kv::Module* module, find_protocol(registry, protocol));
  constexpr std::array kinds = {"BOOL", "N", "NUMBER", "BYTES", "TIME", "NAME", "TEXT"};
  std::string text = fmt::format("{}: {} ({})\n\n", module->name(), module->summary(), module->paper());
  for (const kv::OptionSpec& spec : module->options()) {
    const std::string kind = spec.choices.empty() ? kinds[static_cast<std::size_t>(spec.type)]
                                                  : fmt::format("{}", fmt::join(spec.choices, "|"));
    const std::string shm =
        spec.initial_on_one_machine.empty() ? "" : fmt::format("; on shm {}", spec.initial_on_one_machine);
    text += fmt::format("  --{} {}\n      {} (default {}{})\n", spec.key, kind, spec.help, spec.initial, shm);
  }
  if (!module->mutants().empty()) text += "\nMutants (--mutant NAME):\n";
  for (const auto& [name, mutant] : module->mutants())
    text += fmt::format("  {:<28} {}\n", name, mutant.breaks);
  return text;
}

}  // namespace loch::cli
