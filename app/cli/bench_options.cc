// Parses the flags of `loch bench`, applies workload files, fills in defaults and refuses contradictory
// combinations.
#include "app/cli/bench_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <ranges>
#include <set>

#include "app/cli/bench_flags.h"
#include "app/cli/bench_replay.h"
#include "app/cli/registry.h"
#include "app/cli/search.h"
#include "common/base/check.h"
#include "common/chunks/plan.h"
#include "common/kv/spare.h"
#include "common/kv/value.h"

#include "common/base/nearest.h"
#include "common/base/process_memory.h"
#include "common/cluster/launch_env.h"
#include "common/fabric/throttle/throttle.h"
#include "common/kv/conflict_kinds.h"

namespace loch::cli {
namespace {

// The flags of the command line, including those given by --set.
struct Given {
  std::map<std::string, std::vector<std::string>> texts;
  std::map<std::string, std::string> settings;

  [[nodiscard]] std::optional<std::string> text(const std::string& key) const {
    if (const auto found = settings.find(key); found != settings.end()) return found->second;
    if (const auto found = texts.find(key); found != texts.end()) return found->second.front();
    return std::nullopt;
  }
  [[nodiscard]] std::vector<std::string> list(const std::string& key) const {
    if (const auto found = settings.find(key); found != settings.end()) return {found->second};
    const auto found = texts.find(key);
    return found == texts.end() ? std::vector<std::string>() : found->second;
  }
};

std::unexpected<Error> bad(std::string_view key, std::string_view text, std::string_view expected) {
  return fail(ErrorCode::invalid_argument, fmt::format("--{}: \"{}\" is not {}", key, text, expected));
}

// The flag's parsed value; nullopt if the flag was not given.
Result<std::optional<settings::Value>> value_of(const Given& given, const BenchFlag& flag) {
  const auto text = given.text(flag.setting.key);
  if (!text) return std::nullopt;
  auto value = settings::parse(flag.setting, *text);
  if (!value) return fail(ErrorCode::invalid_argument, "--" + value.error().message);
  return std::optional(*std::move(value));
}

// Sets `into` to the value of a flag that is handled together with other flags, if the flag was given.
template <typename T>
Result<> derive(const Given& given, std::string_view key, T& into) {
  LOCH_ASSIGN(const auto value, value_of(given, *find_bench_flag(key)));
  if (value) into = std::get<T>(*value);
  return {};
}

bool is_given(const Given& given, const std::string& flag) {
  return find_bench_flag(flag)->is_list ? !given.list(flag).empty() : given.text(flag).has_value();
}

void set_defaults(BenchOptions& o) {
  for (const BenchFlag& flag : bench_flags()) {
    if (flag.is_derived || flag.setting.initial.empty()) continue;
    const auto value = settings::parse(flag.setting, flag.setting.initial);
    LOCH_CHECK(value.has_value(), "the default of {}", value.error().message);
    store(flag, *value, o);
  }
}

// Stores the value of every given flag that has its own member of BenchOptions.
Result<> set_given(const Given& given, BenchOptions& o) {
  for (const BenchFlag& flag : bench_flags()) {
    if (flag.is_derived) continue;
    LOCH_ASSIGN(const auto value, value_of(given, flag));
    if (value) store(flag, *value, o);
  }
  return {};
}

// The command `loch bench` with the options of all protocols, so that the error for an option of another
// protocol can name that protocol.
settings::Command command_with(const kv::Registry& registry) {
  settings::Command command = bench_command();
  std::set<std::string> keys;  // keys already added: two protocols of one module may share an option
  for (const auto& [name, module] : registry) {
    for (const kv::OptionSpec& spec : module->options()) {
      // Options are added as flags with any text as value; the chosen protocol later parses the values of its
      // own options.
      if (!keys.insert(spec.key).second) continue;
      command.flags.push_back({.setting = settings::of(settings::Type::text, spec.key, "", "")});
      command.flags.back().setting.aliases = spec.aliases;
    }
  }
  return command;
}

Result<Given> tokenise(const std::vector<std::string>& arguments, const kv::Registry& registry) {
  const settings::Command command = command_with(registry);
  LOCH_ASSIGN(settings::Given words, settings::parse(command, arguments));
  Given given;
  for (auto& [key, texts] : words.texts) {
    if (texts.size() > 1 && !settings::find_flag(command, key)->is_list)
      return fail(ErrorCode::invalid_argument, fmt::format("--{}: given more than once", key));
    given.texts[key] = std::move(texts);
  }
  for (const std::string& text : given.list("set")) {
    LOCH_ASSIGN(auto setting, split_setting(text));
    const settings::Flag* flag = settings::find_flag(command, setting.first);
    if (flag == nullptr || setting.first == "set")
      return fail(ErrorCode::invalid_argument, settings::unknown_flag(command, "--" + setting.first));
    given.settings[flag->setting.key] = setting.second;
  }
  return given;
}

// Takes the workload file's fields as defaults, which flags override.
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
  o.key_request = spec.key_sizes;
  o.value_request = spec.value_sizes;
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

Result<> apply_mix(const Given& given, BenchOptions& o) {
  if (!given.text("get") && !given.text("delete") && !given.text("insert-if-absent")) return {};
  workloads::OperationMix mix{
      .get = 0.9, .put = 0, .remove = 0, .insert = 0, .read_modify_write = 0, .insert_if_absent = 0};
  LOCH_TRY(derive(given, "get", mix.get));
  LOCH_TRY(derive(given, "delete", mix.remove));
  LOCH_TRY(derive(given, "insert-if-absent", mix.insert_if_absent));
  mix.put = 1 - mix.get - mix.remove - mix.insert_if_absent;
  if (mix.put < -1e-9) {
    const std::string inserts =
        mix.insert_if_absent > 0 ? fmt::format(" and --insert-if-absent {:g}", mix.insert_if_absent) : "";
    return fail(ErrorCode::invalid_argument,
                fmt::format("--get {:g} and --delete {:g}{}: together over 1", mix.get, mix.remove, inserts));
  }
  mix.put = std::max(0.0, std::round(mix.put * 1e12) / 1e12);  // rounds, so that 1 - 0.9 gives 0.1
  o.load.mix = mix;
  return {};
}

Result<> apply_distribution(const Given& given, BenchOptions& o) {
  std::string arrivals = "poisson";
  LOCH_TRY(derive(given, "arrivals", arrivals));
  o.load.fixed_gaps = arrivals == "fixed";
  const auto text = given.text("distribution");
  if (!text) return {};
  const auto kind = workloads::parse_distribution(*text, "--distribution");
  if (!kind) return std::unexpected(kind.error());
  o.load.distribution.kind = *kind;
  return {};
}

// Applies the flags of the mix and the distribution, and sets defaults that depend on the fabric, before the
// other flags are stored.
Result<> prepare_load(const Given& given, BenchOptions& o) {
  LOCH_TRY(apply_mix(given, o));
  LOCH_TRY(apply_distribution(given, o));
  const bool is_sim = o.fabric == "sim";
  o.load.warmup = is_sim ? 1'000'000 : 500'000'000;
  o.pin = o.fabric != "shm";
  o.pin_is_given = is_given(given, "pin");
  if (given.text("duration") && given.text("operations")) {
    return fail(ErrorCode::invalid_argument, "--duration and --operations: give one of them");
  }
  if (given.text("duration")) o.load.operations = 0;
  if (given.text("operations")) o.load.duration = 0;
  return {};
}

// Refuses --at-end abandon with flags whose results need operations that have ended, or with which nobody
// knows before the run when its measurement window ends.
Result<> check_end(const BenchOptions& o) {
  if (o.at_end != "abandon") return {};
  for (const auto& [flag, is_given] :
       {std::pair{"--operations", o.load.duration == 0}, std::pair{"--settle", o.load.settle > 0},
        std::pair{"--hogs", o.background_workers > 0}, std::pair{"--history", !o.history.empty()},
        std::pair{"--scrub", o.scrub.value_or(false)},
        std::pair{"--repair-after", o.repair_after.has_value()}}) {
    if (is_given) return fail(ErrorCode::invalid_argument, fmt::format("--at-end abandon: without {}", flag));
  }
  return {};
}

// Checks the flags of back-off against each other, and makes the load's configuration of them.
Result<> apply_backoff(const Given& given, BenchOptions& o) {
  for (const char* flag : {"backoff-epoch", "backoff-few", "backoff-many"}) {
    if (given.text(flag) && o.backoff != "limited" && o.backoff != "throttled")
      return fail(ErrorCode::invalid_argument, fmt::format("--{}: for --backoff limited or throttled", flag));
  }
  if (given.text("backoff-start") && (o.backoff == "own" || o.backoff == "none"))
    return fail(ErrorCode::invalid_argument,
                "--backoff-start: for --backoff exponential, limited or throttled");
  if (o.conflicts.few > o.conflicts.many) {
    return fail(ErrorCode::invalid_argument, fmt::format("--backoff-few {:g}: above --backoff-many {:g}",
                                                         o.conflicts.few, o.conflicts.many));
  }
  constexpr auto& kinds = kv::conflict_kinds;
  const auto kind = std::ranges::find(kinds, o.backoff);
  if (kind == kinds.end()) return {};
  o.conflicts.kind = static_cast<kv::ConflictConfig::Kind>(kind - kinds.begin());
  if (o.conflicts.epoch == 0) o.conflicts.epoch = o.fabric == "sim" ? 1'000'000 : 20'000'000;
  o.load.conflicts = o.conflicts;
  return {};
}

// Applies the flags of client workers that take turns. Called when the number of clients is known.
Result<> apply_active(const Given& given, BenchOptions& o) {
  const std::optional<std::string> text = given.text("active");
  if (text.has_value() != given.text("active-every").has_value())
    return fail(ErrorCode::invalid_argument, "--active and --active-every: give both or none");
  if (!text) return {};
  workloads::ActiveWorkers& active = o.load.active;
  const std::size_t dots = text->find("..");
  const auto reads = [](std::string_view digits, std::uint32_t& into) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), into);
    return error == std::errc{} && end == digits.data() + digits.size();
  };
  const bool is_range = dots != std::string::npos &&
                        reads(std::string_view(*text).substr(0, dots), active.least) &&
                        reads(std::string_view(*text).substr(dots + 2), active.most);
  if (!is_range || active.least == 0 || active.least > active.most)
    return bad("active", *text, "two numbers from 1 on, the lower first, such as 36..95");
  if (active.most > o.clients)
    return fail(ErrorCode::invalid_argument,
                fmt::format("--active {}: above --clients {}", *text, o.clients));
  if (o.load.rate > 0 || !o.search.empty())
    return fail(ErrorCode::invalid_argument, "--active: of a closed loop; without --rate and --search");
  if (o.load.duration == 0)
    return fail(
        ErrorCode::invalid_argument,
        "--active: goes with --duration, not with --operations, of which idle clients would keep theirs");
  return {};
}

