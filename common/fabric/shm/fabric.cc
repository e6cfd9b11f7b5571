// The control path of shm: nodes, regions, the exchange of regions between processes, threads, and reports.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/parallel.h"
#include "common/base/process_memory.h"
#include "common/fabric/realtime/laggards.h"
#include "common/fabric/realtime/regions.h"
#include "common/fabric/realtime/worker_pool.h"
#include "common/fabric/shm/job.h"
#include "common/fabric/shm/region.h"
#include "common/fabric/shm/shm.h"
#include "common/fabric/shm/worker.h"

namespace loch::fabric::shm {
namespace {

constexpr Nanos join_patience = 30'000'000'000;
constexpr Nanos run_poll = 500'000;
constexpr Nanos run_look = 100'000'000;
constexpr Nanos dead_look = 50'000'000;

std::unique_ptr<ShmRegion> region_of(NodeId node, std::uint32_t id, const RegionEntry& entry,
                                     Mapping memory) {
  return std::make_unique<ShmRegion>(node, id, entry.name, entry.bytes, entry.rkey, entry.rights,
                                     std::move(memory));
}

class ShmFabric final : public Fabric {
 public:
  explicit ShmFabric(const ShmConfig& config)
      : config_(config),
        regions_(config.nodes),
        receive_memory_(config.nodes),
        pool_(&shared_, config.nodes, config.pin_threads) {
    Capabilities& can = shared_.capabilities;
    can.fabric = "shm";
    can.device = config.ranks > 1 ? "processes" : "threads";
    // Atomics of shm are atomic with respect to CPU accesses too, and on x86 a WRITE's bytes appear in
    // address order. The weaker scope and no order are reported, so that protocols do not rely on more than a
    // NIC guarantees.
    can.atomic_scope = AtomicScope::nic;
    can.max_inline_bytes = ShmWorker::max_inline_bytes;
    shared_.nodes.resize(config.nodes);
    shared_.clock_base = realtime::read_clock(CLOCK_MONOTONIC);
    shared_.clocks_by_ticks = !config.exact_clock && realtime::kernel_trusts_ticks();
    // Workers of one process share a function of the counter, which puts their times in one order. Several
    // processes share nothing but CLOCK_MONOTONIC.
    if (config.exact_clock && config.ranks == 1) shared_.tick_line = realtime::TickLine::measure();
  }
  [[nodiscard]] Result<> join_job() {
    if (config_.ranks == 1) return {};
    auto job = Job::join(config_.job, config_.rank, config_.ranks, join_patience);
    if (!job) return std::unexpected(job.error());
    job_ = std::move(*job);
    shared_.job = job_.get();
    shared_.clock_base = job_->clock_base_ns();
    return {};
  }

  [[nodiscard]] const Capabilities& capabilities() const override { return shared_.capabilities; }
  [[nodiscard]] std::uint32_t nodes() const override { return config_.nodes; }
  [[nodiscard]] bool is_local(NodeId node) const override {
    return node < config_.nodes && (job_ == nullptr || node == config_.rank);
  }
  [[nodiscard]] Result<Region*> register_region(NodeId node, const RegionSpec& spec) override;
  [[nodiscard]] Result<Worker*> add_worker(const WorkerSpec& spec) override;
  [[nodiscard]] Result<> exchange(Nanos within) override;
  [[nodiscard]] Result<RemoteRegion> lookup(NodeId node, std::string_view region) const override;
  [[nodiscard]] Region* direct(NodeId node, std::string_view region) override {
    return regions_.find(node, region);
  }
  [[nodiscard]] Result<> barrier(std::string_view what, Nanos within) override {
    return job_ == nullptr ? Result<>() : job_->barrier(what, within);
  }
  [[nodiscard]] Result<std::vector<std::string>> gather(const std::string& mine, Nanos within) override {
    return job_ == nullptr ? Result<std::vector<std::string>>({mine}) : job_->gather(mine, within);
  }
  [[nodiscard]] std::uint32_t rank() const override { return config_.rank; }
  [[nodiscard]] std::uint32_t ranks() const override { return config_.ranks; }
  void start(Worker& worker, coro::Task<void> main) override {
    LOCH_CHECK(is_exchanged_, "a main is started after the exchange");
    pool_.start(worker, std::move(main));
  }
  [[nodiscard]] Result<RunEnd> run() override;
  void interrupt() override { shared_.interrupt(); }
  [[nodiscard]] Result<> fence(NodeId dead) override {
    // No request of a dead process can take effect later, because each request is executed by the thread that
    // posts it. So there is nothing to fence off.
    if (shared_.is_lost(dead)) return {};
    return fail(ErrorCode::unavailable, fmt::format("node {} is not known to be dead", dead));
  }
  void reset_counters() override { pool_.reset_counters(); }
  [[nodiscard]] FabricReport report() const override;

