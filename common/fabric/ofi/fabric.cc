// Implements the control path of the fabric over libfabric: regions, workers, the exchange of addresses, and
// runs with one or several processes.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "common/base/check.h"
#include "common/base/load_counts.h"
#include "common/base/parallel.h"
#include "common/base/rng.h"
#include "common/fabric/ofi/ofi.h"
#include "common/fabric/ofi/peers.h"
#include "common/fabric/ofi/progress.h"
#include "common/fabric/ofi/provider.h"
#include "common/fabric/ofi/worker.h"
#include "common/fabric/processes/clock.h"
#include "common/fabric/realtime/laggards.h"
#include "common/fabric/realtime/regions.h"
#include "common/fabric/realtime/worker_pool.h"

namespace loch::fabric::ofi {
namespace {

constexpr Nanos run_look = 100'000'000;
constexpr std::string_view ended_word = "clients ended ";

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

// Remembers, from the messages of the other processes, the number of the last run whose clients have ended
// there.
class EndedRuns {
 public:
  explicit EndedRuns(std::size_t ranks) : ended_(ranks) {}
  void take(std::uint32_t from, std::string_view text) {
    std::uint64_t run = 0;
    if (!text.starts_with(ended_word) || from >= ended_.size()) return;
    text.remove_prefix(ended_word.size());
    if (std::from_chars(text.data(), text.data() + text.size(), run).ec != std::errc{}) return;
    const std::scoped_lock lock(mutex_);
    ended_[from] = std::max(ended_[from], run);
    changed_.notify_all();
  }
  void notice() { changed_.notify_all(); }
  // The live processes other than this one whose clients have not ended run number `run`.
  [[nodiscard]] std::vector<std::uint32_t> running(const cluster::Control& control, std::uint64_t run) {
    const std::scoped_lock lock(mutex_);
    return running_now(control, run);
  }
  void await(const cluster::Control& control, std::uint64_t run, Nanos within) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::nanoseconds(within),
                      [&] { return running_now(control, run).empty(); });
  }

 private:
  [[nodiscard]] std::vector<std::uint32_t> running_now(const cluster::Control& control,
                                                       std::uint64_t run) const {
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t rank = 0; rank < ended_.size(); ++rank) {
      if (rank != control.rank() && !control.is_lost(rank) && ended_[rank] < run) ranks.push_back(rank);
    }
    return ranks;
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint64_t> ended_;  // for each rank, which run its clients ended last
};

class OfiFabric final : public Fabric {
 public:
  OfiFabric(const OfiConfig& config, std::unique_ptr<Provider> provider)
      : config_(config),
        provider_(std::move(provider)),
        ended_(config.nodes),
        regions_(config.nodes),
        pool_(&shared_, config.nodes, config.pin_threads) {
    shared_.capabilities = capabilities_of(provider_->info(), config.waits_for_writes);
    shared_.clock_base = realtime::read_clock(CLOCK_MONOTONIC);
    shared_.clocks_by_ticks = !config.exact_clock && realtime::kernel_trusts_ticks();
    // no PAUSE instruction between polls: polling a completion queue already takes as long as one
    shared_.pauses = false;
    shared_.provider = provider_.get();
    shared_.control = config.control;
    shared_.peers.resize(config.nodes);
    shared_.kept = kept_order(provider_->info());
    shared_.waits_for_writes = config.waits_for_writes;
  }
  ~OfiFabric() override;