// Checks combinations of load flags and completes their defaults, after all flags are stored.
Result<> check_load(BenchOptions& o) {
  workloads::LoadConfig& load = o.load;
  const bool is_sim = o.fabric == "sim";
  for (const auto& [flag, span] : {std::pair{"think", load.think}, std::pair{"pause", load.pause}}) {
    if (span > 0 && (load.rate > 0 || !o.search.empty())) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--{}: of a closed loop; without --rate and --search", flag));
    }
  }
  if (is_sim && load.rate > 0 && load.operations > 0 &&
      static_cast<double>(load.operations) / load.rate > longest_simulated_s) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("--rate {:g}: {} operations would take {:.3g} simulated seconds; at most {:g}, or give "
                    "--duration",
                    load.rate, load.operations, static_cast<double>(load.operations) / load.rate,
                    longest_simulated_s));
  }
  if (load.operations > 0) load.duration = 0;
  if (load.operations == 0 && load.duration == 0) load.duration = is_sim ? 20'000'000 : 5'000'000'000;
  load.verify = load.verify || o.verify_full;
  return {};
}

// Checks the flags of the time series, and those of repairs of lost nodes while clients drive load.
Result<> check_timeline(const Given& given, const BenchOptions& o) {
  const workloads::LoadConfig& load = o.load;
  if (load.probe_keys > 0 && !given.text("timeline"))
    return fail(ErrorCode::invalid_argument, "--probe-keys: goes with --timeline");
  if (!given.text("timeline")) return {};
  if (load.duration == 0)
    return fail(ErrorCode::invalid_argument, "--timeline: goes with --duration, not with --operations");
  if (auto shape = measure::timeline_shape(load.timeline, load.duration); !shape)
    return fail(ErrorCode::invalid_argument,
                fmt::format("--timeline {}: {}", *given.text("timeline"), shape.error().message));
  if (load.probe_keys > 0 && o.clients * (o.nodes - o.server_nodes) < 2)
    return fail(ErrorCode::invalid_argument, "--probe-keys: the only client would drive no load; add one");
  return {};
}

