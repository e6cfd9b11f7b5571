// The control path of the simulated cluster: regions, workers, running, reporting.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <deque>
#include <optional>

#include "common/fabric/sim/report.h"
#include "common/fabric/sim/sim.h"
#include "common/fabric/sim/simulation.h"
#include "common/fabric/sim/threads.h"
#include "common/fabric/sim/tracing.h"
#include "common/fabric/sim/worker.h"

namespace loch::fabric::sim {
namespace {

Capabilities capabilities_of(const HardwareProfile& hardware, const SimFaults& faults) {
  Capabilities can;
  can.fabric = "sim";
  can.device = hardware.name;
  can.atomic_scope = AtomicScope::nic;
  can.untorn_bytes = 64;  // the simulation never tears a cache line
  const bool is_torn = faults.torn_read > 0 || faults.torn_write > 0 || faults.torn_landing > 0;
  can.in_order_placement = hardware.nic.is_in_order_placement && !is_torn;
  can.in_order_reads = can.in_order_placement;
  can.max_rd_atomic = hardware.nic.max_rd_atomic;
  can.max_inline_bytes = hardware.nic.max_inline_bytes;
  can.mtu_bytes = hardware.link.mtu_bytes;
  can.link = hardware.link.format;
  can.send_queue_depth = hardware.nic.send_queue_depth;
  can.recv_queue_depth = hardware.nic.recv_queue_depth;
  can.datagram_queue_pairs = SimWorker::most_lanes;
  can.request_lifetime = static_cast<Nanos>(hardware.nic.retry_timeout_ns * (hardware.nic.retry_count + 1.0));
  can.simulated = true;
  return can;
}

// Makes the parts of a simulation (one unless SimConfig::threads is above 1) and the nodes.
std::vector<std::unique_ptr<Simulation>> make_parts(Cluster& cluster) {
  std::vector<std::unique_ptr<Simulation>> parts;
  const std::uint32_t count = std::clamp(cluster.config.threads, 1U, cluster.config.nodes);
  for (std::uint32_t i = 0; i < count; ++i)
    parts.push_back(std::make_unique<Simulation>(cluster, static_cast<std::uint8_t>(i)));
  for (const auto& part : parts) part->outboxes.resize(count);
  make_nodes(cluster, parts);
  return parts;
}

class SimFabric final : public Fabric {
 public:
  explicit SimFabric(const SimConfig& config)
      : capabilities_(capabilities_of(config.hardware, config.faults)),
        cluster_(config),
        parts_(make_parts(cluster_)) {
    if (config.threads > 0) threads_.emplace(cluster_, parts_, is_interrupted_, &books_);
  }
  ~SimFabric() override {
    end_tasks();
    // workers and nodes hold objects of the parts' pools and queues
    cluster_.workers.clear();
    cluster_.nodes.clear();
  }
  SimFabric(const SimFabric&) = delete;
  SimFabric& operator=(const SimFabric&) = delete;

  const Capabilities& capabilities() const override { return capabilities_; }
  std::uint32_t nodes() const override { return static_cast<std::uint32_t>(sim_.nodes.size()); }
  bool is_local(NodeId node) const override { return node < sim_.nodes.size(); }

  Result<Region*> register_region(NodeId node, const RegionSpec& spec) override {
    LOCH_TRY(check_node(node));
    if (direct(node, spec.name) != nullptr) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("node {} has a region {} already", node, spec.name));
    }
    SimNode& home = *sim_.nodes[node];
    const auto id = static_cast<std::uint32_t>(home.regions.size());
    LOCH_ASSIGN(auto region, SimRegion::map(node, id, spec, sim_.config.data_scale));
    region->rkey = sim_.make_rkey(home, id);
    home.regions.push_back(std::move(region));
    return home.regions.back().get();
  }