  [[nodiscard]] const Capabilities& capabilities() const override { return shared_.capabilities; }
  [[nodiscard]] std::uint32_t nodes() const override { return config_.nodes; }
  [[nodiscard]] bool is_local(NodeId node) const override {
    return node < config_.nodes && (config_.control == nullptr || node == config_.control->rank());
  }
  [[nodiscard]] Result<Region*> register_region(NodeId node, const RegionSpec& spec) override;
  [[nodiscard]] Result<Worker*> add_worker(const WorkerSpec& spec) override;
  [[nodiscard]] Result<> exchange(Nanos within) override;
  [[nodiscard]] Result<RemoteRegion> lookup(NodeId node, std::string_view region) const override;
  [[nodiscard]] Region* direct(NodeId node, std::string_view region) override {
    return regions_.find(node, region);
  }
  [[nodiscard]] Result<> barrier(std::string_view what, Nanos within) override {
    return config_.control == nullptr ? Result<>() : config_.control->barrier(what, within);
  }
  [[nodiscard]] Result<std::vector<std::string>> gather(const std::string& mine, Nanos within) override;
  [[nodiscard]] std::uint32_t rank() const override {
    return config_.control == nullptr ? 0 : config_.control->rank();
  }
  [[nodiscard]] std::uint32_t ranks() const override {
    return config_.control == nullptr ? 1 : config_.control->ranks();
  }
  void start(Worker& worker, coro::Task<void> main) override {
    LOCH_CHECK(is_exchanged_, "a main is started after the exchange");
    pool_.start(worker, std::move(main));
  }
  [[nodiscard]] Result<RunEnd> run() override;
  void interrupt() override { shared_.interrupt(); }
  [[nodiscard]] Nanos clock_error() const override { return clock_error_; }
  [[nodiscard]] bool has_one_clock() const override { return false; }
  void reset_counters() override { pool_.reset_counters(); }
  [[nodiscard]] FabricReport report() const override;

 private:
  [[nodiscard]] realtime::Stage stage_of(NodeId node) const { return {is_local(node), is_exchanged_}; }
  [[nodiscard]] static OfiWorker& worker_at(Worker* worker) { return static_cast<OfiWorker&>(*worker); }
  [[nodiscard]] LoadCounts::Counters counted(NodeId node) const;
  [[nodiscard]] Result<NodeRecord> record_of(NodeId node);
  [[nodiscard]] Result<std::vector<NodeRecord>> all_records(Nanos within);
  [[nodiscard]] Result<> put_peer(NodeRecord record);
  [[nodiscard]] Result<> connect_responders(Nanos within);
  void await_clients();

  OfiConfig config_;
  std::unique_ptr<Provider> provider_;
  Shared shared_;
  EndedRuns ended_;
  realtime::Regions<OfiRegion> regions_;
  realtime::WorkerPool pool_;
  Progress progress_;  // declared after the pool, so that its thread ends before the workers are destroyed
  bool is_exchanged_ = false;
  Nanos clock_error_ = 0;
  std::uint64_t runs_ = 0;
  // by node: of its workers
  std::vector<LoadCounts> node_counts_ = std::vector<LoadCounts>(config_.nodes);
  std::vector<std::uint32_t> late_;  // nodes whose clients had not ended when the run was given up
};

OfiFabric::~OfiFabric() {
  if (config_.control != nullptr) {
    config_.control->on_message([](std::uint32_t, std::string_view) {});
    config_.control->on_lost({});
  }
  progress_.stop();
  for (std::uint32_t node = 0; node < config_.nodes; ++node) {
    for (const auto& region : regions_.of(static_cast<NodeId>(node))) region->delist();
  }
}

Result<Region*> OfiFabric::register_region(NodeId node, const RegionSpec& spec) {
  LOCH_TRY(realtime::check_region(node, spec, stage_of(node), regions_.find(node, spec.name) != nullptr));
  auto memory = realtime::zeroed_memory(spec.bytes);
  if (!memory) return realtime::refuse_region(node, spec, memory.error().code, memory.error().message);
  const std::uint32_t id = regions_.next_id(node);
  const auto rkey =
      static_cast<std::uint32_t>(sub_seed(config_.seed, "rkey", std::uint64_t{node} << 32 | id)) | 1;
  return regions_.add(std::make_unique<OfiRegion>(node, id, spec, rkey, std::move(*memory)));
}

Result<Worker*> OfiFabric::add_worker(const WorkerSpec& spec) {
  LOCH_TRY(realtime::check_worker(spec, stage_of(spec.node)));
  auto worker = std::make_unique<OfiWorker>(spec, config_.seed, &shared_);
  LOCH_TRY(worker->open());
  OfiWorker* made = worker.get();
  if (pool_.add(std::move(worker)) == nullptr)
    return realtime::refuse_worker(spec, ErrorCode::invalid_argument, "the index is taken");
  return made;
}