// Applies the flags of size distributions ("key-size-…" or "value-size-…"), which override those of a
// workload file.
Result<> apply_sizes(const Given& given, const std::string& flag, workloads::SizedData of,
                     workloads::SizeRequest& request, std::uint32_t& most,
                     std::shared_ptr<const workloads::Sizes>& sizes, std::vector<std::string>& notes) {
  workloads::SizeRequest asked;
  if (given.text(flag + "-distribution")) {
    std::string kind;
    LOCH_TRY(derive(given, flag + "-distribution", kind));
    asked.kind = static_cast<workloads::SizeKind>(std::ranges::find(workloads::size_kind_names(), kind) -
                                                  workloads::size_kind_names().begin());
  }
  if (given.text(flag + "-min")) {
    std::int64_t least = 0;
    LOCH_TRY(derive(given, flag + "-min", least));
    asked.least = static_cast<std::uint32_t>(least);
  }
  if (const auto text = given.text(flag + "-pareto")) {
    asked.pareto = workloads::parse_pareto(*text);
    if (!asked.pareto) return bad(flag + "-pareto", *text, "three numbers, such as 15,214.476,0.348238");
  }
  asked.histogram = given.text(flag + "-histogram");
  request.override_with(asked);
  LOCH_ASSIGN(sizes, workloads::sizes_of(request, most, of, flag));
  if (sizes == nullptr) return {};
  if (sizes->cut_share() > 1e-6)
    notes.push_back(fmt::format("--{}: {:.2g} % of the draws are above {} bytes and were taken as that", flag,
                                100 * sizes->cut_share(), sizes->spec().most));
  most = sizes->most();
  if (sizes->is_fixed()) sizes = nullptr;
  return {};
}

}  // namespace