  Result<Worker*> add_worker(const WorkerSpec& spec) override {
    LOCH_TRY(check_node(spec.node));
    SimNode& home = *sim_.nodes[spec.node];
    const bool is_taken = spec.index < home.workers.size() && home.workers[spec.index] != nullptr;
    // On a node that has restarted, the new worker takes the place of the dead one with this index.
    const bool is_reborn =
        is_taken && home.is_up && home.incarnation > 1 && home.workers[spec.index]->is_dead();
    if (is_taken && !is_reborn) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("node {} has a worker {} already", spec.node, spec.index));
    }
    LOCH_TRY(check_doorbell(spec));
    const std::uint32_t cores = sim_.config.hardware.cpu.cores;
    if (spec.core >= 0 && static_cast<std::uint32_t>(spec.core) >= cores) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("worker {} of node {} is pinned to core {}; the profile {} has {} cores",
                              spec.index, spec.node, spec.core, sim_.config.hardware.name, cores));
    }
    if (home.workers.size() <= spec.index) home.workers.resize(spec.index + 1u);
    sim_.workers.push_back(std::make_unique<SimWorker>(*parts_[home.part], home, spec, capabilities_));
    home.workers[spec.index] = sim_.workers.back().get();
    if (is_reborn) home.workers[spec.index]->connect_all();
    return sim_.workers.back().get();
  }

  Result<> exchange(Nanos) override {
    for (auto& worker : sim_.workers) worker->connect_all();
    // Upper bound of the number of queue pairs that are allocated before the run. A worker takes a queue pair
    // at its first request to a node; up to this bound, one is allocated for each worker and node, so that
    // none is allocated during the run.
    constexpr std::size_t most_ahead = 1 << 16;
    const std::size_t pairs = std::min(sim_.workers.size() * sim_.nodes.size(), most_ahead);
    for (const auto& part : parts_) part->queue_pairs.reserve(pairs / parts_.size());
    if (sim_.config.trace != nullptr) name_tracks(sim_);
    add_background_workers();
    return {};
  }

  Result<RemoteRegion> lookup(NodeId node, std::string_view name) const override {
    LOCH_TRY(check_node(node));
    for (const auto& region : sim_.nodes[node]->regions) {
      if (region->name() == name) return RemoteRegion{node, region->id(), region->rkey, region->bytes()};
    }
    return fail(ErrorCode::not_found, fmt::format("node {} has no region {}", node, name));
  }
  Region* direct(NodeId node, std::string_view name) override {
    if (node >= sim_.nodes.size()) return nullptr;
    for (const auto& region : sim_.nodes[node]->regions) {
      if (region->name() == name) return region.get();
    }
    return nullptr;
  }
  Result<> barrier(std::string_view, Nanos) override { return {}; }
  Result<std::vector<std::string>> gather(const std::string& mine, Nanos) override {
    return std::vector<std::string>{mine};
  }

  void start(Worker& worker, coro::Task<void> main) override {
    static_cast<SimWorker&>(worker).start(std::move(main));
  }

  Result<RunEnd> run() override {
    const auto wall = std::chrono::steady_clock::now();
    sim_.schedule_faults();
    const Result<RunEnd> end = threads_ ? threads_->run() : run_events();
    wall_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - wall).count();
    if (end && *end == RunEnd::deadlock) tell_deadlock();
    end_tasks();
    return end;
  }
  void on_restart(std::function<void(NodeId)> tell) override { sim_.tell_restart = std::move(tell); }
  void interrupt() override { is_interrupted_.store(true, std::memory_order_relaxed); }

  Result<> fence(NodeId dead) override {
    LOCH_TRY(check_node(dead));
    SimNode& node = *sim_.nodes[dead];
    for (SimWorker* worker : node.workers) {
      if (worker != nullptr && (worker->is_dead() || !node.is_up)) worker->fence();
    }
    return {};
  }

  void reset_counters() override {
    if (threads_ && threads_->is_running()) return threads_->want_reset();
    reset_books(parts_, &books_);
  }
  FabricReport report() const override { return make_report(parts_, books_, wall_s_); }

 private:
  Result<> check_node(NodeId node) const {
    if (node < sim_.nodes.size()) return {};
    return fail(ErrorCode::invalid_argument,
                fmt::format("there is no node {}: the cluster has {}", node, sim_.nodes.size()));
  }

  // Refuses a worker for which the NIC has no doorbell register, if each worker is to have one.
  Result<> check_doorbell(const WorkerSpec& spec) const {
    const std::uint32_t most = sim_.config.hardware.nic.crowded.own_doorbells;
    if (sim_.config.doorbells == DoorbellSharing::shared || spec.index < most) return {};
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("a doorbell register for each worker: the profile {} has {} for a node, not one for "
                    "worker {}",
                    sim_.config.hardware.name, most, spec.index));
  }

  struct BackgroundStart : Event {
    NodeCpu* cpu = nullptr;
    ThreadSpec spec;
  };

  void add_background_workers();
  RunEnd run_events();
  void tell_deadlock() const;
  void end_tasks() {
    if (threads_) return threads_->end_tasks();
    for (auto& worker : cluster_.workers) worker->end_task();
  }

  Capabilities capabilities_;
  Cluster cluster_;
  std::vector<std::unique_ptr<Simulation>> parts_;
  Simulation& sim_ = *parts_.front();  // the first part; the only one unless SimConfig::threads is above 1
  std::atomic<bool> is_interrupted_{false};
  Books books_;
  std::optional<Threads> threads_;  // if SimConfig::threads is not 0
  std::deque<BackgroundStart> background_starts_;
  double wall_s_ = 0;
};