// ---- The exchange of addresses and keys among the processes ------------------------------------

Result<NodeRecord> OfiFabric::record_of(NodeId node) {
  NodeRecord record;
  record.node = node;
  record.host = host_name();
  record.provider = provider_->name();
  const auto workers = pool_.workers(node);
  if (workers.empty() && !regions_.of(node).empty() && provider_->binds_memory_to_endpoints())
    return fail(ErrorCode::unsupported,
                fmt::format("ofi: provider {} needs a worker on node {}, which has regions",
                            provider_->name(), node));
  for (const auto& region : regions_.of(node)) {
    LOCH_TRY(region->enlist(*provider_, workers.empty() ? nullptr : worker_at(workers.front()).endpoint()));
    record.regions.push_back(region->record(*provider_));
  }
  for (Worker* worker : workers) {
    LOCH_ASSIGN(WorkerRecord endpoint, worker_at(worker).record());
    record.workers.push_back(std::move(endpoint));
  }
  return record;
}

Result<std::vector<NodeRecord>> OfiFabric::all_records(Nanos within) {
  std::vector<NodeRecord> all;
  if (config_.control == nullptr) {
    for (std::uint32_t node = 0; node < config_.nodes; ++node) {
      LOCH_ASSIGN(NodeRecord record, record_of(static_cast<NodeId>(node)));
      all.push_back(std::move(record));
    }
    return all;
  }
  LOCH_ASSIGN(const NodeRecord mine, record_of(static_cast<NodeId>(rank())));
  LOCH_ASSIGN(const std::vector<std::string> texts,
              config_.control->all_gather("regions and endpoints", to_text(mine), within));
  for (std::uint32_t from = 0; from < texts.size(); ++from) {
    if (texts[from].empty()) continue;  // the process was lost and sent no record
    LOCH_ASSIGN(NodeRecord record, parse_node(texts[from], config_.nodes));
    if (record.node != from)
      return fail(ErrorCode::corrupt, fmt::format("process {} calls itself node {}", from, record.node));
    if (record.provider != mine.provider) {
      return fail(
          ErrorCode::unavailable,
          fmt::format("ofi: node {} ({}) has provider {}, node {} ({}) has {}: name one that all have "
                      "(--ofi-provider)",
                      mine.node, mine.host, mine.provider, record.node, record.host, record.provider));
    }
    all.push_back(std::move(record));
  }
  return all;
}

Result<> OfiFabric::put_peer(NodeRecord record) {
  Peer& peer = shared_.peers[record.node];
  for (const WorkerRecord& worker : record.workers) {
    fi_addr_t address = FI_ADDR_UNSPEC;
    const int count = fi_av_insert(provider_->addresses(), worker.address.data(), 1, &address, 0, nullptr);
    if (count != 1) {
      return fail(ErrorCode::unavailable,
                  fmt::format("ofi: provider {} cannot address worker {} of node {} ({})", provider_->name(),
                              worker.index, record.node, record.host));
    }
    if (peer.workers.size() <= worker.index) peer.workers.resize(worker.index + 1u, FI_ADDR_UNSPEC);
    peer.workers[worker.index] = address;
    if (peer.responder == FI_ADDR_UNSPEC) peer.responder = address;
  }
  peer.record = std::move(record);
  return {};
}