Result<std::uint16_t> parse_pkey(const std::string& text) {
  const std::string_view digits =
      std::string_view(text).starts_with("0x") ? std::string_view(text).substr(2) : "";
  std::uint16_t pkey = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), pkey, 16);
  if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size())
    return bad("pkey", text, "0x and up to four hexadecimal digits, such as 0x8001");
  return pkey;
}

namespace {

Result<> check_shape(const Given& given, BenchOptions& o) {
  constexpr std::uint32_t most_real_nodes = 1024;
  if (o.fabric != "sim" && o.nodes > most_real_nodes) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--nodes {}: a cluster of more than {} is for --fabric sim, not {}", o.nodes,
                            most_real_nodes, o.fabric));
  }
  if (o.server_nodes >= o.nodes) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("--server-nodes {}: leaves no node of {} to drive load", o.server_nodes, o.nodes));
  }
  if (!given.text("max-keys") && !o.load.replay) {
    o.max_keys = o.keys;
    if (o.load.mix.insert > 0) o.max_keys += std::max<std::uint64_t>(o.keys, o.load.operations) + 1000;
  }
  if (o.max_keys < o.keys) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--max-keys {}: below --keys {}", o.max_keys, o.keys));
  }
  if (o.background_nodes > o.nodes)
    return bad("hog-nodes", fmt::format("{}", o.background_nodes),
               fmt::format("a whole number from 0 to {}", o.nodes));
  LOCH_TRY(apply_sizes(given, "key-size", workloads::SizedData::key, o.key_request, o.key_size, o.key_sizes,
                       o.notes));
  LOCH_TRY(apply_sizes(given, "value-size", workloads::SizedData::value, o.value_request, o.value_size,
                       o.value_sizes, o.notes));
  for (const char* key : {"device", "port", "gid-index", "pkey", "service-level", "traffic-class",
                          "flow-label", "assume-order", "post-send"}) {
    if (given.text(key) && o.fabric != "verbs")
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--{}: for --fabric verbs, not {}", key, o.fabric));
  }
  for (const char* key : {"ofi-provider", "ofi-order"}) {
    if (given.text(key) && o.fabric != "ofi")
      return fail(ErrorCode::invalid_argument, fmt::format("--{}: for --fabric ofi, not {}", key, o.fabric));
  }
  if (!o.pkey.empty()) LOCH_TRY(parse_pkey(o.pkey));
  LOCH_TRY(apply_active(given, o));
  return check_timeline(given, o);
}

