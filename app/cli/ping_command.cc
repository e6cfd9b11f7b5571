// The command `loch ping`: opens a fabric with one worker per node, lets all pairs of nodes ping each other,
// collects all nodes' measurements, and prints the matrix of pairs and the verdict.
#include "app/cli/ping_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "app/cli/bench_options.h"
#include "app/cli/interrupt.h"
#include "app/cli/standard_streams.h"
#include "common/background_load/cores.h"
#include "common/cluster/rank.h"
#include "common/cluster/supervise.h"
#include "common/fabric/ofi/ofi.h"
#include "common/fabric/ping/matrix.h"
#include "common/fabric/rails.h"
#include "common/fabric/shm/shm.h"
#include "common/fabric/verbs/verbs.h"

namespace loch::cli {
namespace {

using fabric::Fabric;
using fabric::ping::Finding;
using fabric::ping::Matrix;
using fabric::ping::NodeSeen;
using fabric::ping::Player;
using nlohmann::ordered_json;

constexpr int exit_faulty = 1, exit_bad_input = 2, exit_interrupted = 130;
constexpr Nanos second = 1'000'000'000;
constexpr Nanos meet_within = 15 * second;   // longest wait for all processes to open the fabric
constexpr Nanos report_within = 3 * second;  // longest wait for other processes' reports after the last ping
constexpr Nanos late_most = 2 * second;  // READs still unanswered this long after the last ping are given up

// The flags, the launcher's environment and the control plane of this process. `control` is null on shm and
// in a single process.
struct Pinger {
  PingFlags flags;
  cluster::LaunchEnv env;
  cluster::Control* control = nullptr;
  [[nodiscard]] bool is_alone() const { return env.ranks == 1; }
};

int complain_of_ping(const Error& error) {
  fmt::print(stderr, "loch ping: {}\n", error.message);
  const bool is_input = error.code == ErrorCode::invalid_argument || error.code == ErrorCode::unsupported;
  return is_input ? exit_bad_input : exit_faulty;
}

// ---- Setting up the fabric and its workers -------------------------------------------------------

fabric::ping::Plan plan_of_pings(const Pinger& pinger) {
  const PingFlags& flags = pinger.flags;
  const Nanos per_node = 30'000'000;
  fabric::ping::Plan plan{.nodes = flags.nodes, .round = flags.round, .reply = flags.reply};
  plan.connect = second / 4 + flags.nodes * per_node;
  return plan;
}

Result<std::unique_ptr<Fabric>> open_verbs_for_pings(const Pinger& pinger, const fabric::ping::Plan& plan) {
  const PingFlags& flags = pinger.flags;
  fabric::verbs::VerbsConfig config;
  config.nodes = flags.nodes;
  config.control = pinger.control;
  config.device = flags.device;
  config.port = flags.port;
  config.gid_index = flags.gid_index;
  if (!flags.pkey.empty()) {
    LOCH_ASSIGN(config.pkey, parse_pkey(flags.pkey));
  }
  config.meet_within = meet_within;
  config.exact_clock = false;
  // Processes on one machine share its cores. The fabric of one process cannot know this, so it is told here.
  if (pinger.env.ranks_here > background::usable_cores().size()) config.shares_cores = true;
  config.laggards_most = late_most;
  config.run_most = plan.length() + late_most + second;
  return fabric::verbs::make_verbs(config);
}

Result<std::unique_ptr<Fabric>> open_for_pings(const Pinger& pinger, const fabric::ping::Plan& plan) {
  const PingFlags& flags = pinger.flags;
  if (flags.fabric == "verbs") return open_verbs_for_pings(pinger, plan);
  if (flags.fabric == "ofi") {
    fabric::ofi::OfiConfig config;
    config.nodes = flags.nodes;
    config.control = pinger.control;
    config.provider = flags.ofi_provider;
    config.exact_clock = false;
    config.laggards_most = late_most;
    return fabric::ofi::make_ofi(config);
  }
  fabric::shm::ShmConfig config;
  config.nodes = flags.nodes;
  config.rank = pinger.env.rank;
  config.ranks = pinger.env.ranks;
  config.job = pinger.env.job;
  config.exact_clock = false;
  return fabric::shm::make_shm(config);
}

// Agrees with the other processes on the time at which the pings begin, and sets it in each local node's
// `players` object.
Result<> agree_on_start(const Pinger& pinger, Fabric& fabric, std::vector<std::unique_ptr<Player>>& players) {
  constexpr Nanos margin = 100'000'000;  // ns within which the workers' threads start
  Nanos start = players.front()->worker().now();
  if (pinger.control != nullptr) {
    LOCH_ASSIGN(const std::vector<std::string> texts,
                pinger.control->all_gather("start of the pings", std::to_string(start), meet_within));
    for (const std::string& text : texts) {
      if (!text.empty()) start = std::max<Nanos>(start, std::strtoll(text.c_str(), nullptr, 10));
    }
  } else if (!pinger.is_alone()) {
    LOCH_TRY(fabric.barrier("start of the pings", meet_within));
    if (pinger.env.rank != 0) return {};  // rank 0 writes the time into every node's memory
    for (std::uint32_t node = 0; node < pinger.flags.nodes; ++node)
      LOCH_TRY(fabric::ping::start_at(fabric, static_cast<fabric::NodeId>(node), start + margin));
    return {};
  }
  for (auto& player : players) player->begin_at(start + margin);
  return {};
}

struct Played {
  std::vector<NodeSeen> seen;  // what each of this process's nodes has measured
  fabric::Capabilities can;
  std::vector<fabric::NodeDevice> devices;
  std::vector<std::string> gathered;  // shm: reports of all processes; empty except in the process of rank 0
};

Result<Played> play_pings(const Pinger& pinger) {
  const fabric::ping::Plan plan = plan_of_pings(pinger);
  LOCH_ASSIGN(const std::unique_ptr<Fabric> fabric, open_for_pings(pinger, plan));
  std::vector<std::unique_ptr<Player>> players;
  for (std::uint32_t node = 0; node < plan.nodes; ++node) {
    const auto id = static_cast<fabric::NodeId>(node);
    if (!fabric->is_local(id)) continue;
    LOCH_ASSIGN(std::unique_ptr<Player> player, Player::make(*fabric, id, plan));
    players.push_back(std::move(player));
  }
  LOCH_TRY(fabric->exchange(meet_within));
  for (auto& player : players) LOCH_TRY(player->join(*fabric));
  LOCH_TRY(agree_on_start(pinger, *fabric, players));
  for (auto& player : players) fabric->start(player->worker(), player->play());
  const InterruptScope guard(fabric.get());
  const auto end = fabric->run();
  // Prints the error and goes on: a run that ended early, for example because a node hangs, has nevertheless
  // measured some pings.
  if (!end) fmt::print(stderr, "loch ping: {}\n", end.error().message);
  Played played{.seen = {}, .can = fabric->capabilities(), .devices = fabric->devices(), .gathered = {}};
  for (const auto& player : players) played.seen.push_back(player->seen());
  if (!pinger.is_alone() && pinger.control == nullptr) {
    LOCH_ASSIGN(played.gathered, fabric->gather(to_text(played.seen.front()), report_within));
  }
  return played;
}

// ---- Reports of all processes --------------------------------------------------------------------

// Begins each report, to tell it from messages of the fabric that arrive late.
constexpr std::string_view report_mark = "report of pings ";

// The reports that other processes have sent. Each process sends its report to every other process, so that
// any process that is alive can print the result, and without a barrier, so that a hanging process delays
// none.
class Inbox {
 public:
  void put(std::uint32_t from, std::string_view text) {
    if (!text.starts_with(report_mark)) return;
    const std::lock_guard lock(mutex_);
    texts_.emplace(from, text.substr(report_mark.size()));
    arrived_.notify_all();
  }
  // Waits, at most `within` ns, until all processes except those known to be lost have reported.
  std::map<std::uint32_t, std::string> await(const cluster::Control& control, Nanos within) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(within);
    std::unique_lock lock(mutex_);
    while (!is_complete(control)) {
      // The loss of a process sends no message, so it is polled for every 50 ms.
      const auto look = std::min(deadline, std::chrono::steady_clock::now() + std::chrono::milliseconds(50));
      arrived_.wait_until(lock, look);
      if (std::chrono::steady_clock::now() >= deadline) break;
    }
    return texts_;
  }