Result<> OfiFabric::exchange(Nanos within) {
  if (is_exchanged_) return fail(ErrorCode::invalid_argument, "exchange: done once");
  is_exchanged_ = true;
  if (config_.control != nullptr) {
    if (config_.control->incarnation(rank()) != 0)
      return fail(ErrorCode::unsupported, "ofi: a process that was restarted cannot join the run again");
    LOCH_ASSIGN(const processes::Alignment aligned,
                processes::align_clocks(*config_.control, shared_.clock_base, within));
    shared_.clock_base = aligned.base;
    clock_error_ = aligned.error;
  }
  LOCH_ASSIGN(std::vector<NodeRecord> records, all_records(within));
  for (NodeRecord& record : records) LOCH_TRY(put_peer(std::move(record)));
  std::vector<OfiWorker*> workers;
  for (std::uint32_t node = 0; node < config_.nodes; ++node) {
    for (Worker* worker : pool_.workers(static_cast<NodeId>(node))) workers.push_back(&worker_at(worker));
  }
  progress_.start(std::move(workers));
  if (config_.control != nullptr) {
    config_.control->on_message(
        [this](std::uint32_t from, std::string_view text) { ended_.take(from, text); });
    config_.control->on_lost([this](std::uint32_t) { ended_.notice(); });
  }
  LOCH_TRY(barrier("endpoints known", within));
  LOCH_TRY(connect_responders(within));
  return barrier("endpoints connected", within);
}

