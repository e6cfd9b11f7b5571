// The command `loch litmus`: opens a fabric of two nodes, has them run the races of the litmus suite (pairs
// of concurrent accesses to one memory, such as a READ during a CPU store), and prints how often each outcome
// was seen, what the device claims of it, and the verdict.
#include "app/cli/litmus_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "app/cli/bench_options.h"
#include "app/cli/interrupt.h"
#include "app/cli/standard_streams.h"
#include "common/background_load/cores.h"
#include "common/cluster/rank.h"
#include "common/cluster/supervise.h"
#include "common/fabric/litmus/player.h"
#include "common/fabric/ofi/ofi.h"
#include "common/fabric/rails.h"
#include "common/fabric/shm/shm.h"
#include "common/fabric/sim/sim.h"
#include "common/fabric/verbs/verbs.h"

namespace loch::cli {
namespace {

using fabric::Fabric;
using fabric::litmus::Player;
using fabric::litmus::Race;
using fabric::litmus::Row;
using fabric::litmus::Verdict;
using nlohmann::ordered_json;

constexpr int exit_violated = 1, exit_bad_input = 2, exit_interrupted = 130;
constexpr std::uint32_t nodes = 2;
constexpr Nanos second = 1'000'000'000;
constexpr Nanos meet_within = 15 * second;  // longest wait for both processes to open the fabric
constexpr Nanos late_most = 10 * second;    // how long a node may still run after the other node has ended

// This process's place in the run. `control` is null on shm, on sim and in a single process.
struct Litmus {
  LitmusFlags flags;
  cluster::LaunchEnv env;
  cluster::Control* control = nullptr;
  [[nodiscard]] bool is_alone() const { return env.ranks == 1; }
};

int complain_of_litmus(const Error& error) {
  fmt::print(stderr, "loch litmus: {}\n", error.message);
  const bool is_input = error.code == ErrorCode::invalid_argument || error.code == ErrorCode::unsupported;
  return is_input ? exit_bad_input : exit_violated;
}

// ---- The fabric ----------------------------------------------------------------------------------

fabric::litmus::Plan plan_of_races(const Litmus& litmus) {
  fabric::litmus::Plan plan{.races = {}, .time = litmus.flags.time, .tries = litmus.flags.tries};
  const std::vector<std::string> names = fabric::litmus::race_names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& asked = litmus.flags.races;
    if (asked.empty() || std::ranges::count(asked, names[i]) != 0) plan.races.push_back(static_cast<Race>(i));
  }
  return plan;
}

Result<std::unique_ptr<Fabric>> open_verbs_for_litmus(const Litmus& litmus,
                                                      const fabric::litmus::Plan& plan) {
  const LitmusFlags& flags = litmus.flags;
  fabric::verbs::VerbsConfig config;
  config.nodes = nodes;
  config.control = litmus.control;
  config.device = flags.device;
  config.port = flags.port;
  config.gid_index = flags.gid_index;
  if (!flags.pkey.empty()) {
    LOCH_ASSIGN(config.pkey, parse_pkey(flags.pkey));
  }
  config.meet_within = meet_within;
  config.exact_clock = false;
  // Ranks of one machine share its cores, which the fabric of one process cannot know.
  if (litmus.env.ranks_here > background::usable_cores().size()) config.shares_cores = true;
  config.laggards_most = late_most;
  config.run_most = static_cast<Nanos>(plan.races.size()) * (plan.time + 4 * plan.patience) + late_most;
  return fabric::verbs::make_verbs(config);
}

Result<std::unique_ptr<Fabric>> open_sim_for_litmus(const LitmusFlags& flags) {
  fabric::sim::SimConfig config;
  config.nodes = nodes;
  LOCH_ASSIGN(config.hardware, fabric::sim::load_hardware(flags.hardware));
  return fabric::sim::make_sim(config);
}

Result<std::unique_ptr<Fabric>> open_for_litmus(const Litmus& litmus, const fabric::litmus::Plan& plan) {
  const LitmusFlags& flags = litmus.flags;
  if (flags.fabric == "verbs") return open_verbs_for_litmus(litmus, plan);
  if (flags.fabric == "sim") return open_sim_for_litmus(flags);
  if (flags.fabric == "ofi") {
    fabric::ofi::OfiConfig config;
    config.nodes = nodes;
    config.control = litmus.control;
    config.provider = flags.ofi_provider;
    config.exact_clock = false;
    config.laggards_most = late_most;
    return fabric::ofi::make_ofi(config);
  }
  fabric::shm::ShmConfig config;
  config.nodes = nodes;
  config.rank = litmus.env.rank;
  config.ranks = litmus.env.ranks;
  config.job = litmus.env.job;
  config.exact_clock = false;
  return fabric::shm::make_shm(config);
}

struct Counted {
  fabric::Capabilities can;
  std::vector<fabric::NodeDevice> devices;
  std::vector<Row> rows;  // results, one row per race; empty in the process that does not run node 0
};

Result<Counted> run_races(const Litmus& litmus) {
  const fabric::litmus::Plan plan = plan_of_races(litmus);
  LOCH_ASSIGN(const std::unique_ptr<Fabric> fabric, open_for_litmus(litmus, plan));
  const fabric::Capabilities can = fabric->capabilities();
  if (!can.rc)
    return fail(ErrorCode::unsupported, fmt::format("{} has no RC, which the races are about", can.device));
  std::vector<std::unique_ptr<Player>> players;
  for (std::uint32_t node = 0; node < nodes; ++node) {
    const auto id = static_cast<fabric::NodeId>(node);
    if (!fabric->is_local(id)) continue;
    LOCH_ASSIGN(std::unique_ptr<Player> player, Player::make(*fabric, id, plan));
    players.push_back(std::move(player));
  }
  LOCH_TRY(fabric->exchange(meet_within));
  for (auto& player : players) LOCH_TRY(player->start(*fabric));
  // The other node's receive buffers have to be posted before the first message.
  LOCH_TRY(fabric->barrier("start of the races", meet_within));
  const InterruptScope guard(fabric.get());
  const auto end = fabric->run();
  for (const auto& player : players) {
    if (!player->fault().empty()) return fail(ErrorCode::unavailable, player->fault());
  }
  LOCH_TRY(end);
  if (*end != fabric::RunEnd::finished) return fail(ErrorCode::timed_out, "the races did not end");
  Counted counted{.can = can, .devices = fabric->devices(), .rows = {}};
  if (!fabric->is_local(0)) return counted;
  for (std::size_t i = 0; i < plan.races.size(); ++i)
    counted.rows.push_back(judge(plan.races[i], players.front()->seen()[i], can));
  return counted;
}

// ---- Output --------------------------------------------------------------------------------------

std::string host_of(const Litmus& litmus, std::uint32_t node) {
  return litmus.control == nullptr ? "this machine" : litmus.control->host(node);
}

std::string device_of(const Counted& counted, std::uint32_t node) {
  const std::string names = fabric::device_names(counted.devices, static_cast<fabric::NodeId>(node));
  return names.empty() ? counted.can.device : names;
}

std::string verdict_of_rows(const std::vector<Row>& rows) {
  std::vector<std::string> violated;
  for (const Row& row : rows) {
    if (row.verdict == Verdict::violated) violated.emplace_back(name(row.race));
  }
  if (violated.empty()) return "nothing was seen that is claimed never to be";
  return fmt::format("violated: {}", fmt::join(violated, ", "));
}

ordered_json row_json(const Row& row) {
  ordered_json one = {{"race", name(row.race)},
                      {"outcome", outcome(row.race)},
                      {"seen", row.seen},
                      {"tries", row.tries},
                      {"is_forbidden", row.claim.is_forbidden},
                      {"claim", row.claim.text},
                      {"missing", row.claim.missing},
                      {"verdict", name(row.verdict)}};
  if (row.unit == 0) return one;
  one["unit_bytes"] = row.unit;
  one["claimed_unit_bytes"] = row.claim.unit;
  ordered_json& torn = one["torn"] = ordered_json::object();
  for (std::size_t i = 0; i < fabric::litmus::units.size(); ++i)
    torn[fmt::to_string(fabric::litmus::units[i])] = row.counts.torn[i];
  return one;
}

ordered_json litmus_json(const Litmus& litmus, const Counted& counted, double seconds) {
  ordered_json hosts = ordered_json::array(), races = ordered_json::array();
  for (std::uint32_t node = 0; node < nodes; ++node)
    hosts.push_back({{"node", node}, {"host", host_of(litmus, node)}, {"device", device_of(counted, node)}});
  for (const Row& row : counted.rows) races.push_back(row_json(row));
  return {{"schema", 1},
          {"fabric", litmus.flags.fabric},
          {"simulated", counted.can.simulated},
          {"seconds", seconds},
          {"verdict", verdict_of_rows(counted.rows)},
          {"nodes", std::move(hosts)},
          {"races", std::move(races)}};
}

int litmus_as(const Litmus& litmus) {
  const auto began = std::chrono::steady_clock::now();
  const auto counted = run_races(litmus);
  if (was_interrupted()) {
    if (litmus.env.rank == 0) fmt::print(stderr, "loch litmus: interrupted\n");
    return exit_interrupted;
  }
  if (!counted) return complain_of_litmus(counted.error());
  if (counted->rows.empty()) return 0;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (litmus.flags.as_json) {
    fmt::print(
        "{}\n",
        litmus_json(litmus, *counted, seconds).dump(1, ' ', false, ordered_json::error_handler_t::replace));
  } else {
    fmt::print("{}{} ({}) to {} ({}) on {}{}, {:.1f} s: {}\n", to_table(counted->rows), host_of(litmus, 0),
               device_of(*counted, 0), host_of(litmus, 1), device_of(*counted, 1), litmus.flags.fabric,
               counted->can.simulated ? " (simulated)" : "", seconds, verdict_of_rows(counted->rows));
  }
  return std::ranges::count(counted->rows, Verdict::violated, &Row::verdict) > 0 ? exit_violated : 0;
}

int litmus_in_launch(Litmus litmus) {
  if (litmus.flags.fabric == "shm") {
    cluster::SuperviseConfig config;
    config.label = fmt::format("node {}", litmus.env.rank);
    config.on_killed = [&](pid_t, int) { fabric::shm::mark_lost(litmus.env.job, litmus.env.rank); };
    return cluster::supervise(
        [&] { return with_output_checked("litmus", [&] { return litmus_as(litmus); }); }, config);
  }
  const auto config = cluster::rank_config();
  if (!config) return complain_of_litmus(config.error());
  return cluster::run_as_rank(litmus.env, *config, [&](cluster::Control& control) {
    litmus.control = &control;
    return with_output_checked("litmus", [&] { return litmus_as(litmus); });
  });
}

std::vector<settings::Flag> litmus_flags(LitmusFlags& flags) {
  using settings::choice;
  using settings::of;
  using settings::shown;
  using settings::Type;
  settings::Setting race =
      choice("race", fabric::litmus::race_names(), "run this race alone (all); may be given again", "NAME");
  race.initial = "";  // if no race is named, all are run
  return {
      {.setting = of(Type::boolean, "json", "", "the rows as JSON"), .place = &flags.as_json},
      {.setting = choice("fabric", {"verbs", "ofi", "shm", "sim"}, "what the nodes race over", "NAME"),
       .place = &flags.fabric},
      {.setting = shown(
           of(Type::text, "hostfile", "", "run on the two hosts of an mpirun hostfile, which ./loch starts"),
           "FILE"),
       .place = &flags.hostfile},
      {.setting = race, .place = &flags.races, .is_list = true},
      {.setting = of(Type::duration, "time", "1s", "longest time of a race", 1e6, 3600e9),
       .place = &flags.time},
      {.setting = of(Type::integer, "tries", "10000",
                     "tries of a race, of each node; more while the other has fewer", 1, 1e12),
       .place = &flags.tries},
      {.setting = settings::listed(shown(of(Type::file, "hardware", "connectx3-10gbe",
                                            "sim: profile of the simulated hardware, or its file"),
                                         "NAME|FILE"),
                                   "hardware"),
       .place = &flags.hardware},
      {.setting = shown(of(Type::text, "device", "", "verbs: RDMA devices, as bench --device"), "NAME"),
       .place = &flags.device},
      {.setting = of(Type::integer, "port", "", "verbs: port of the device (the fastest)", 1, 255),
       .place = &flags.port},
      {.setting = of(Type::integer, "gid-index", "",
                     "verbs: GID of the port (the best: RoCE v2 over IPv4 first)", 0, 255),
       .place = &flags.gid_index},
      {.setting = shown(of(Type::text, "pkey", "", "verbs: P_Key of the partition, such as 0x8001"), "P_KEY"),
       .place = &flags.pkey},
      {.setting =
           shown(of(Type::text, "ofi-provider", "", "ofi: provider of libfabric, as of bench"), "NAME"),
       .place = &flags.ofi_provider},
  };
}

// The message about flags that do not go together or with the launch; empty: they do.
std::string fault_of(const Litmus& litmus) {
  const LitmusFlags& flags = litmus.flags;
  if (!flags.hostfile.empty())
    return "--hostfile: ./loch litmus starts the processes; this is one of them or alone";
  if (!flags.pkey.empty()) {
    if (const auto pkey = parse_pkey(flags.pkey); !pkey) return pkey.error().message;
  }
  if (litmus.is_alone()) return {};
  if (flags.fabric == "sim")
    return fmt::format("--fabric sim runs in one process; it was launched as {}", litmus.env.ranks);
  if (litmus.env.ranks != nodes)
    return fmt::format("launched as {} processes; expected two, or one for both nodes", litmus.env.ranks);
  return {};
}

}  // namespace