 private:
  [[nodiscard]] bool is_complete(const cluster::Control& control) const {
    for (std::uint32_t rank = 0; rank < control.ranks(); ++rank) {
      if (rank != control.rank() && !control.is_lost(rank) && !texts_.contains(rank)) return false;
    }
    return true;
  }
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::uint32_t, std::string> texts_;
};

using Reports = std::vector<std::optional<NodeSeen>>;

void put_report(Reports& reports, const std::string& text) {
  auto seen = fabric::ping::parse_seen(text, static_cast<std::uint32_t>(reports.size()));
  if (!seen) {
    if (!text.empty()) fmt::print(stderr, "loch ping: {}\n", seen.error().message);
    return;
  }
  const fabric::NodeId node = seen->node;
  reports[node] = std::move(*seen);
}

// Returns the reports of all processes in the lowest-ranked process that has reported, and nullopt in all
// others.
std::optional<Reports> collect(const Pinger& pinger, Played& played) {
  Reports reports(pinger.flags.nodes);
  if (pinger.control == nullptr) {
    if (!pinger.is_alone() && played.gathered.empty()) return std::nullopt;
    for (const std::string& text : played.gathered) put_report(reports, text);
    for (NodeSeen& seen : played.seen) reports[seen.node] = std::move(seen);
    return reports;
  }
  cluster::Control& control = *pinger.control;
  Inbox inbox;
  control.on_message([&inbox](std::uint32_t from, std::string_view text) { inbox.put(from, text); });
  // Every process that has passed the barrier receives messages. If a process hangs, the barrier fails, and
  // the other processes go on.
  static_cast<void>(control.barrier("pings done", report_within));
  const std::string mine = to_text(played.seen.front());
  for (std::uint32_t rank = 0; rank < control.ranks(); ++rank) {
    if (rank != control.rank()) control.send(rank, std::string(report_mark) + mine);
  }
  const auto texts = inbox.await(control, report_within);
  control.on_message([](std::uint32_t, std::string_view) {});
  if (!texts.empty() && texts.begin()->first < control.rank()) return std::nullopt;
  for (const auto& [from, text] : texts) put_report(reports, text);
  reports[control.rank()] = std::move(played.seen.front());
  return reports;
}

// ---- Output --------------------------------------------------------------------------------------

// Names of the nodes: their host names, followed by the rank if several nodes are on one host.
std::vector<std::string> names_of(const Pinger& pinger) {
  std::vector<std::string> hosts;
  for (std::uint32_t node = 0; node < pinger.flags.nodes; ++node)
    hosts.push_back(pinger.control == nullptr ? "node" : pinger.control->host(node));
  std::vector<std::string> names;
  for (std::uint32_t node = 0; node < hosts.size(); ++node) {
    const bool is_single = std::ranges::count(hosts, hosts[node]) == 1;
    names.push_back(is_single ? hosts[node] : fmt::format("{}:{}", hosts[node], node));
  }
  return names;
}

ordered_json cell_json(const fabric::ping::Cell& cell) {
  if (!cell.is_there) return nullptr;
  const auto or_null = [](const auto& value) { return value ? ordered_json(*value) : ordered_json(nullptr); };
  return {{"round_trip_us", or_null(cell.median_us)},
          {"rate", or_null(cell.rate)},
          {"sent", cell.sent},
          {"arrived", cell.arrived},
          {"loss", or_null(cell.loss)}};
}

std::string verdict_of(const std::vector<Finding>& findings) {
  if (findings.empty()) return "no pair stands out";
  std::vector<std::string> texts;
  for (const Finding& each : findings) texts.push_back(each.text);
  return fmt::format("{}", fmt::join(texts, "; "));
}

ordered_json ping_json(const Pinger& pinger, const Matrix& matrix, const Played& played,
                       const std::vector<Finding>& findings, double seconds) {
  ordered_json nodes = ordered_json::array(), pairs = ordered_json::array(), found = ordered_json::array();
  for (std::size_t node = 0; node < matrix.nodes(); ++node) {
    ordered_json one = {{"node", node}, {"name", matrix.names[node]}};
    one["has_answered"] = static_cast<bool>(matrix.has_answered[node]);
    const std::string device = fabric::device_names(played.devices, static_cast<fabric::NodeId>(node));
    one["device"] = device.empty() ? ordered_json(nullptr) : ordered_json(device);
    nodes.push_back(std::move(one));
  }
  for (std::size_t from = 0; from < matrix.nodes(); ++from) {
    for (std::size_t to = 0; to < matrix.nodes(); ++to) {
      if (from == to) continue;
      pairs.push_back({{"from", from},
                       {"to", to},
                       {"rc", cell_json(matrix.at(from, to, 0))},
                       {"uc", cell_json(matrix.at(from, to, 1))},
                       {"ud", cell_json(matrix.at(from, to, 2))}});
    }
  }
  for (const Finding& each : findings) {
    found.push_back(
        {{"kind", name(each.kind)}, {"is_fault", each.is_fault}, {"hosts", each.hosts}, {"text", each.text}});
  }
  return {{"schema", 1},
          {"fabric", pinger.flags.fabric},
          {"round_s", static_cast<double>(pinger.flags.round) / 1e9},
          {"seconds", seconds},
          {"verdict", verdict_of(findings)},
          {"findings", std::move(found)},
          {"table", to_table(matrix)},
          {"nodes", std::move(nodes)},
          {"pairs", std::move(pairs)}};
}

int ping_as(const Pinger& pinger) {
  const auto began = std::chrono::steady_clock::now();
  auto played = play_pings(pinger);
  if (was_interrupted()) {
    if (pinger.env.rank == 0) fmt::print(stderr, "loch ping: interrupted\n");
    return exit_interrupted;
  }
  if (!played) return complain_of_ping(played.error());
  const std::optional<Reports> reports = collect(pinger, *played);
  if (!reports) return 0;
  const Matrix matrix = make_matrix(names_of(pinger), *reports, played->can);
  const std::vector<Finding> findings = judge(matrix, pinger.flags.slow);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (pinger.flags.as_json) {
    fmt::print("{}\n", ping_json(pinger, matrix, *played, findings, seconds)
                           .dump(1, ' ', false, ordered_json::error_handler_t::replace));
  } else {
    fmt::print("{}{} nodes on {}, {:.1f} s: {}\n", to_table(matrix), matrix.nodes(), pinger.flags.fabric,
               seconds, verdict_of(findings));
  }
  return std::ranges::any_of(findings, &Finding::is_fault) ? exit_faulty : 0;
}

int ping_in_launch(Pinger pinger) {
  if (pinger.flags.fabric == "shm") {
    cluster::SuperviseConfig config;
    config.label = fmt::format("node {}", pinger.env.rank);
    config.on_killed = [&](pid_t, int) { fabric::shm::mark_lost(pinger.env.job, pinger.env.rank); };
    return cluster::supervise([&] { return with_output_checked("ping", [&] { return ping_as(pinger); }); },
                              config);
  }
  const auto config = cluster::rank_config();
  if (!config) return complain_of_ping(config.error());
  return cluster::run_as_rank(pinger.env, *config, [&](cluster::Control& control) {
    pinger.control = &control;
    return with_output_checked("ping", [&] { return ping_as(pinger); });
  });
}

}  // namespace