// Adds background threads. The setting background_pin says whether they may run anywhere, on the servers'
// cores, on cores that no worker is pinned to, or on cores that no server is pinned to. The threads start at
// random instants within one period of the scheduler and on random cores: if all started at once, every core
// of the cluster would switch between a worker and a background thread at the same ticks for ever.
void SimFabric::add_background_workers() {
  const auto period = static_cast<std::uint64_t>(sim_.config.hardware.scheduler.latency_ms * 1e6);
  Rng rng(sim_.config.seed, "hogs");
  const std::uint32_t cores = sim_.config.hardware.cpu.cores;
  const std::uint32_t background_nodes = sim_.config.background_nodes;
  for (auto& node : sim_.nodes) {
    if (background_nodes > 0 && node->id >= background_nodes) break;
    std::vector<std::uint32_t> server_cores, free_cores;
    CoreSet served = 0;
    std::vector<bool> is_taken(cores, false);
    for (const SimWorker* worker : node->workers) {
      if (worker == nullptr || worker->spec().core < 0) continue;
      is_taken[static_cast<std::size_t>(worker->spec().core)] = true;
      if (worker->spec().role == Role::server) {
        server_cores.push_back(static_cast<std::uint32_t>(worker->spec().core));
        served |= one_core(server_cores.back());
      }
    }
    for (std::uint32_t core = 0; core < cores; ++core) {
      if (!is_taken[core]) free_cores.push_back(core);
    }
    const std::vector<std::uint32_t>& on =
        sim_.config.background_pin == BackgroundPin::shared ? server_cores : free_cores;
    for (std::uint32_t i = 0; i < sim_.config.background_workers; ++i) {
      ThreadSpec background;
      background.name = fmt::format("hog {}", i);
      background.role = ThreadRole::background;
      background.is_background = true;
      const bool has_own = sim_.config.background_pin == BackgroundPin::shared ||
                           sim_.config.background_pin == BackgroundPin::separate;
      if (has_own && !on.empty()) background.allowed = one_core(on[i % on.size()]);
      if (sim_.config.background_pin == BackgroundPin::clients && server_cores.size() < cores)
        background.allowed = ~served;
      BackgroundStart& start = background_starts_.emplace_back();
      start.fire = [](Event* event) {
        auto* self = static_cast<BackgroundStart*>(event);
        self->cpu->add_thread(self->spec);
      };
      start.cpu = node->cpu.get();
      start.spec = background;
      start.spec.parent_core = static_cast<std::uint32_t>(rng.below(cores));
      EventQueue& queue = parts_[node->part]->queue;
      queue.push(&start, queue.now() + static_cast<Nanos>(rng.below(period)));
    }
  }
}

RunEnd SimFabric::run_events() {
  if (sim_.live_clients == 0 && !sim_.stopping) sim_.begin_stopping();
  // Runs events until every worker's main coroutine has ended and every acknowledged WRITE is in memory.
  while (sim_.live_tasks > 0 || sim_.late_writes > 0) {
    if (is_interrupted_.load(std::memory_order_relaxed) && !sim_.stopping) sim_.begin_stopping();
    const Nanos end = std::min(sim_.config.deadline, sim_.config.finish);
    Event* event = end == forever ? sim_.queue.pop() : sim_.queue.pop_until(end);
    if (event == nullptr && sim_.queue.empty()) return RunEnd::deadlock;
    if (event == nullptr) return end == sim_.config.finish ? RunEnd::finished : RunEnd::deadline;
    if (sim_.config.most_events > 0 && sim_.queue.popped() > sim_.config.most_events) return RunEnd::deadline;
    event->fire(event);
    if (sim_.live_clients == 0 && !sim_.stopping) sim_.begin_stopping();
  }
  return is_interrupted_.load(std::memory_order_relaxed) ? RunEnd::interrupted : RunEnd::finished;
}

void SimFabric::tell_deadlock() const {
  fmt::print(stderr, "deadlock at {} ns of virtual time: nothing is left to happen, and {} workers wait\n",
             sim_.now(), std::ranges::count_if(sim_.workers, [](const auto& w) { return w->is_running(); }));
  int told = 0;
  for (const auto& worker : sim_.workers) {
    if (!worker->is_running()) continue;
    fmt::print(stderr, "  {}\n", worker->waits_for());
    if (++told == 20) break;
  }
}

}  // namespace

Result<std::unique_ptr<Fabric>> make_sim(const SimConfig& config) {
  constexpr std::uint32_t most_nodes = 4096;
  if (config.nodes == 0 || config.nodes > most_nodes) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("a simulated cluster has 1 to {} nodes, not {}", most_nodes, config.nodes));
  }
  if (config.hardware.name.empty())
    return fail(ErrorCode::invalid_argument, "the simulation has no hardware profile");
  for (const ScheduledFault& fault : config.faults.schedule) {
    if (fault.node >= config.nodes) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("a fault is scheduled for node {}; the cluster has {} nodes", fault.node,
                              config.nodes));
    }
    if (fault.kind == ScheduledFault::Kind::one_way && fault.peer >= config.nodes) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("a fault is scheduled for messages to node {}; the cluster has {} nodes",
                              fault.peer, config.nodes));
    }
  }
  if (config.threads > 0) LOCH_TRY(check_threads(config));
  return std::make_unique<SimFabric>(config);
}

}  // namespace loch::fabric::sim
