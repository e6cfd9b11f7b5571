// Opens the fabric of a run: reads its faults and process kills, starts background load, and wraps the fabric
// in the decorators for counting, tracing and fault injection.
#include "app/cli/fabrics.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <variant>

#include "common/base/file.h"
#include "common/base/huge_heap.h"
#include "common/cluster/launch_env.h"
#include "common/fabric/count/count.h"
#include "common/fabric/fault/fault.h"
#include "common/fabric/fault/fault_file.h"
#include "common/fabric/ofi/ofi.h"
#include "common/fabric/service/server_work.h"
#include "common/fabric/service/service_times.h"
#include "common/fabric/shm/shm.h"
#include "common/fabric/sim/sim.h"
#include "common/fabric/throttle/throttle.h"
#include "common/fabric/trace/trace_fabric.h"
#include "common/fabric/verbs/locality.h"
#include "common/fabric/verbs/verbs.h"

namespace loch::cli {
namespace {

// Reduces a simulated CPU to `wanted` cores on as few sockets as possible, with equally many cores on each.
// 0: all cores.
Result<> use_cores(std::uint32_t wanted, fabric::sim::CpuProfile& cpu) {
  if (wanted == 0) return {};
  const std::uint32_t per_socket = cpu.cores / cpu.sockets;
  const std::uint32_t sockets = (wanted + per_socket - 1) / per_socket;
  if (wanted > cpu.cores || wanted % sockets != 0) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--cores {}: expected at most {}, and as many on each socket of {}", wanted,
                            cpu.cores, per_socket));
  }
  cpu.cores = wanted;
  cpu.sockets = sockets;
  return {};
}

// The hardware profile that --hardware names, changed by the flags that set single constants of the profile.
Result<fabric::sim::HardwareProfile> hardware_of(const BenchOptions& o) {
  LOCH_ASSIGN(fabric::sim::HardwareProfile hardware, fabric::sim::load_hardware(o.hardware));
  if (const Result<> changed = change_constants(o.hardware_set, hardware); !changed)
    return fail(ErrorCode::invalid_argument, fmt::format("--hardware-set: {}", changed.error().message));
  LOCH_TRY(use_cores(o.cores, hardware.cpu));
  return hardware;
}

// Refuses --doorbells own if the NIC has fewer doorbell registers than a node has workers.
Result<> check_doorbells(const BenchOptions& o, const fabric::sim::HardwareProfile& hardware) {
  const std::uint32_t most = hardware.nic.crowded.own_doorbells;
  const std::uint32_t workers = o.server_nodes > 0 ? std::max(o.clients, o.servers) : o.clients + o.servers;
  if (workers <= most) return {};
  return fail(ErrorCode::invalid_argument,
              most == 0 ? fmt::format("--doorbells own: the profile {} says nothing of doorbell registers",
                                      hardware.name)
                        : fmt::format("--doorbells own: {} workers of a node, and {} registers of {}",
                                      workers, most, hardware.name));
}

Result<std::unique_ptr<fabric::Fabric>> open_sim(const BenchOptions& o, std::uint64_t seed,
                                                 OpenFabric& open) {
  using namespace fabric::sim;
  use_huge_heap();
  SimConfig config;
  config.nodes = o.nodes;
  config.seed = seed;
  LOCH_ASSIGN(config.hardware, hardware_of(o));
  open.hardware = config.hardware.name;
  open.caveat = name_crowding(o, config.hardware.cpu.cores);
  if (o.pin) {
    open.pinning.cores.resize(config.hardware.cpu.cores);
    std::iota(open.pinning.cores.begin(), open.pinning.cores.end(), 0U);
    open.pinning.is_of_each_node = true;
  }
  if (!o.faults.empty()) {
    LOCH_ASSIGN(config.faults, load_faults(o.faults));
  }
  config.background_workers = o.background_workers;
  config.background_pin = o.background_pin == "shared"     ? BackgroundPin::shared
                          : o.background_pin == "separate" ? BackgroundPin::separate
                          : o.background_pin == "clients"  ? BackgroundPin::clients
                                                           : BackgroundPin::none;
  config.background_nodes = o.background_nodes;
  config.data_scale = o.data_scale;
  if (o.doorbells == "own") {
    config.doorbells = fabric::DoorbellSharing::own;
    LOCH_TRY(check_doorbells(o, config.hardware));
  }
  config.trace = open.trace.get();
  config.threads = o.threads;
  // Clients begin as soon as they get their cores, within this many ns of the simulation's beginning.
  constexpr Nanos beginning = 1'000'000;
  if (o.at_end == "abandon") config.finish = beginning + o.load.warmup + o.load.duration;
  return make_sim(config);
}

