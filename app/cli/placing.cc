// Counts the workers of this machine, has their CPUs planned, and describes the outcome for the result.
#include "app/cli/placing.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "common/background_load/cores.h"

namespace loch::cli {
namespace {

HostNodes::Node node_of(const kv::DeployConfig& deploy, fabric::NodeId node) {
  return {deploy.drives(node) ? deploy.client_workers : 0, deploy.serves(node) ? deploy.server_workers : 0};
}

// Number of workers of the node. A node without clients and servers still has one worker, which gives other
// nodes access to the node's memory.
std::uint32_t workers_of(const HostNodes::Node& node) { return std::max(1U, node.clients + node.servers); }

HostNodes::Node largest_node(const kv::DeployConfig& deploy) {
  HostNodes::Node largest;
  for (std::uint32_t node = 0; node < deploy.nodes; ++node) {
    const HostNodes::Node each = node_of(deploy, static_cast<fabric::NodeId>(node));
    if (workers_of(each) > workers_of(largest)) largest = each;
  }
  return largest;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "";
  return name.data();
}

double counter(const std::map<std::string, double>& counters, const std::string& key) {
  const auto found = counters.find(key);
  return found == counters.end() ? 0 : found->second;
}

}  // namespace

std::string name_crowding(const BenchOptions& o, std::uint32_t cores) {
  const HostNodes::Node most = largest_node(deploy_config(o));
  if (workers_of(most) <= cores || o.background_workers > 0) return {};
  return fmt::format(
      "a node's {} workers (clients {}, servers {}) take turns on its {} cores: an operation waits for the "
      "slices of "
      "other workers, and rates depend on the run's length (--clients, --servers)",
      workers_of(most), most.clients, most.servers, cores);
}

HostNodes nodes_of_one_machine(const BenchOptions& o, std::uint32_t rank, std::uint32_t ranks) {
  const kv::DeployConfig deploy = deploy_config(o);
  HostNodes host;
  for (std::uint32_t node = 0; node < deploy.nodes; ++node)
    host.nodes.push_back(node_of(deploy, static_cast<fabric::NodeId>(node)));
  host.first = ranks > 1 ? rank : 0;
  host.own = ranks > 1 ? 1 : deploy.nodes;
  return host;
}

HostNodes nodes_of_this_host(const BenchOptions& o, const std::vector<fabric::NodeDevice>& devices,
                             std::uint32_t rank, std::uint32_t rank_here, std::uint32_t ranks_here) {
  const kv::DeployConfig deploy = deploy_config(o);
  HostNodes host;
  host.own = 1;
  const auto mine = std::ranges::find(devices, rank, &fabric::NodeDevice::node);
  if (mine != devices.end() && devices.size() == deploy.nodes) {
    for (const fabric::NodeDevice& each : devices) {
      if (each.host != mine->host) continue;
      if (each.node == rank) host.first = static_cast<std::uint32_t>(host.nodes.size());
      host.nodes.push_back(node_of(deploy, each.node));
    }
    return host;
  }
  host.is_known = ranks_here > 0;
  host.nodes.assign(std::max(ranks_here, rank_here + 1), largest_node(deploy));
  host.nodes[rank_here] = node_of(deploy, static_cast<fabric::NodeId>(rank));
  host.first = rank_here;
  return host;
}

std::vector<std::uint32_t> Placing::own_cpus() const {
  std::vector<std::uint32_t> cpus;
  for (std::uint32_t i = 0; i < host.own && is_pinned(); ++i) {
    for (const placement::Cpu& cpu : plans[host.first + i].workers) cpus.push_back(cpu.number);
  }
  return cpus;
}

std::vector<std::uint32_t> Placing::memory_numa_nodes(std::uint32_t first_node) const {
  std::vector<std::uint32_t> all;
  if (!is_pinned()) return all;
  all.resize(first_node + host.own);
  for (std::uint32_t i = 0; i < host.own; ++i) all[first_node + i] = plans[host.first + i].memory_numa_node;
  return all;
}

Result<Placing> leave_unpinned(const BenchOptions& o, HostNodes host, std::string reason) {
  if (o.pin_is_given && o.pin) return fail(ErrorCode::invalid_argument, fmt::format("--pin: {}", reason));
  if (o.background_workers > 0 && o.background_pin != "none") {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("--hog-pin {}: workers have no cores of their own: {}", o.background_pin, reason));
  }
  Placing placing;
  placing.host = std::move(host);
  placing.reason = std::move(reason);
  return placing;
}