// A size rounded to three digits ("12.5 GB"), for messages.
std::string rounded(double bytes) {
  constexpr std::array units = {"B", "KB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < units.size(); ++unit) bytes /= 1024;
  return fmt::format("{:.3g} {}", bytes, units[unit]);
}

// Number of nodes on this machine, which share its memory.
Result<std::uint32_t> nodes_here(const BenchOptions& o) {
  if (o.fabric == "verbs" || o.fabric == "ofi") {
    LOCH_ASSIGN(const cluster::LaunchEnv env, cluster::launch_env());
    if (env.ranks > 1 && env.ranks_here > 0) return env.ranks_here;
  }
  return o.nodes;
}

// Says which doorbell registers --doorbells auto stands for where the fabric alone decides that, and refuses
// registers of their own on a fabric that has none.
Result<> apply_doorbells(BenchOptions& o) {
  if (o.doorbells == "own" && o.fabric != "sim" && o.fabric != "verbs")
    return fail(ErrorCode::unsupported,
                fmt::format("--doorbells own: for --fabric sim or verbs, not {}", o.fabric));
  if (o.doorbells == "auto" && o.fabric != "verbs") o.doorbells = "shared";
  return {};
}

// Refuses what a simulation by several threads (fabric::sim::SimConfig::threads) cannot do.
Result<> check_threads(const BenchOptions& o) {
  if (o.threads == 0) return {};
  const auto refuse = [&o](std::string_view why) {
    return fail(ErrorCode::invalid_argument, fmt::format("--threads {}: {}", o.threads, why));
  };
  if (o.threads > o.nodes)
    return refuse(fmt::format("a thread simulates at least one node, and there are {}", o.nodes));
  if (o.at_end == "abandon") return refuse("not with --at-end abandon");
  if (!o.faults.empty()) return refuse("not with --faults: failures concern several nodes at one instant");
  if (!o.history.empty()) return refuse("not with --history, which one thread writes");
  if (!o.trace.empty()) return refuse("not with --trace, which one thread writes");
  if (o.load.replay) return refuse("not with --trace-replay");
  if (o.load.timeline > 0) return refuse("not with --timeline");
  if (o.load.mix.insert > 0) return refuse("not with inserts, whose number all clients know at once");
  if (o.load.settle > 0) return refuse("not with --settle, after which clients begin at different instants");
  if (o.load.repair_after) return refuse("not with repairs during the load");
  return {};
}

// Whether something may look at every byte of the run's values: a check of values, a history, a store that
// writes them to a file, or faults, which tear values.
bool looks_at_values(const BenchOptions& o) {
  return o.load.verify || !o.history.empty() || !o.faults.empty() || writes_file(o);
}

// Checks that the data fits in memory. A simulation keeps only the first bytes of each value, which name the
// writer, if nothing looks at the remaining bytes, or if there is more than 1 GiB of data and --verify-full
// was not given.
Result<> apply_memory(const Given& given, BenchOptions& o) {
  const bool is_sim = o.fabric == "sim";
  const std::uint64_t available = available_memory_bytes();
  constexpr std::uint64_t simulated_node = std::uint64_t{64} << 30;
  LOCH_ASSIGN(const std::uint32_t sharing, nodes_here(o));
  if (!given.text("memory")) o.memory_bytes = is_sim ? simulated_node : available / sharing / 5 * 4;
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
  const double share = data / holding;
  if (o.full_data > 0 && static_cast<double>(o.full_data) < share) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--full-data {}: {} keys of {} + {} bytes take {} a node already",
                            rounded(static_cast<double>(o.full_data)), o.max_keys, o.key_size, o.value_size,
                            rounded(share)));
  }
  if (o.full_data > 0) o.data_scale = static_cast<double>(o.full_data) / share;
  // Values are also kept whole if --memory is given, because tables are then sized to fill it, and if values
  // have several sizes, because they then share a log.
  const bool is_asked_for = looks_at_values(o) || given.text("memory").has_value() ||
                            o.value_sizes != nullptr || o.load.replay.has_value();
  const bool is_kept = o.verify_full || (is_asked_for && data <= kv::whole_values_up_to);
  const bool elide = is_sim && !is_kept && o.value_size > kv::value_stamp_bytes;
  o.kept_value_bytes = elide ? kv::value_stamp_bytes : o.value_size;
  if (!is_sim || available == 0) return {};
  const double held =
      (static_cast<double>(o.key_size) + o.kept_value_bytes) * static_cast<double>(o.max_keys);
  if (held > static_cast<double>(available)) {
    return fail(ErrorCode::exhausted,
                fmt::format("--keys {}: the simulation would hold {} and this machine has {} free",
                            o.max_keys, rounded(held), rounded(static_cast<double>(available))));
  }
  // least memory in bytes that a worker's connection to one node takes: its queue pair, and its entries in
  // tables that list queue pairs
  constexpr double connection_bytes = 224;
  const double driving = o.nodes - o.server_nodes, pairs = driving * holding;
  const double connections = pairs * (o.clients + o.servers) * connection_bytes;
  if (connections > static_cast<double>(available)) {
    return fail(ErrorCode::exhausted,
                fmt::format("--nodes {}: the connections of the simulation's workers would take {} and this "
                            "machine has {} free",
                            o.nodes, rounded(connections), rounded(static_cast<double>(available))));
  }
  return {};
}

