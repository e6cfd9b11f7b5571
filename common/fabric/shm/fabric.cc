// The control path of shm: nodes, regions, exchange, threads, and what several processes agree on.
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "common/base/check.h"
#include "common/fabric/shm/job.h"
#include "common/fabric/shm/shm.h"
#include "common/fabric/shm/worker.h"

#if defined(LOCH_ASAN)
#include <sanitizer/lsan_interface.h>
#endif

namespace loch::fabric::shm {
namespace {

constexpr Nanos join_patience = 30'000'000'000;
constexpr Nanos run_poll = 500'000;
constexpr Nanos dead_look = 50'000'000;

Nanos read_clock(clockid_t clock) {
  timespec at{};
  if (clock_gettime(clock, &at) != 0) return 0;
  return at.tv_sec * 1'000'000'000LL + at.tv_nsec;
}

std::uint32_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<std::uint32_t>(CPU_COUNT(&set));
}

// Zeroed memory of this process, in huge pages where the kernel has them.
Result<Mapping> private_memory(std::size_t bytes, const std::string& what) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(ErrorCode::exhausted,
                fmt::format("{}: no memory of {} bytes: {}", what, bytes, std::strerror(errno)));
  }
  (void)madvise(memory, bytes, MADV_HUGEPAGE);
  return Mapping(static_cast<std::byte*>(memory), bytes);
}

class ShmRegion final : public Region {
 public:
  ShmRegion(NodeId node, std::uint32_t id, const RegionEntry& entry, Mapping memory)
      : Region(node, id, entry.name, memory.data(), entry.bytes, Elision{}),
        memory_(std::move(memory)),
        rkey_(entry.rkey),
        rights_(entry.rights) {}
  [[nodiscard]] MappedRegion mapped() const { return {memory_.data(), bytes(), rkey_, rights_}; }
  [[nodiscard]] RemoteRegion remote() const { return {node(), id(), rkey_, bytes()}; }

 private:
  Mapping memory_;
  std::uint32_t rkey_, rights_;
};

struct LocalWorker {
  std::unique_ptr<ShmWorker> worker;
  Mapping receive_memory;
  std::unique_ptr<coro::Task<void>> main;
  std::thread thread;
  std::atomic<bool> is_running = false;
  std::atomic<Nanos> cpu_ended = 0;   // CPU time of ended runs
  std::atomic<Nanos> wall_ended = 0;  // their duration
  std::atomic<Nanos> run_started = 0;
  std::atomic<Nanos> cpu_reset = 0, wall_reset = 0;  // at the last reset_counters
  clockid_t cpu_clock = 0;                           // while is_running

  [[nodiscard]] Nanos cpu() const { return cpu_ended + (is_running ? read_clock(cpu_clock) : 0); }
  [[nodiscard]] Nanos wall() const {
    return wall_ended + (is_running ? read_clock(CLOCK_MONOTONIC) - run_started : 0);
  }
};