  [[nodiscard]] bool is_of_one_process() const { return job_ == nullptr; }
  [[nodiscard]] double region_bytes() const { return region_bytes_; }
  [[nodiscard]] Result<> own_memory() const;

 private:
  [[nodiscard]] realtime::Stage stage_of(NodeId node) const { return {is_local(node), is_exchanged_}; }
  [[nodiscard]] std::optional<std::uint32_t> numa_node_of(NodeId node) const {
    return node < config_.numa_nodes.size() ? std::optional(config_.numa_nodes[node]) : std::nullopt;
  }
  [[nodiscard]] Result<> map_remote_node(NodeId node);
  void publish_local_nodes();
  void connect_workers();
  [[nodiscard]] ShmWorker& worker_at(Worker* worker) const { return static_cast<ShmWorker&>(*worker); }
  [[nodiscard]] std::uint32_t running_workers() const;
  void await_clients();

  ShmConfig config_;
  Shared shared_;
  std::unique_ptr<Job> job_;
  realtime::Regions<ShmRegion> regions_;
  std::vector<std::vector<Mapping>> receive_memory_;  // indexed by node, then by worker
  realtime::WorkerPool pool_;
  std::vector<Mapping> remote_areas_;
  bool is_exchanged_ = false;
  std::uint64_t runs_ = 0;
  std::vector<std::uint32_t> late_;  // nodes whose clients had not ended when the run was given up
  double region_bytes_ = 0, bound_bytes_ = 0;
};

Result<Region*> ShmFabric::register_region(NodeId node, const RegionSpec& spec) {
  LOCH_TRY(realtime::check_region(node, spec, stage_of(node), regions_.find(node, spec.name) != nullptr));
  const std::uint32_t id = regions_.next_id(node);
  if (id >= RankSlot::max_regions)
    return realtime::refuse_region(node, spec, ErrorCode::exhausted, "a node has at most 128 regions");
  RegionEntry entry{};
  std::memcpy(entry.name, spec.name.data(), spec.name.size());
  entry.bytes = spec.bytes;
  entry.rkey = static_cast<std::uint32_t>(sub_seed(config_.seed, "rkey", std::uint64_t{node} << 32 | id)) | 1;
  entry.rights = (spec.remote_read ? MappedRegion::can_read : 0u) |
                 (spec.remote_write ? MappedRegion::can_write : 0u) |
                 (spec.remote_atomic ? MappedRegion::can_atomic : 0u);
  Result<Mapping> memory = Mapping();
  if (job_ != nullptr) {
    memory = job_->create('r', id, spec.bytes);
    job_->mine().region[id] = entry;
    // other processes read the number of regions after the barrier of exchange()
    job_->mine().regions.store(id + 1);
  } else {
    memory = realtime::zeroed_memory(spec.bytes);
  }
  if (!memory) return realtime::refuse_region(node, spec, memory.error().code, memory.error().message);
  region_bytes_ += static_cast<double>(memory->bytes());
  const auto numa_node = numa_node_of(node);
  if (numa_node && realtime::prefer_numa_node(*memory, *numa_node))
    bound_bytes_ += static_cast<double>(memory->bytes());
  ShmRegion* region = regions_.add(region_of(node, id, entry, std::move(*memory)));
  for (Worker* worker : pool_.workers(node)) worker_at(worker).add_region(region);
  return region;
}

Result<Worker*> ShmFabric::add_worker(const WorkerSpec& spec) {
  LOCH_TRY(realtime::check_worker(spec, stage_of(spec.node)));
  Result<Mapping> memory = job_ != nullptr ? job_->create('w', spec.index, sizeof(ReceiveArea))
                                           : realtime::zeroed_memory(sizeof(ReceiveArea));
  if (!memory) return realtime::refuse_worker(spec, memory.error().code, memory.error().message);
  auto* area = reinterpret_cast<ReceiveArea*>(memory->data());
  auto worker = std::make_unique<ShmWorker>(spec, config_.seed, &shared_, area);
  for (const auto& region : regions_.of(spec.node)) worker->add_region(region.get());
  Worker* added = pool_.add(std::move(worker));
  if (added == nullptr)
    return realtime::refuse_worker(spec, ErrorCode::invalid_argument, "the index is taken");
  receive_memory_[spec.node].push_back(std::move(*memory));
  if (job_ != nullptr) job_->mine().workers.store(std::max(job_->mine().workers.load(), spec.index + 1u));
  return added;
}

void ShmFabric::publish_local_nodes() {
  for (std::uint32_t node = 0; node < config_.nodes; ++node) {
    NodeTable& table = shared_.nodes[node];
    for (const auto& region : regions_.of(static_cast<NodeId>(node)))
      table.regions.push_back(region->mapped());
    const std::vector<realtime::RealtimeWorker*> workers = pool_.workers(static_cast<NodeId>(node));
    for (std::size_t i = 0; i < workers.size(); ++i) {
      const std::uint16_t index = workers[i]->index();
      if (table.receive_areas.size() <= index) table.receive_areas.resize(index + 1u);
      table.receive_areas[index] = reinterpret_cast<ReceiveArea*>(receive_memory_[node][i].data());
    }
  }
}

Result<> ShmFabric::map_remote_node(NodeId node) {
  const RankSlot& slot = job_->of(node);
  for (std::uint32_t id = 0; id < slot.regions.load(); ++id) {
    const RegionEntry& entry = slot.region[id];
    LOCH_ASSIGN(Mapping memory, job_->map(node, 'r', id, entry.bytes));
    const ShmRegion* region = regions_.add(region_of(node, id, entry, std::move(memory)));
    shared_.nodes[node].regions.push_back(region->mapped());
  }
  for (std::uint32_t index = 0; index < slot.workers.load(); ++index) {
    auto memory = job_->map(node, 'w', index, sizeof(ReceiveArea));
    ReceiveArea* area = nullptr;  // stays null if no worker has this index
    if (memory) {
      area = reinterpret_cast<ReceiveArea*>(memory->data());
      remote_areas_.push_back(std::move(*memory));
    }
    shared_.nodes[node].receive_areas.push_back(area);
  }
  return {};
}

void ShmFabric::connect_workers() {
  for (std::uint32_t node = 0; node < config_.nodes; ++node) {
    for (Worker* worker : pool_.workers(static_cast<NodeId>(node))) worker_at(worker).connect();
  }
}

Result<> ShmFabric::exchange(Nanos within) {
  if (is_exchanged_) return fail(ErrorCode::invalid_argument, "exchange: done once");
  is_exchanged_ = true;
  publish_local_nodes();
  if (job_ == nullptr) {
    connect_workers();
    return {};
  }
  LOCH_TRY(job_->barrier("exchange of regions", within));
  Result<> mapped;
  for (std::uint32_t node = 0; node < config_.nodes && mapped; ++node) {
    if (node != config_.rank && !job_->is_lost(node)) mapped = map_remote_node(static_cast<NodeId>(node));
  }
  if (!mapped) return mapped;
  connect_workers();
  // After this barrier every process has mapped all shared memory. The names of the shared-memory objects are
  // then removed, so that a crash leaves no shared memory behind.
  LOCH_TRY(job_->barrier("end of the exchange of regions", within));
  job_->forget_names();
  return {};
}

Result<RemoteRegion> ShmFabric::lookup(NodeId node, std::string_view region) const {
  if (is_exchanged_) {
    if (const ShmRegion* found = regions_.find(node, region)) return found->remote();
  }
  return realtime::unknown_region(node, region, is_exchanged_);
}

std::uint32_t ShmFabric::running_workers() const {
  if (job_ == nullptr) return pool_.started();
  std::uint32_t running = 0;
  for (std::uint32_t rank = 0; rank < config_.ranks; ++rank) running += job_->of(rank).workers.load();
  return running;
}

void ShmFabric::await_clients() {
  realtime::Laggards laggards(shared_.now(), config_.laggards_most, config_.run_most);
  if (job_ == nullptr) {
    while (!shared_.stopping.load() && !pool_.await_own_clients(run_look)) {
      if (!laggards.is_over(shared_.now(), false)) continue;
      late_ = pool_.nodes_of_running_clients();
      return;
    }
    return;
  }
  // Checks for dead processes during the whole run, so that workers need not do it.
  const timespec interval{0, run_poll};
  Nanos next_look = 0;
  bool has_told = false;
  for (;;) {
    const Nanos now = shared_.now();
    const bool look = now >= next_look;
    if (look) next_look = now + dead_look;
    std::vector<std::uint32_t> running = job_->ranks_running(runs_, look);
    const bool have_ended = pool_.clients_left() == 0;
    if ((have_ended && running.empty()) || shared_.stopping.load()) return;
    if (have_ended && !std::exchange(has_told, true)) job_->clients_ended(runs_);
    std::erase(running, config_.rank);
    if (laggards.is_over(now, have_ended || running.empty())) {
      if (!have_ended) running.push_back(config_.rank);
      late_ = std::move(running);
      return;
    }
    nanosleep(&interval, nullptr);
  }
}

Result<RunEnd> ShmFabric::run() {
  if (!is_exchanged_) return fail(ErrorCode::invalid_argument, "run: before the exchange");
  ++runs_;
  const RunEnd end = pool_.run_bounded("shm", running_workers() > usable_cores(), config_.ended_most,
                                       [this] { await_clients(); });
  if (late_.empty()) return end;
  std::vector<std::uint32_t> lost;
  for (std::uint32_t node = 0; node < config_.nodes; ++node) {
    if (shared_.is_lost(static_cast<NodeId>(node))) lost.push_back(node);
  }
  return fail(ErrorCode::timed_out, realtime::late_text("shm", late_, lost, job_ == nullptr));
}

Result<> ShmFabric::own_memory() const {
  const auto needed = static_cast<std::uint64_t>(region_bytes_);
  if (const std::uint64_t there = available_memory_bytes(); there != 0 && there < needed)
    return fail(ErrorCode::exhausted, fmt::format("{} bytes needed, {} available", needed, there));
  for (std::uint32_t node = 0; node < config_.nodes; ++node) {
    for (const auto& region : regions_.of(static_cast<NodeId>(node)))
      LOCH_TRY(realtime::own_pages(region->memory(), numa_node_of(static_cast<NodeId>(node))));
    for (const Mapping& area : receive_memory_[node]) LOCH_TRY(realtime::own_pages(area, std::nullopt));
  }
  return {};
}

FabricReport ShmFabric::report() const {
  FabricReport report;
  report.nodes.resize(config_.nodes);
  for (std::uint32_t node = 0; node < config_.nodes; ++node) {
    if (is_local(static_cast<NodeId>(node)))
      report.nodes[node] = pool_.report(static_cast<NodeId>(node), "shm");
    report.nodes[node].is_lost = shared_.is_lost(static_cast<NodeId>(node));
  }
  report.counters["shm.region_bytes"] = region_bytes_;
  report.counters["shm.bound_bytes"] = bound_bytes_;
  report.counters["shm.pinned"] = pool_.pinned();
  report.counters["shm.crowded"] = shared_.is_crowded.load() ? 1 : 0;
  return report;
}

}  // namespace

std::optional<std::uint64_t> region_bytes(const Fabric& fabric) {
  const auto* own = dynamic_cast<const ShmFabric*>(&fabric);
  if (own == nullptr || !own->is_of_one_process()) return std::nullopt;
  return static_cast<std::uint64_t>(own->region_bytes());
}

Result<> own_memory(Fabric& fabric) {
  LOCH_CHECK(region_bytes(fabric).has_value(), "the memory of another fabric");
  return static_cast<const ShmFabric&>(fabric).own_memory();
}

Result<std::unique_ptr<Fabric>> make_shm(const ShmConfig& config) {
  const auto processes = config.ranks > 1 ? std::optional(config.ranks) : std::nullopt;
  LOCH_TRY(realtime::check_nodes("shm", config.nodes, processes));
  if (config.ranks == 0 || config.rank >= config.ranks) {
    return fail(ErrorCode::invalid_argument, fmt::format("shm: process {} of {}", config.rank, config.ranks));
  }
  auto fabric = std::make_unique<ShmFabric>(config);
  LOCH_TRY(fabric->join_job());
  return fabric;
}

}  // namespace loch::fabric::shm