Result<ProcessKill> read_kill(const YAML::Node& entry, const std::string& path) {
  constexpr auto shape = "entries such as {kind: kill_process, node: 1, at: 2s}";
  const auto bad = [&path](const YAML::Node& where, std::string_view expected) {
    return fabric::wrong_in_file(path, where, "schedule", expected);
  };
  if (!entry.IsMap()) return bad(entry, shape);
  if (entry["kind"] && entry["kind"].IsScalar() && entry["kind"].Scalar() != "kill_process")
    return bad(entry["kind"],
               "kind kill_process, all that a real fabric schedules: the simulator alone can do others");
  if (entry.size() != 3) return bad(entry, shape);
  for (const char* key : {"kind", "node", "at"}) {
    if (!entry[key] || !entry[key].IsScalar()) return bad(entry, shape);
  }
  const auto node = parse_size(entry["node"].Scalar(), "node");
  if (!node || *node > 1023) return bad(entry["node"], "node: a number from 0 to 1023");
  const auto at = parse_duration(entry["at"].Scalar(), "at");
  if (!at) return bad(entry["at"], "at: a duration with its unit, such as 500ms");
  return ProcessKill{static_cast<fabric::NodeId>(*node), *at};
}

// The faults to inject on a real-time fabric, and the processes to kill.
struct RealFaults {
  fabric::FaultConfig config;
  std::vector<ProcessKill> kills;
};

Result<RealFaults> load_fault_config(const std::string& path) {
  using Config = fabric::FaultConfig;
  using Member = std::variant<double Config::*, Nanos Config::*, std::uint64_t Config::*>;
  static const std::map<std::string_view, Member> members = {
      {"seed", &Config::seed},
      {"uc_loss", &Config::uc_loss},
      {"uc_partial_write", &Config::uc_partial_write},
      {"ud_loss", &Config::ud_loss},
      {"ud_reorder", &Config::ud_reorder},
      {"ud_reorder_span", &Config::ud_reorder_ns},
      {"delay", &Config::delay},
      {"delay_span", &Config::delay_ns_max},
      {"rc_error", &Config::rc_error},
      {"rc_error_executed", &Config::rc_error_executed}};
  LOCH_ASSIGN(const std::string text, read_whole(path, 1 << 20));
  LOCH_ASSIGN(const fabric::FaultFile file,
              fabric::read_fault_file(text, path, fabric::FaultSource::decorator));
  RealFaults all;
  for (const auto& [key, value] : file.values) {
    const Member& member = members.at(key);
    if (const auto* share = std::get_if<double Config::*>(&member))
      all.config.** share = std::get<double>(value);
    else if (const auto* span = std::get_if<Nanos Config::*>(&member))
      all.config.** span = std::get<std::int64_t>(value);
    else
      all.config.*std::get<std::uint64_t Config::*>(member) =
          static_cast<std::uint64_t>(std::get<std::int64_t>(value));
  }
  if (file.schedule.size() > 1024)
    return fabric::wrong_in_file(path, file.schedule.front(), "schedule", "at most 1024 processes to kill");
  for (const YAML::Node& entry : file.schedule) {
    LOCH_ASSIGN(const ProcessKill kill, read_kill(entry, path));
    all.kills.push_back(kill);
  }
  return all;
}

// Wraps a real-time fabric in the decorator that injects the requested faults.
[[maybe_unused]] Result<std::unique_ptr<fabric::Fabric>> with_faults(std::unique_ptr<fabric::Fabric> fabric,
                                                                     const BenchOptions& o,
                                                                     [[maybe_unused]] std::uint64_t seed,
                                                                     const Place& place, OpenFabric& open) {
  if (o.faults.empty()) return fabric;
  LOCH_ASSIGN(RealFaults all, load_fault_config(o.faults));
  open.kills = std::move(all.kills);
  if (!open.kills.empty() && place.ranks == 1) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("{}: schedule: a process is killed where each node is one: start as many with mpirun",
                    o.faults));
  }
  fabric::FaultConfig& faults = all.config;
  faults.seed = sub_seed(seed, "faults", faults.seed);
  return fabric::inject_faults(std::move(fabric), faults);
}

// Lets the load driver pin this process's workers to the CPUs that were planned.
void pin_workers(Placing placing, OpenFabric& open) {
  open.pinning = {.cores = placing.own_cpus(), .is_of_each_node = false, .first = 0};
  open.placing = std::move(placing);
}