settings::Command ping_command(PingFlags& flags) {
  using settings::choice;
  using settings::of;
  using settings::shown;
  using settings::Type;
  return {
      .name = "ping",
      .usage = {"[flags]"},
      .about =
          "Pings between all pairs of nodes over RC, UC and UD: a matrix with round trip, rate and loss, "
          "and a verdict that names the pair or host that stands out. Started by mpirun or srun, each "
          "process is a node; by itself, one process has them all. Disjoint pairs ping at once, in rounds "
          "of a tournament: N nodes take N - 1 rounds.",
      .flags =
          {
              {.setting = of(Type::boolean, "json", "", "the matrix and the verdict as JSON"),
               .place = &flags.as_json},
              {.setting = choice("fabric", {"verbs", "ofi", "shm"}, "what carries the pings", "NAME"),
               .place = &flags.fabric},
              {.setting = of(Type::integer, "nodes", "2", "nodes (of a launch: as many as processes)", 2,
                             fabric::ping::most_nodes),
               .place = &flags.nodes},
              {.setting = of(Type::duration, "round", "500ms", "length of a round", 30e6, 60e9),
               .place = &flags.round},
              {.setting = of(Type::duration, "reply", "10ms",
                             "how long a ping over UC or UD waits for its reply", 1e5, 1e9),
               .place = &flags.reply},
              {.setting = of(Type::real, "slow", "5",
                             "a round trip of so many times the median of all pairs stands out", 1.5, 1000),
               .place = &flags.slow},
              {.setting =
                   shown(of(Type::text, "device", "", "verbs: RDMA devices, as bench --device"), "NAME"),
               .place = &flags.device},
              {.setting = of(Type::integer, "port", "", "verbs: port of the device (the fastest)", 1, 255),
               .place = &flags.port},
              {.setting = of(Type::integer, "gid-index", "",
                             "verbs: GID of the port (the best: RoCE v2 over IPv4 first)", 0, 255),
               .place = &flags.gid_index},
              {.setting = shown(of(Type::text, "pkey", "", "verbs: P_Key of the partition, such as 0x8001"),
                                "P_KEY"),
               .place = &flags.pkey},
              {.setting = shown(of(Type::text, "ofi-provider", "", "ofi: provider of libfabric, as of bench"),
                                "NAME"),
               .place = &flags.ofi_provider},
          },
      .notes =
          "Loss is the share of UC's and UD's pings and messages that the receiver has not counted; from "
          "1 % on it is a fault, less is worth a look. RC repeats what is lost.",
      .statuses = {{"0", "no pair or host is at fault"},
                   {"1", "a host or pair gave no answer, or loses messages; or the fabric failed"},
                   {"2", "bad input"},
                   {"130", "interrupted"}},
      .example = "ping --fabric shm --nodes 3"};
}