class ShmFabric final : public Fabric {
 public:
  explicit ShmFabric(const ShmConfig& config)
      : config_(config), regions_(config.nodes), workers_(config.nodes) {
    Capabilities& can = shared_.capabilities;
    can.fabric = "shm";
    can.device = config.ranks > 1 ? "processes" : "threads";
    can.atomic_scope = AtomicScope::nic;  // really global; protocols are kept to the contract
    can.max_inline_bytes = ShmWorker::max_inline_bytes;
    shared_.nodes.resize(config.nodes);
    shared_.clock_base = read_clock(CLOCK_MONOTONIC);
  }
  ~ShmFabric() override {
    for (auto& node : workers_) {
      for (auto& local : node) LOCH_CHECK(!local->thread.joinable(), "a fabric is destroyed after its run");
    }
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
  [[nodiscard]] Region* direct(NodeId node, std::string_view region) override { return find(node, region); }
  [[nodiscard]] Result<> barrier(std::string_view what, Nanos within) override {
    return job_ == nullptr ? Result<>() : job_->barrier(what, within);
  }
  [[nodiscard]] Result<std::vector<std::string>> gather(const std::string& mine, Nanos within) override {
    return job_ == nullptr ? Result<std::vector<std::string>>({mine}) : job_->gather(mine, within);
  }
  [[nodiscard]] std::uint32_t rank() const override { return config_.rank; }
  [[nodiscard]] std::uint32_t ranks() const override { return config_.ranks; }
  void start(Worker& worker, coro::Task<void> main) override;
  [[nodiscard]] Result<RunEnd> run() override;
  void interrupt() override {
    shared_.interrupted.store(true, std::memory_order_relaxed);
    shared_.stopping.store(true, std::memory_order_relaxed);
  }
  [[nodiscard]] Result<> fence(NodeId dead) override {
    // Requests are carried out by the issuing thread: with its process gone, none is on the way.
    if (shared_.is_lost(dead)) return {};
    return fail(ErrorCode::unavailable, fmt::format("node {} is not known to be dead", dead));
  }
  void reset_counters() override;
  [[nodiscard]] FabricReport report() const override;

 private:
  [[nodiscard]] ShmRegion* find(NodeId node, std::string_view name) const;
  [[nodiscard]] Result<> map_remote_node(NodeId node);
  void publish_local_nodes();
  void decide_crowding();
  void thread_body(LocalWorker& local);
  void await_clients();
  void join_threads();
  [[nodiscard]] NodeReport report_of(const std::vector<std::unique_ptr<LocalWorker>>& workers) const;

  ShmConfig config_;
  Shared shared_;
  std::unique_ptr<Job> job_;
  std::vector<std::vector<std::unique_ptr<ShmRegion>>> regions_;    // by node, by id
  std::vector<std::vector<std::unique_ptr<LocalWorker>>> workers_;  // by node, in order of adding
  std::vector<Mapping> remote_areas_;
  bool is_exchanged_ = false;
  std::uint64_t runs_ = 0;
  std::atomic<std::uint32_t> clients_left_ = 0;
};

ShmRegion* ShmFabric::find(NodeId node, std::string_view name) const {
  if (node >= regions_.size()) return nullptr;
  for (const auto& region : regions_[node]) {
    if (region->name() == name) return region.get();
  }
  return nullptr;
}

Result<Region*> ShmFabric::register_region(NodeId node, const RegionSpec& spec) {
  const auto refuse = [&](ErrorCode code, std::string_view why) {
    return fail(code, fmt::format("region \"{}\" of node {}: {}", spec.name, node, why));
  };
  if (!is_local(node)) return refuse(ErrorCode::invalid_argument, "the node is not of this process");
  if (is_exchanged_) return refuse(ErrorCode::invalid_argument, "registered after the exchange");
  if (spec.bytes == 0) return refuse(ErrorCode::invalid_argument, "has no bytes");
  if (find(node, spec.name) != nullptr) return refuse(ErrorCode::invalid_argument, "the name is taken");
  RegionEntry entry{};
  if (spec.name.empty() || spec.name.size() >= sizeof entry.name) {
    return refuse(ErrorCode::invalid_argument, "the name has 1 to 95 characters");
  }
  auto& regions = regions_[node];
  if (regions.size() >= RankSlot::max_regions)
    return refuse(ErrorCode::exhausted, "a node has at most 128 regions");
  const auto id = static_cast<std::uint32_t>(regions.size());
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
    job_->mine().regions.store(id + 1);  // read by the others after the exchange's barrier
  } else {
    memory = private_memory(spec.bytes, spec.name);
  }
  if (!memory) return refuse(memory.error().code, memory.error().message);
  regions.push_back(std::make_unique<ShmRegion>(node, id, entry, std::move(*memory)));
  for (const auto& local : workers_[node]) local->worker->add_region(regions.back().get());
  return regions.back().get();
}

Result<Worker*> ShmFabric::add_worker(const WorkerSpec& spec) {
  const auto refuse = [&](std::string_view why) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("worker {} of node {}: {}", spec.index, spec.node, why));
  };
  if (!is_local(spec.node)) return refuse("the node is not of this process");
  if (is_exchanged_) return refuse("added after the exchange");
  for (const auto& other : workers_[spec.node]) {
    if (other->worker->index() == spec.index) return refuse("the index is taken");
  }
  Result<Mapping> memory = job_ != nullptr ? job_->create('w', spec.index, sizeof(ReceiveArea))
                                           : private_memory(sizeof(ReceiveArea), "receive queues");
  if (!memory) return std::unexpected(memory.error());
  auto local = std::make_unique<LocalWorker>();
  local->receive_memory = std::move(*memory);
  auto* area = reinterpret_cast<ReceiveArea*>(local->receive_memory.data());
  local->worker = std::make_unique<ShmWorker>(spec, config_.seed, &shared_, area);
  for (const auto& region : regions_[spec.node]) local->worker->add_region(region.get());
  if (job_ != nullptr) job_->mine().workers.store(std::max(job_->mine().workers.load(), spec.index + 1u));
  workers_[spec.node].push_back(std::move(local));
  return workers_[spec.node].back()->worker.get();
}

void ShmFabric::publish_local_nodes() {
  for (std::uint32_t node = 0; node < config_.nodes; ++node) {
    NodeTable& table = shared_.nodes[node];
    for (const auto& region : regions_[node]) table.regions.push_back(region->mapped());
    for (const auto& local : workers_[node]) {
      const std::uint16_t index = local->worker->index();
      if (table.receive_areas.size() <= index) table.receive_areas.resize(index + 1u);
      table.receive_areas[index] = reinterpret_cast<ReceiveArea*>(local->receive_memory.data());
    }
  }
}