// Plans the CPUs of this process's workers and the NUMA nodes of its memory on verbs. This process's device
// is one of `devices`.
Result<Placing> place_on_verbs(const BenchOptions& o, const Place& place,
                               const std::vector<fabric::NodeDevice>& devices) {
  HostNodes host = place.ranks == 1
                       ? nodes_of_one_machine(o, 0, 1)
                       : nodes_of_this_host(o, devices, place.rank, place.rank_here, place.ranks_here);
  const auto mine = std::ranges::find(devices, place.rank, &fabric::NodeDevice::node);
  const fabric::verbs::Locality nic =
      mine == devices.end() ? fabric::verbs::Locality{} : fabric::verbs::locality_of(mine->can.device);
  if (o.pin && nic.is_software && !o.pin_is_given)
    return leave_unpinned(o, std::move(host), "the cores move the packets of Soft-RoCE too");
  return place_workers(o, std::move(host), nic.numa_node);
}

// The longest that a run may take in ns; 0: no limit, because the load has no duration.
Nanos run_most(const BenchOptions& o) {
  // Least time in ns that the run is given after the load for repairs and for the check of all keys, which
  // take longer the larger the table is.
  constexpr Nanos patience = 600'000'000'000;
  return o.load.duration > 0 ? o.load.warmup + o.load.duration + std::max(patience, o.load.duration) : 0;
}

Result<std::unique_ptr<fabric::Fabric>> open_shm(const BenchOptions& o, std::uint64_t seed,
                                                 const Place& place, OpenFabric& open) {
  fabric::shm::ShmConfig config;
  config.nodes = o.nodes;
  config.seed = seed;
  config.rank = place.rank;
  config.ranks = place.ranks;
  config.job = place.job;
  config.run_most = run_most(o);
  config.exact_clock = !o.history.empty();
  LOCH_ASSIGN(Placing placing, place_workers(o, nodes_of_one_machine(o, place.rank, place.ranks), {}));
  config.pin_threads = placing.is_pinned();
  config.numa_nodes = placing.memory_numa_nodes(place.rank);
  pin_workers(std::move(placing), open);
  LOCH_ASSIGN(std::unique_ptr<fabric::Fabric> fabric, fabric::shm::make_shm(config));
  open.bare_shm = fabric.get();
  return with_faults(std::move(fabric), o, seed, place, open);
}

Result<std::unique_ptr<fabric::Fabric>> open_verbs(const BenchOptions& o, std::uint64_t seed,
                                                   const Place& place, OpenFabric& open) {
  fabric::verbs::VerbsConfig config;
  config.nodes = o.nodes;
  config.seed = seed;
  config.control = place.control;
  config.device = o.device;
  config.port = o.port;
  config.gid_index = o.gid_index;
  if (!o.pkey.empty()) {
    LOCH_ASSIGN(config.pkey, parse_pkey(o.pkey));
  }
  config.service_level = static_cast<std::uint8_t>(o.service_level);
  if (o.traffic_class >= 0) config.traffic_class = static_cast<std::uint8_t>(o.traffic_class);
  config.flow_label = o.flow_label;
  config.assumes_order = o.assume_order;
  config.post_send_alone = o.post_send;
  if (o.doorbells != "auto")
    config.doorbells = o.doorbells == "own" ? fabric::DoorbellSharing::own : fabric::DoorbellSharing::shared;
  config.exact_clock = !o.history.empty();
  config.run_most = run_most(o);
  config.pin_threads = o.pin;
  config.place_memory =
      [&](const std::vector<fabric::NodeDevice>& devices) -> Result<std::vector<std::uint32_t>> {
    LOCH_ASSIGN(Placing placing, place_on_verbs(o, place, devices));
    pin_workers(std::move(placing), open);
    return open.placing->memory_numa_nodes(place.rank);
  };
  LOCH_ASSIGN(std::unique_ptr<fabric::Fabric> fabric, fabric::verbs::make_verbs(config));
  if (place.rank == 0) {
    for (const std::string& line : fabric::unlike(fabric->devices())) fmt::print(stderr, "note: {}\n", line);
  }
  return with_faults(std::move(fabric), o, seed, place, open);
}

Result<std::unique_ptr<fabric::Fabric>> open_ofi(const BenchOptions& o, std::uint64_t seed,
                                                 const Place& place, OpenFabric& open) {
  fabric::ofi::OfiConfig config;
  config.nodes = o.nodes;
  config.seed = seed;
  config.control = place.control;
  config.provider = o.ofi_provider;
  config.run_most = run_most(o);
  config.waits_for_writes = o.ofi_order == "waits";
  config.exact_clock = !o.history.empty();
  HostNodes host = place.ranks == 1
                       ? nodes_of_one_machine(o, 0, 1)
                       : nodes_of_this_host(o, {}, place.rank, place.rank_here, place.ranks_here);
  LOCH_ASSIGN(Placing placing, place_workers(o, std::move(host), {}));
  config.pin_threads = placing.is_pinned();
  pin_workers(std::move(placing), open);
  LOCH_ASSIGN(std::unique_ptr<fabric::Fabric> fabric, fabric::ofi::make_ofi(config));
  return with_faults(std::move(fabric), o, seed, place, open);
}