settings::Command litmus_command(LitmusFlags& flags) {
  return {
      .name = "litmus",
      .usage = {"[flags]"},
      .about =
          "Races between two nodes, as a table for their NIC: tearing, order of requests, CAS against the "
          "CPU and another NIC, visibility of WRITEs. Each row has how often an outcome was seen in how "
          "many tries, what the device claims of it, and a verdict: as claimed (ruled out and never seen, "
          "or allowed and seen), violated (ruled out and seen), or not seen (allowed). Started by mpirun "
          "or srun as two processes, or with --hostfile, each process is a node; by itself, one process "
          "has both.",
      .flags = litmus_flags(flags),
      .notes =
          "`unit` is the longest aligned part of a block of 512 bytes that no READ returned torn. What was "
          "never seen may still be possible: more --tries and --time look longer.",
      .statuses = {{"0", "nothing was seen that is claimed never to be"},
                   {"1", "a claim is violated, or the run failed"},
                   {"2", "bad input"},
                   {"130", "interrupted"}},
      .example = "litmus --fabric shm"};
}

int run_litmus_command(const std::vector<std::string>& arguments) {
  Litmus litmus;
  const settings::Command command = litmus_command(litmus.flags);
  if (settings::asks_for_help(arguments)) {
    fmt::print("{}", settings::help(command));
    return 0;
  }
  const auto given = settings::parse(command, arguments);
  if (!given) return settings::refuse(command, given.error().message);
  const auto env = cluster::launch_env();
  if (!env) return settings::refuse(command, env.error().message);
  litmus.env = *env;
  if (const std::string fault = fault_of(litmus); !fault.empty()) return settings::refuse(command, fault);
  return litmus.is_alone() ? litmus_as(litmus) : litmus_in_launch(std::move(litmus));
}

}  // namespace loch::cli