Result<> ShmFabric::map_remote_node(NodeId node) {
  const RankSlot& slot = job_->of(node);
  for (std::uint32_t id = 0; id < slot.regions.load(); ++id) {
    const RegionEntry& entry = slot.region[id];
    LOCH_ASSIGN(Mapping memory, job_->map(node, 'r', id, entry.bytes));
    regions_[node].push_back(std::make_unique<ShmRegion>(node, id, entry, std::move(memory)));
    shared_.nodes[node].regions.push_back(regions_[node].back()->mapped());
  }
  for (std::uint32_t index = 0; index < slot.workers.load(); ++index) {
    auto memory = job_->map(node, 'w', index, sizeof(ReceiveArea));
    ReceiveArea* area = nullptr;  // an index that nobody took
    if (memory) {
      area = reinterpret_cast<ReceiveArea*>(memory->data());
      remote_areas_.push_back(std::move(*memory));
    }
    shared_.nodes[node].receive_areas.push_back(area);
  }
  return {};
}

Result<> ShmFabric::exchange(Nanos within) {
  if (is_exchanged_) return fail(ErrorCode::invalid_argument, "exchange: done once");
  is_exchanged_ = true;
  publish_local_nodes();
  for (const auto& node : workers_) {
    for (const auto& local : node) local->worker->connect(config_.nodes);
  }
  if (job_ == nullptr) return {};
  LOCH_TRY(job_->barrier("exchange of regions", within));
  Result<> mapped;
  for (std::uint32_t node = 0; node < config_.nodes && mapped; ++node) {
    if (node != config_.rank && !job_->is_lost(node)) mapped = map_remote_node(static_cast<NodeId>(node));
  }
  if (!mapped) return mapped;
  // Everyone has mapped everything: the names go, so that no crash leaves memory behind.
  LOCH_TRY(job_->barrier("end of the exchange of regions", within));
  job_->forget_names();
  return {};
}

Result<RemoteRegion> ShmFabric::lookup(NodeId node, std::string_view region) const {
  if (is_exchanged_) {
    if (const ShmRegion* found = find(node, region)) return found->remote();
  }
  return fail(ErrorCode::not_found,
              fmt::format("region \"{}\" of node {}: {}", region, node,
                          is_exchanged_ ? "not registered" : "looked up before the exchange"));
}

void ShmFabric::start(Worker& worker, coro::Task<void> main) {
  LOCH_CHECK(is_exchanged_, "a main is started after the exchange");
  for (const auto& local : workers_.at(worker.node())) {
    if (local->worker.get() != &worker) continue;
    LOCH_CHECK(local->main == nullptr, "{} has a main already", worker.spec().name);
    local->main = std::make_unique<coro::Task<void>>(std::move(main));
    return;
  }
  LOCH_CHECK(false, "the worker is not one of this fabric's");
}

// Workers that share cores must give them up; those that have their own burn them.
void ShmFabric::decide_crowding() {
  std::uint32_t running = 0;
  if (job_ != nullptr) {
    for (std::uint32_t rank = 0; rank < config_.ranks; ++rank) running += job_->of(rank).workers.load();
  } else {
    for (const auto& node : workers_) {
      for (const auto& local : node) running += local->main != nullptr ? 1 : 0;
    }
  }
  shared_.is_crowded.store(running > usable_cores());
}

void ShmFabric::thread_body(LocalWorker& local) {
  const WorkerSpec& spec = local.worker->spec();
  pthread_setname_np(pthread_self(), fmt::format("{}:{}", spec.node, spec.name).substr(0, 15).c_str());
  prctl(PR_SET_TIMERSLACK, 1);  // sleeps end when they should
  if (config_.pin_threads && spec.core >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(spec.core) % CPU_SETSIZE, &set);
    (void)sched_setaffinity(0, sizeof set, &set);
  }
  local.run_started = read_clock(CLOCK_MONOTONIC);
  pthread_getcpuclockid(pthread_self(), &local.cpu_clock);
  local.is_running = true;
  if (!local.worker->run(local.main.get())) {
    shared_.deadlocked.store(true);
    shared_.stopping.store(true);
  }
  const Nanos cpu = read_clock(CLOCK_THREAD_CPUTIME_ID);
  const Nanos wall = read_clock(CLOCK_MONOTONIC) - local.run_started;
  local.is_running = false;
  local.cpu_ended += cpu;
  local.wall_ended += wall;
  if (spec.role == Role::client && clients_left_.fetch_sub(1) == 1) clients_left_.notify_all();
}