// Returns the default value of a protocol's option on the given fabric.
const std::string& initial_on(const std::string& fabric, const kv::OptionSpec& spec) {
  if (fabric == "shm" && !spec.initial_on_one_machine.empty()) return spec.initial_on_one_machine;
  const bool is_timed = fabric != "sim" && !spec.initial_in_real_time.empty();
  return is_timed ? spec.initial_in_real_time : spec.initial;
}

Result<> apply_protocol(const Given& given, const kv::Registry& registry, BenchOptions& o) {
  LOCH_ASSIGN(const kv::Module* module, find_protocol(registry, o.protocol));
  o.protocol_options = kv::Options(module->options());
  for (const kv::OptionSpec& spec : module->options()) {
    if (const std::string& initial = initial_on(o.fabric, spec); initial != spec.initial)
      LOCH_TRY(o.protocol_options.set_default(spec.key, initial));
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
  o.servers = module->default_servers() + chunks::managers(o.protocol_options);
  if (const auto mutant = given.text("mutant")) {
    const auto mutants = module->mutants();
    if (!mutants.contains(*mutant)) {
      const auto keys = mutants | std::views::keys;
      const std::vector<std::string> names(keys.begin(), keys.end());
      const std::string near = nearest(*mutant, names);
      return bad("mutant", *mutant,
                 fmt::format("a mutant of {}{}", o.protocol,
                             near.empty() ? "; loch list mutants names them"
                                          : fmt::format("; did you mean {}?", near)));
    }
    o.mutant = *mutant;
  }
  return {};
}

// For a protocol whose GETs return meaningless values, such as an emulation of a published store: switches
// verification off, and adds notes on what is not verified.
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

bool writes_file(const BenchOptions& o) {
  return std::ranges::any_of(o.protocol_options.specs(), [&o](const kv::OptionSpec& spec) {
    return spec.role == kv::OptionRole::file && !o.protocol_options.text(spec.key).empty();
  });
}

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
  set_defaults(o);
  for (const auto& [key, into] : {std::pair{"protocol", &o.protocol}, std::pair{"fabric", &o.fabric}})
    LOCH_TRY(derive(given, key, *into));
  LOCH_TRY(find_fabric(o.fabric));
  if (given.text("hardware") && o.fabric != "sim") {
    return fail(ErrorCode::invalid_argument, fmt::format("--hardware: for --fabric sim, not {}", o.fabric));
  }
  if (given.text("hardware-set") && o.fabric != "sim") {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--hardware-set: for --fabric sim, not {}", o.fabric));
  }
  LOCH_TRY(apply_protocol(given, registry, o));
  LOCH_TRY(apply_workload(given, o));
  LOCH_TRY(prepare_load(given, o));
  LOCH_TRY(set_given(given, o));
  LOCH_ASSIGN(const kv::Module* module, find_protocol(registry, o.protocol));
  const bool has_insert = module->data(o.protocol_options).insert_if_absent.is_there;
  LOCH_TRY(apply_replay([&](const std::string& flag) { return is_given(given, flag); }, has_insert, o));
  LOCH_TRY(check_load(o));
  LOCH_TRY(check_shape(given, o));
  LOCH_TRY(apply_meaning(registry, o));
  LOCH_TRY(apply_memory(given, o));
  if (o.background_workers > 0 && o.fabric != "sim" && o.background_pin != "none" && !o.pin) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--hog-pin {}: workers have no cores of their own on {} without --pin",
                            o.background_pin, o.fabric));
  }
  if (o.load.settle > 0 && o.fabric != "sim") {
    return fail(ErrorCode::unsupported, "--settle: for --fabric sim; elsewhere --warmup is enough");
  }
  for (const auto& [key, is_given] :
       {std::pair{"cores", o.cores > 0}, std::pair{"hog-nodes", o.background_nodes > 0},
        std::pair{"hog-pin clients", o.background_pin == "clients"}, std::pair{"threads", o.threads > 0},
        std::pair{"server-work", o.server_work > 0}, std::pair{"full-data", o.full_data > 0},
        std::pair{"at-end abandon", o.at_end == "abandon"}}) {
    if (is_given && o.fabric != "sim")
      return fail(ErrorCode::unsupported, fmt::format("--{}: for --fabric sim, not {}", key, o.fabric));
  }
  LOCH_TRY(apply_doorbells(o));
  LOCH_TRY(check_threads(o));
  const std::uint32_t smallest = o.value_sizes   ? o.value_sizes->least()
                                 : o.load.replay ? o.load.replay->trace->sizes()->value_least
                                                 : o.value_size;
  if (!o.history.empty() && smallest < 8) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--history: values of {} bytes cannot name their writer; at least 8{}", smallest,
                            o.value_sizes ? " (--value-size-min)" : ""));
  }
  if (!o.history.empty() && (o.repeats > 1 || !o.search.empty())) {
    return fail(ErrorCode::invalid_argument,
                "--history: a history is of one run; without --repeats and --search");
  }
  LOCH_ASSIGN(const std::optional<std::uint32_t> limit, fabric::parse_throttle(o.throttle));
  if (given.text("throttle-sample") && limit != 0)
    return fail(ErrorCode::invalid_argument, "--throttle-sample: for --throttle adaptive");
  LOCH_TRY(apply_backoff(given, o));
  LOCH_TRY(check_end(o));
  if (given.text("search")) {
    LOCH_TRY(parse_goal(o.search));
    if (o.load.rate > 0 || o.repeats > 1 || o.load.duration == 0) {
      return fail(ErrorCode::invalid_argument,
                  "--search: finds the rate; without --rate, --repeats and --operations");
    }
  }
  return o;
}

Result<std::string> protocol_help(const kv::Registry& registry, const std::string& protocol) {
  LOCH_ASSIGN(const kv::Module* module, find_protocol(registry, protocol));
  std::string text = fmt::format("{}: {} ({})\n\n", module->name(), module->summary(), module->paper());
  for (const kv::OptionSpec& spec : module->options()) {
    std::string others;
    if (!spec.initial_on_one_machine.empty())
      others = fmt::format("; on shm {}", spec.initial_on_one_machine);
    if (!spec.initial_in_real_time.empty())
      others +=
          fmt::format("; on {}verbs and ofi {}", others.empty() ? "shm, " : "", spec.initial_in_real_time);
    std::string names = "--" + spec.key;
    for (const std::string& alias : spec.aliases) names += ", --" + alias;
    text += fmt::format("  {} {}\n      {} (default {}{})\n", names, settings::placeholder(spec), spec.help,
                        spec.initial, others);
  }
  if (!module->mutants().empty()) text += "\nMutants (--mutant NAME):\n";
  for (const auto& [name, mutant] : module->mutants())
    text += fmt::format("  {:<28} {}\n", name, mutant.breaks);
  return text;
}

}  // namespace loch::cli