// Connects the endpoints of the nodes' first workers, each pair from the lower node. A provider over
// connections (rxm) connects two endpoints at the first message; where both begin at the same time, libfabric
// 1.17 can leave one of the two requests unread, and both wait until it gives up 100 seconds later. Other
// pairs of endpoints never begin at the same time: one-sided requests go to a node's first worker, and a
// server's worker sends messages to a client's worker only after it has received one from that worker.
Result<> OfiFabric::connect_responders(Nanos within) {
  if (provider_->name().find("ofi_rxm") == std::string::npos) return {};
  const Nanos deadline = shared_.now() + within;
  for (std::uint32_t node = 0; node < config_.nodes; ++node) {
    const auto workers = pool_.workers(static_cast<NodeId>(node));
    if (workers.empty()) continue;
    OfiWorker& first = worker_at(workers.front());
    std::vector<NodeId> greeted;
    for (std::uint32_t peer = node + 1; peer < config_.nodes; ++peer) {
      const fi_addr_t to = shared_.peers[peer].responder;
      if (to == FI_ADDR_UNSPEC || shared_.is_lost(static_cast<NodeId>(peer))) continue;
      first.greet(to);
      greeted.push_back(static_cast<NodeId>(peer));
    }
    while (!first.has_greeted()) {
      for (const NodeId peer : greeted) {
        if (shared_.is_lost(peer))
          return fail(ErrorCode::unavailable,
                      fmt::format("ofi: node {} is lost, before it was connected", peer));
      }
      if (shared_.now() > deadline) {
        return fail(ErrorCode::timed_out,
                    fmt::format("ofi: node {} cannot connect to node {}", node, fmt::join(greeted, ", ")));
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  return {};
}

Result<RemoteRegion> OfiFabric::lookup(NodeId node, std::string_view region) const {
  if (is_exchanged_ && node < config_.nodes) {
    const auto& regions = shared_.peers[node].record.regions;
    const auto found = std::ranges::find(regions, region, &RegionRecord::name);
    if (found != regions.end())
      return RemoteRegion{node, static_cast<std::uint32_t>(found - regions.begin()), found->rkey,
                          found->bytes};
  }
  return realtime::unknown_region(node, region, is_exchanged_);
}

Result<std::vector<std::string>> OfiFabric::gather(const std::string& mine, Nanos within) {
  if (config_.control == nullptr) return std::vector<std::string>{mine};
  // Results go to the lowest live rank. Every process agrees which that is, and process 0 may be dead.
  LOCH_ASSIGN(std::vector<std::string> texts, config_.control->all_gather("results", mine, within));
  const auto first = std::ranges::find_if(texts, [](const std::string& text) { return !text.empty(); });
  if (first - texts.begin() != static_cast<std::ptrdiff_t>(rank())) texts.clear();
  return texts;
}

// ---- Runs of the load ----------------------------------------------------------------------------

void OfiFabric::await_clients() {
  realtime::Laggards laggards(shared_.now(), config_.laggards_most, config_.run_most);
  if (config_.control == nullptr) {
    while (!shared_.stopping.load() && !pool_.await_own_clients(run_look)) {
      if (!laggards.is_over(shared_.now(), false)) continue;
      late_ = pool_.nodes_of_running_clients();
      return;
    }
    return;
  }
  cluster::Control& control = *config_.control;
  bool has_told = false;
  while (!shared_.stopping.load()) {
    const bool have_ended = pool_.await_own_clients(has_told ? 0 : run_look);
    if (have_ended && !std::exchange(has_told, true)) {
      for (std::uint32_t to = 0; to < control.ranks(); ++to) {
        if (to != control.rank()) control.send(to, fmt::format("{}{}", ended_word, runs_));
      }
    }
    std::vector<std::uint32_t> running = ended_.running(control, runs_);
    if (have_ended && running.empty()) return;
    if (laggards.is_over(shared_.now(), have_ended || running.empty())) {
      for (const std::uint32_t node : pool_.nodes_of_running_clients()) running.push_back(node);
      late_ = std::move(running);
      return;
    }
    if (have_ended) ended_.await(control, runs_, run_look);
  }
}

Result<RunEnd> OfiFabric::run() {
  if (!is_exchanged_) return fail(ErrorCode::invalid_argument, "run: before the exchange");
  ++runs_;
  for (std::uint32_t node = 0; node < config_.nodes; ++node)
    node_counts_[node].begin_load(counted(static_cast<NodeId>(node)));
  // Providers that move data by the CPU compete with the workers for cores, some also because they have
  // threads of their own.
  const bool shares_cores =
      shared_.capabilities.target_cpu || provider_->name() == "sockets" || pool_.started() > usable_cores();
  const RunEnd end = pool_.run_bounded("ofi", shares_cores, config_.ended_most, [this] { await_clients(); });
  if (late_.empty()) return end;
  std::vector<std::uint32_t> lost;
  for (std::uint32_t node = 0; node < config_.nodes; ++node) {
    if (shared_.is_lost(static_cast<NodeId>(node))) lost.push_back(node);
  }
  return fail(ErrorCode::timed_out, realtime::late_text("ofi", late_, lost, config_.control == nullptr));
}

// What the workers of a node have counted in all runs; nothing for a node of another process.
LoadCounts::Counters OfiFabric::counted(NodeId node) const {
  LoadCounts::Counters all;
  for (Worker* worker : pool_.workers(node)) {
    const WorkerCounters& counts = worker_at(worker).counters();
    const std::pair<const char*, const std::atomic<std::uint64_t>&> rows[] = {
        {"ofi.posted", counts.posted}, {"ofi.again", counts.again},     {"ofi.errors", counts.errors},
        {"ofi.waits", counts.waits},   {"ofi.dropped", counts.dropped}, {"ofi.assists", counts.assists}};
    for (const auto& [name, count] : rows) all[name] += static_cast<double>(count.load());
  }
  return all;
}

FabricReport OfiFabric::report() const {
  FabricReport report;
  report.nodes.resize(config_.nodes);
  for (std::uint32_t node = 0; node < config_.nodes; ++node) {
    NodeReport& of = report.nodes[node];
    if (is_local(static_cast<NodeId>(node))) of = pool_.report(static_cast<NodeId>(node), "ofi");
    of.is_lost = shared_.is_lost(static_cast<NodeId>(node));
    LoadCounts::Counters counts = counted(static_cast<NodeId>(node));
    node_counts_[node].take_off_earlier(counts);
    of.counters.merge(counts);
  }
  report.counters["ofi.crowded"] = shared_.is_crowded.load() ? 1 : 0;
  return report;
}

}  // namespace

Result<std::unique_ptr<Fabric>> make_ofi(const OfiConfig& config) {
  const auto processes =
      config.control == nullptr ? std::nullopt : std::optional<std::uint32_t>(config.control->ranks());
  LOCH_TRY(realtime::check_nodes("ofi", config.nodes, processes));
  LOCH_ASSIGN(std::unique_ptr<Provider> provider, Provider::open(config.provider));
  return std::make_unique<OfiFabric>(config, std::move(provider));
}

}  // namespace loch::fabric::ofi