void ShmFabric::await_clients() {
  if (job_ == nullptr) {
    for (std::uint32_t left = clients_left_; left != 0; left = clients_left_) clients_left_.wait(left);
    return;
  }
  // Dead processes are looked for all the while, for the workers' sake.
  const timespec interval{0, run_poll};
  Nanos next_look = 0;
  bool has_told = false;
  for (;;) {
    const Nanos now = shared_.now();
    const bool look = now >= next_look;
    if (look) next_look = now + dead_look;
    const bool ended = job_->all_clients_ended(runs_, look);
    if (clients_left_ == 0) {
      if (ended || shared_.stopping.load()) return;
      if (!std::exchange(has_told, true)) job_->clients_ended(runs_);
    }
    nanosleep(&interval, nullptr);
  }
}

void ShmFabric::join_threads() {
  for (const auto& node : workers_) {
    for (const auto& local : node) {
      if (!local->thread.joinable()) continue;
      local->thread.join();
      if (shared_.deadlocked.load()) {
        // Frames that will never go on cannot be unwound: left as they are.
        [[maybe_unused]] auto* abandoned = local->main.release();
#if defined(LOCH_ASAN)
        __lsan_ignore_object(abandoned);
#endif
      }
      local->main.reset();
    }
  }
}

Result<RunEnd> ShmFabric::run() {
  if (!is_exchanged_) return fail(ErrorCode::invalid_argument, "run: before the exchange");
  ++runs_;
  shared_.stopping.store(shared_.interrupted.load());
  decide_crowding();
  std::uint32_t clients = 0;
  for (const auto& node : workers_) {
    for (const auto& local : node) {
      if (local->main != nullptr && local->worker->spec().role == Role::client) ++clients;
    }
  }
  clients_left_ = clients;
  for (const auto& node : workers_) {
    for (const auto& local : node) {
      if (local->main != nullptr) local->thread = std::thread([this, &local] { thread_body(*local); });
    }
  }
  await_clients();
  const bool was_interrupted = shared_.interrupted.load();
  shared_.stopping.store(true);
  join_threads();
  if (shared_.deadlocked.load()) return RunEnd::deadlock;
  return was_interrupted ? RunEnd::interrupted : RunEnd::finished;
}

void ShmFabric::reset_counters() {
  for (const auto& node : workers_) {
    for (const auto& local : node) {
      local->cpu_reset = local->cpu();
      local->wall_reset = local->wall();
    }
  }
}

NodeReport ShmFabric::report_of(const std::vector<std::unique_ptr<LocalWorker>>& workers) const {
  struct Share {
    double cpu = 0, wall = 0;
    [[nodiscard]] double busy() const { return wall > 0 ? std::min(1.0, cpu / wall) : 0; }
  } all, client, server;
  NodeReport report;
  double yields = 0, sleeps = 0;
  for (const auto& local : workers) {
    const auto cpu = static_cast<double>(local->cpu() - local->cpu_reset);
    const auto wall = static_cast<double>(local->wall() - local->wall_reset);
    for (Share* share : {&all, local->worker->spec().role == Role::client ? &client : &server}) {
      share->cpu += cpu;
      share->wall += wall;
    }
    yields += static_cast<double>(local->worker->yields.load());
    sleeps += static_cast<double>(local->worker->sleeps.load());
  }
  report.cpu_busy = all.busy();
  report.client_busy = client.busy();
  report.server_busy = server.busy();
  report.counters = {{"shm.yields", yields}, {"shm.sleeps", sleeps}};
  return report;
}

FabricReport ShmFabric::report() const {
  FabricReport report;
  report.nodes.resize(config_.nodes);
  for (std::uint32_t node = 0; node < config_.nodes; ++node) {
    if (is_local(static_cast<NodeId>(node))) report.nodes[node] = report_of(workers_[node]);
    report.nodes[node].is_lost = shared_.is_lost(static_cast<NodeId>(node));
  }
  report.counters["shm.crowded"] = shared_.is_crowded.load() ? 1 : 0;
  return report;
}

}  // namespace

Result<std::unique_ptr<Fabric>> make_shm(const ShmConfig& config) {
  if (config.nodes == 0 || config.nodes > 4096) {
    return fail(ErrorCode::invalid_argument, fmt::format("shm: {} nodes; expected 1 to 4096", config.nodes));
  }
  if (config.ranks > 1 && config.ranks != config.nodes) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("shm: {} processes for {} nodes; each process is one node", config.ranks, config.nodes));
  }
  if (config.ranks == 0 || config.rank >= config.ranks) {
    return fail(ErrorCode::invalid_argument, fmt::format("shm: process {} of {}", config.rank, config.ranks));
  }
  auto fabric = std::make_unique<ShmFabric>(config);
  LOCH_TRY(fabric->join_job());
  return fabric;
}

}  // namespace loch::fabric::shm