int run_ping_command(const std::vector<std::string>& arguments) {
  Pinger pinger;
  const settings::Command command = ping_command(pinger.flags);
  if (settings::asks_for_help(arguments)) {
    fmt::print("{}", settings::help(command));
    return 0;
  }
  const auto given = settings::parse(command, arguments);
  if (!given) return settings::refuse(command, given.error().message);
  if (!pinger.flags.pkey.empty()) {
    if (const auto pkey = parse_pkey(pinger.flags.pkey); !pkey)
      return settings::refuse(command, pkey.error().message);
  }
  const auto env = cluster::launch_env();
  if (!env) return settings::refuse(command, env.error().message);
  pinger.env = *env;
  if (pinger.is_alone()) return ping_as(pinger);
  if (given->has("nodes") && pinger.flags.nodes != env->ranks) {
    return settings::refuse(command, fmt::format("--nodes {}: launched as {} processes; one node a process",
                                                 pinger.flags.nodes, env->ranks));
  }
  if (env->ranks > fabric::ping::most_nodes) {
    return settings::refuse(command, fmt::format("launched as {} processes; expected at most {}", env->ranks,
                                                 fabric::ping::most_nodes));
  }
  pinger.flags.nodes = env->ranks;
  return ping_in_launch(std::move(pinger));
}

}  // namespace loch::cli