Result<std::unique_ptr<fabric::Fabric>> open_inner(const BenchOptions& o, [[maybe_unused]] std::uint64_t seed,
                                                   const Place& place, [[maybe_unused]] OpenFabric& open) {
  if (place.ranks > 1 && o.fabric == "sim") {
    return fail(ErrorCode::invalid_argument,
                fmt::format("fabric: sim runs in one process; it was launched as {}", place.ranks));
  }
  if (place.ranks > 1 && place.ranks != o.nodes) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("--nodes {}: launched as {} processes; one node a process", o.nodes, place.ranks));
  }
  if (o.fabric == "sim") return open_sim(o, seed, open);
  if (o.fabric == "shm") return open_shm(o, seed, place, open);
  if (o.fabric == "verbs") return open_verbs(o, seed, place, open);
  if (o.fabric == "ofi") return open_ofi(o, seed, place, open);
  return fail(ErrorCode::unsupported, fmt::format("fabric: {}: this build does not have it", o.fabric));
}

// Starts this machine's background workers. If several processes run on one machine, only the first of them
// starts background workers.
Result<std::unique_ptr<background::CpuLoad>> start_background_load(const BenchOptions& o,
                                                                   const Place& place) {
  if (o.background_workers == 0 || o.fabric == "sim" || place.rank_here != 0) return nullptr;
  background::CpuLoadConfig config;
  config.workers = o.background_workers;
  return background::CpuLoad::start(config);
}

// Checks, without opening a fabric, that workers can be pinned as the flags ask. The verbs device is not
// known yet, so the CPUs are counted as for a device whose NUMA node is unknown.
Result<> check_placing(const BenchOptions& o) {
  if (o.fabric == "sim" || !o.pin) return {};
  LOCH_ASSIGN(const cluster::LaunchEnv env, cluster::launch_env());
  const bool is_spread = (o.fabric == "verbs" || o.fabric == "ofi") && env.ranks > 1;
  LOCH_ASSIGN(const Placing placing,
              place_workers(o,
                            is_spread ? nodes_of_this_host(o, {}, env.rank, env.rank_here, env.ranks_here)
                                      : nodes_of_one_machine(o, env.rank, env.ranks),
                            {}));
  LOCH_TRY(background_cores(o, placing));
  return {};
}

}  // namespace

Result<> check_files(const BenchOptions& o) {
  LOCH_TRY(check_placing(o));
  if (o.fabric == "sim") {
    LOCH_TRY(hardware_of(o));
    if (!o.faults.empty()) LOCH_TRY(fabric::sim::load_faults(o.faults));
  }
  if (o.fabric != "sim" && !o.faults.empty()) LOCH_TRY(load_fault_config(o.faults));
  return {};
}

Result<OpenFabric> open_fabric(const BenchOptions& o, std::uint64_t seed, const Place& place) {
  OpenFabric open;
  LOCH_ASSIGN(std::unique_ptr<background::CpuLoad> load, start_background_load(o, place));
  if (!o.trace.empty()) {
    LOCH_ASSIGN(open.trace, fabric::TraceWriter::open(o.trace));
  }
  LOCH_ASSIGN(open.fabric, open_inner(o, seed, place, open));
  if (open.placing) {
    LOCH_ASSIGN(open.background_cores, background_cores(o, *open.placing));
    if (load != nullptr) LOCH_TRY(load->pin_to(open.background_cores));
  }
  if (open.trace != nullptr && o.fabric != "sim") {
    open.fabric = fabric::trace_requests(std::move(open.fabric), open.trace.get());
  }
  LOCH_ASSIGN(const std::optional<std::uint32_t> limit, fabric::parse_throttle(o.throttle));
  if (limit) {
    fabric::ThrottleConfig throttle{.limit = *limit};
    if (o.fabric == "sim") throttle.sample = 20'000;
    if (o.throttle_sample > 0) throttle.sample = o.throttle_sample;
    open.fabric = fabric::throttle_requests(std::move(open.fabric), throttle);
  }
  if (o.server_work > 0) open.fabric = fabric::assume_server_work(std::move(open.fabric), o.server_work);
  if (o.service_times) open.fabric = fabric::measure_service_times(std::move(open.fabric));
  fabric::CountConfig count;
  count.fabric_counts_wire = o.fabric == "sim";
  open.fabric = fabric::count_requests(std::move(open.fabric), count);
  if (o.fabric != "sim") {
    auto alongside = background::with_background(std::move(open.fabric), std::move(load));
    open.alongside = alongside.get();
    open.fabric = std::move(alongside);
  }
  return open;
}

}  // namespace loch::cli