Result<Placing> place_workers(const BenchOptions& o, HostNodes host,
                              std::optional<std::uint32_t> nic_numa_node) {
  if (!o.pin) {
    Placing placing;
    placing.host = std::move(host);
    placing.reason = o.pin_is_given ? "--pin false" : "pinned with --pin only";
    return placing;
  }
  if (!host.is_known && !o.pin_is_given) {
    return leave_unpinned(o, std::move(host), "the launcher does not say which processes share this host");
  }
  const auto machine = placement::this_machine();
  if (!machine) return leave_unpinned(o, std::move(host), machine.error().message);
  placement::Demand demand{
      .allowed = background::usable_cores(), .nic_numa_node = nic_numa_node, .workers = {}};
  for (const HostNodes::Node& node : host.nodes) demand.workers.push_back(workers_of(node));
  auto plans = placement::plan(*machine, demand);
  if (!plans) return leave_unpinned(o, std::move(host), plans.error().message);
  return Placing{
      .host = std::move(host), .plans = std::move(*plans), .reason = "", .nic_numa_node = nic_numa_node};
}

Result<std::vector<std::uint32_t>> background_cores(const BenchOptions& o, const Placing& placing) {
  if (o.background_workers == 0 || o.background_pin == "none" || !placing.is_pinned())
    return std::vector<std::uint32_t>();
  std::vector<std::uint32_t> servers, all;
  for (std::size_t node = 0; node < placing.plans.size(); ++node) {
    const auto& workers = placing.plans[node].workers;
    for (std::size_t i = 0; i < workers.size(); ++i) {
      all.push_back(workers[i].number);
      if (i >= placing.host.nodes[node].clients && placing.host.nodes[node].servers > 0)
        servers.push_back(workers[i].number);
    }
  }
  return background::place_background_load(o.background_pin, "--hog-pin",
                                           o.background_pin == "shared" ? servers : all,
                                           background::usable_cores());
}

nlohmann::ordered_json to_json(const Placing& placing, const BenchOptions& o, std::uint32_t first_node,
                               const std::map<std::string, double>& counters) {
  nlohmann::ordered_json workers = nlohmann::ordered_json::array(), memory = nlohmann::ordered_json::array();
  for (std::uint32_t own = 0; own < placing.host.own && placing.is_pinned(); ++own) {
    const placement::NodePlan& plan = placing.plans[placing.host.first + own];
    const std::uint32_t clients = placing.host.nodes[placing.host.first + own].clients;
    for (std::uint32_t i = 0; i < plan.workers.size(); ++i) {
      const placement::Cpu& cpu = plan.workers[i];
      workers.push_back({{"node", first_node + own},
                         {"role", i < clients ? "client" : "server"},
                         {"index", i},
                         {"cpu", cpu.number},
                         {"core", cpu.core},
                         {"numa_node", cpu.numa_node}});
    }
    memory.push_back(plan.memory_numa_node);
  }
  const bool is_verbs = o.fabric == "verbs";
  const double bytes =
      is_verbs ? counter(counters, "verbs.huge_page_bytes") + counter(counters, "verbs.plain_bytes")
               : counter(counters, "shm.region_bytes");
  nlohmann::ordered_json out;
  out["node"] = first_node;
  out["host"] = host_name();
  // True if the kernel has pinned every worker; that pinning was requested is not enough.
  out["pinned"] =
      !workers.empty() && counter(counters, o.fabric + ".pinned") == static_cast<double>(workers.size());
  out["reason"] =
      placing.reason.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(placing.reason);
  out["nic_numa_node"] = placing.nic_numa_node ? nlohmann::ordered_json(*placing.nic_numa_node)
                                               : nlohmann::ordered_json(nullptr);
  out["workers"] = std::move(workers);
  out["memory"] = {{"numa_nodes", std::move(memory)},
                   {"bytes", static_cast<std::uint64_t>(bytes)},
                   {"bound_bytes", static_cast<std::uint64_t>(counter(counters, o.fabric + ".bound_bytes"))}};
  return out;
}

}  // namespace loch::cli
