// The control path of the verbs fabric: regions, the exchange of addresses and queue pairs, runs, and
// agreement between the processes.
#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "common/base/check.h"
#include "common/base/load_counts.h"
#include "common/base/parallel.h"
#include "common/fabric/processes/clock.h"
#include "common/fabric/realtime/laggards.h"
#include "common/fabric/realtime/last_resort.h"
#include "common/fabric/realtime/regions.h"
#include "common/fabric/realtime/worker_pool.h"
#include "common/fabric/verbs/connector.h"
#include "common/fabric/verbs/device.h"
#include "common/fabric/verbs/opening.h"
#include "common/fabric/verbs/peers.h"
#include "common/fabric/verbs/port_counters.h"
#include "common/fabric/verbs/verbs.h"
#include "common/fabric/verbs/worker.h"

namespace loch::fabric::verbs {
namespace {

constexpr Nanos run_look = 100'000'000;
// ns for which workers may go on before the process is ended by force: after an interrupt, and after the run
// has failed
constexpr Nanos interrupted_most = 3'000'000'000, failed_most = 2'000'000'000;
constexpr std::size_t sources_most = 4096;  // upper bound of the queue pairs that end at one worker

int access_of(const RegionSpec& spec) {
  // Every region has local write access: the NIC writes the results of READs to it, and ibv_reg_mr requires
  // local write access for remote write access.
  int access = IBV_ACCESS_LOCAL_WRITE;
  if (spec.remote_read) access |= IBV_ACCESS_REMOTE_READ;
  if (spec.remote_write) access |= IBV_ACCESS_REMOTE_WRITE;
  if (spec.remote_atomic) access |= IBV_ACCESS_REMOTE_ATOMIC;
  return access;
}

class VerbsFabric final : public Fabric {
 public:
  VerbsFabric(const VerbsConfig& config, Opened opened)
      : config_(config),
        rails_(std::move(opened.rails)),
        devices_(std::move(opened.devices)),
        regions_(config.nodes),
        peers_(&shared_),
        pool_(&shared_, config.nodes, config.pin_threads) {
    shared_.capabilities = std::move(opened.agreed);
    shared_.clock_base = realtime::read_clock(CLOCK_MONOTONIC);
    shared_.clocks_by_ticks = !config.exact_clock && realtime::kernel_trusts_ticks();
    // no PAUSE instruction between polls, because a poll of a completion queue takes as long as a PAUSE
    shared_.pauses = false;
    shared_.turns_before_yield = 1024;
    for (const auto& device : rails_) {
      shared_.rails.push_back(device.get());
      shared_.swaps_atomic_replies |= device->swaps_atomic_replies();
    }
    for (std::uint32_t node = 0; node < config.nodes; ++node)
      shared_.own_rails.push_back(static_cast<std::uint8_t>(node % rails_.size()));
    shared_.control = config.control;
    shared_.doorbells = config.doorbells;
    shared_.peers = std::vector<std::atomic<const Peer*>>(config.nodes);
    shared_.incarnations = std::vector<std::atomic<std::uint32_t>>(config.nodes);
    connector_ = std::make_unique<Connector>(&shared_, &peers_);
    shared_.connector = connector_.get();
  }
  ~VerbsFabric() override;
  [[nodiscard]] Result<> open() {
    if (config_.place_memory) {
      LOCH_ASSIGN(numa_nodes_, config_.place_memory(devices_));
    }
    return connector_->open();
  }

  [[nodiscard]] const Capabilities& capabilities() const override { return shared_.capabilities; }
  [[nodiscard]] std::uint32_t nodes() const override { return config_.nodes; }
  [[nodiscard]] bool is_local(NodeId node) const override {
    return node < config_.nodes && connector_->is_local(node);
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
  [[nodiscard]] Result<std::vector<std::string>> gather(const std::string& mine, Nanos within) override {
    if (config_.control == nullptr) return std::vector<std::string>{mine};
    // Only the live process with the lowest rank keeps the texts; all other processes return none. That
    // process need not be process 0, which may be dead; all processes agree on it, because they see the same
    // texts.
    LOCH_ASSIGN(std::vector<std::string> texts, config_.control->all_gather("results", mine, within));
    for (std::uint32_t first = 0; first < texts.size(); ++first) {
      if (texts[first].empty()) continue;
      if (first != rank()) texts.clear();
      break;
    }
    return texts;
  }
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
  [[nodiscard]] std::vector<NodeDevice> devices() const override { return devices_; }
  [[nodiscard]] Result<> fence(NodeId dead) override {
    if (config_.control == nullptr) return fail(ErrorCode::unsupported, "nodes of one process die together");
    return connector_->fence(dead, 10'000'000'000);
  }
  void reset_counters() override { pool_.reset_counters(); }
  [[nodiscard]] FabricReport report() const override;

 private:
  [[nodiscard]] realtime::Stage stage_of(NodeId node) const { return {is_local(node), is_exchanged_}; }
  [[nodiscard]] VerbsWorker& worker_at(Worker* worker) const { return static_cast<VerbsWorker&>(*worker); }
  template <typename Visit>
  [[nodiscard]] Result<> each_worker(Visit visit) const {
    for (std::uint32_t node = 0; node < config_.nodes; ++node) {
      for (Worker* worker : pool_.workers(static_cast<NodeId>(node))) LOCH_TRY(visit(worker_at(worker)));
    }
    return {};
  }
  [[nodiscard]] LoadCounts::Counters counted(NodeId node) const;
  [[nodiscard]] NodeRecord record_of(NodeId node) const;
  [[nodiscard]] Result<> learn_peers(Nanos within);
  void learn_limits();
  [[nodiscard]] Result<> rejoin(Nanos within);
  void listen();
  [[nodiscard]] Result<> connect_all(Nanos within);
  [[nodiscard]] Result<std::vector<LinkRecord>> share(std::string_view what,
                                                      const std::vector<LinkRecord>& mine, Nanos within);
  void await_clients();
  [[nodiscard]] realtime::LastResort::End end_by_force() const;
  [[nodiscard]] std::vector<CounterValues> read_counters() const {
    std::vector<CounterValues> by_rail;
    for (const auto& device : rails_)
      by_rail.push_back(read_port_counters(rdma_folder(), device->name(), device->port().number));
    return by_rail;
  }
  void add_health(std::map<std::string, double>& counters) const;

  VerbsConfig config_;
  std::vector<std::unique_ptr<Device>> rails_;  // the devices that this process uses, by rail
  std::vector<NodeDevice> devices_;
  Shared shared_;
  realtime::Regions<VerbsRegion> regions_;
  Peers peers_;
  std::unique_ptr<Connector> connector_;
  realtime::WorkerPool pool_;
  bool is_exchanged_ = false;
  Nanos clock_error_ = 0;
  std::uint64_t runs_ = 0;
  LoadCounts counts_;  // of the connector
  // by node: of its workers
  std::vector<LoadCounts> node_counts_ = std::vector<LoadCounts>(config_.nodes);
  std::vector<std::uint32_t> late_;        // nodes whose clients had not ended when the run was given up
  std::vector<std::uint32_t> numa_nodes_;  // by node: the NUMA node of its regions' memory
  double huge_bytes_ = 0, plain_bytes_ = 0, bound_bytes_ = 0;
  // by rail: the port's counters before and after the last run, as the kernel's files had them
  std::vector<CounterValues> counters_before_, counters_after_;
};

// Destroys each object before the objects that it refers to: receiving ends before the workers' receive
// queues, workers before regions, regions before the device.
VerbsFabric::~VerbsFabric() {
  if (config_.control != nullptr) {
    config_.control->on_message([](std::uint32_t, std::string_view) {});
    config_.control->on_lost({});
  }
  connector_->stop();
  connector_->drop_receivers();
}

Result<Region*> VerbsFabric::register_region(NodeId node, const RegionSpec& spec) {
  LOCH_TRY(realtime::check_region(node, spec, stage_of(node), regions_.find(node, spec.name) != nullptr));
  std::optional<realtime::Mapping> huge = realtime::huge_memory(spec.bytes);
  const bool is_huge = huge.has_value();
  Result<realtime::Mapping> memory = is_huge ? std::move(*huge) : realtime::zeroed_memory(spec.bytes);
  if (!memory) return realtime::refuse_region(node, spec, memory.error().code, memory.error().message);
  if (node < numa_nodes_.size() && realtime::prefer_numa_node(*memory, numa_nodes_[node]))
    bound_bytes_ += static_cast<double>(memory->bytes());
  // A small region is not worth it, and the zoo's devices (docs/zoo.md) pin nothing.
  constexpr std::size_t worth_populating = std::size_t{1} << 30;
  if (memory->bytes() >= worth_populating) realtime::populate(*memory);
  const std::uint32_t own_rail = shared_.rail_of(node);
  std::vector<MemoryRegion> registered;
  for (std::uint32_t rail = 0; rail < rails_.size(); ++rail) {
    // Requests of other nodes come by the node's own rail; by the other rails the node only posts.
    const int access = rail == own_rail ? access_of(spec) : int{IBV_ACCESS_LOCAL_WRITE};
    registered.emplace_back(ibv_reg_mr(rails_[rail]->pd(), memory->data(), spec.bytes, access));
    if (registered.back() != nullptr) continue;
    const int reason = errno;
    return realtime::refuse_region(
        node, spec, ErrorCode::exhausted,
        fmt::format("{} bytes cannot be registered: {}{}", spec.bytes, std::strerror(reason),
                    reason == ENOMEM ? " (memlock limit: ./loch doctor)" : ""));
  }
  (is_huge ? huge_bytes_ : plain_bytes_) += static_cast<double>(memory->bytes());
  return regions_.add(std::make_unique<VerbsRegion>(node, regions_.next_id(node), spec, std::move(*memory),
                                                    std::move(registered), own_rail));
}

Result<Worker*> VerbsFabric::add_worker(const WorkerSpec& spec) {
  LOCH_TRY(realtime::check_worker(spec, stage_of(spec.node)));
  auto worker = std::make_unique<VerbsWorker>(spec, config_.seed, &shared_);
  LOCH_TRY(worker->open());
  VerbsWorker* made = worker.get();
  if (pool_.add(std::move(worker)) == nullptr)
    return realtime::refuse_worker(spec, ErrorCode::invalid_argument, "the index is taken");
  connector_->add_worker(made);
  return made;
}

// ---- The exchange of addresses and keys among the processes ------------------------------------

NodeRecord VerbsFabric::record_of(NodeId node) const {
  NodeRecord record;
  record.node = node;
  record.incarnation = config_.control == nullptr ? 0 : config_.control->incarnation(node);
  for (const auto& device : rails_) {
    const std::uint32_t most = device->capabilities().max_rd_atomic;
    record.rd_atomic_out = record.addresses.empty() ? most : std::min(record.rd_atomic_out, most);
    record.addresses.push_back(device->address());
  }
  record.rd_atomic_in = shared_.device_to(node).rd_atomic_in();
  record.qkey = shared_.qkey;
  for (const auto& region : regions_.of(node)) {
    record.regions.push_back(
        {region->name(), reinterpret_cast<std::uintptr_t>(region->at(0)), region->bytes(), region->rkey()});
  }
  for (Worker* worker : pool_.workers(node)) {
    record.workers.push_back({worker->index(), 0, {}});
    if (!shared_.capabilities.ud) continue;
    record.workers.back().ud_qpn = worker_at(worker).datagram_qpn();
    record.workers.back().ud_also = worker_at(worker).further_datagram_senders();
  }
  return record;
}

Result<> VerbsFabric::learn_peers(Nanos within) {
  if (config_.control == nullptr) {
    for (std::uint32_t node = 0; node < config_.nodes; ++node)
      LOCH_TRY(peers_.put(record_of(static_cast<NodeId>(node))));
    return {};
  }
  LOCH_ASSIGN(const std::vector<std::string> texts,
              config_.control->all_gather("regions and workers",
                                          to_text(record_of(static_cast<NodeId>(rank()))), within));
  for (std::uint32_t from = 0; from < texts.size(); ++from) {
    if (texts[from].empty()) continue;  // the process was lost and sent no record
    LOCH_ASSIGN(NodeRecord record, parse_node(texts[from], {config_.nodes}));
    if (record.node != from)
      return fail(ErrorCode::corrupt, fmt::format("process {} calls itself node {}", from, record.node));
    LOCH_TRY(peers_.put(std::move(record)));
  }
  return {};
}

// Sets the limits that the devices of all nodes support, and the QKey, which one node chooses for all.
void VerbsFabric::learn_limits() {
  const Peer* chooser = nullptr;
  for (const auto& entry : shared_.peers) {
    const Peer* peer = entry;
    if (peer == nullptr) continue;
    const NodeRecord& record = peer->record;
    shared_.capabilities.max_rd_atomic =
        std::min({shared_.capabilities.max_rd_atomic, record.rd_atomic_in, record.rd_atomic_out});
    for (const Address& address : record.addresses)
      shared_.capabilities.mtu_bytes = std::min(shared_.capabilities.mtu_bytes, address.mtu_bytes);
    // The QKey comes from the lowest live node whose process never restarted; a restarted process may not
    // know the run's QKey yet.
    const bool is_better = chooser == nullptr ||
                           (chooser->record.incarnation != 0 && record.incarnation == 0) ||
                           (chooser->record.incarnation != 0 && is_local(chooser->record.node));
    if (is_better) chooser = peer;
  }
  shared_.qkey = chooser->record.qkey;
  peers_.publish_senders();
}

// Sends the queue pair ends that this process has made (`mine`) to every process. Returns the ends that all
// processes have made, in the order of the ranks.
Result<std::vector<LinkRecord>> VerbsFabric::share(std::string_view what, const std::vector<LinkRecord>& mine,
                                                   Nanos within) {
  if (config_.control == nullptr) return mine;
  LOCH_ASSIGN(const std::vector<std::string> texts, config_.control->all_gather(what, to_text(mine), within));
  std::vector<LinkRecord> all;
  for (const std::string& text : texts) {
    if (text.empty()) continue;
    LOCH_ASSIGN(const std::vector<LinkRecord> links, parse_links(text, {config_.nodes}));
    all.insert(all.end(), links.begin(), links.end());
  }
  return all;
}

// Connects an RC queue pair from every worker to worker 0 of every node, and makes the UD queue pairs ready.
Result<> VerbsFabric::connect_all(Nanos within) {
  std::size_t workers = 0;
  for (std::uint32_t node = 0; node < config_.nodes; ++node)
    workers += pool_.workers(static_cast<NodeId>(node)).size();
  if (config_.shares_cores.value_or(workers > usable_cores())) {
    for (const auto& device : rails_) device->wait_for_receivers();
  }
  std::vector<LinkRecord> senders, receivers;
  LOCH_TRY(each_worker([&](VerbsWorker& worker) -> Result<> {
    LOCH_TRY(worker.open_datagram(shared_.qkey));
    for (std::uint32_t peer = 0; peer < config_.nodes; ++peer) {
      if (shared_.peers[peer] == nullptr || !worker.spec().uses_rc || !shared_.capabilities.rc) continue;
      SendQueue& queue =
          worker.queue({worker.node(), worker.index(), static_cast<NodeId>(peer), 0, 0, Transport::rc});
      LOCH_ASSIGN(const LinkRecord sender, connector_->open_sender(worker, queue));
      senders.push_back(sender);
    }
    return {};
  }));
  LOCH_ASSIGN(const std::vector<LinkRecord> asking, share("posting ends", senders, within));
  for (const LinkRecord& sender : asking) {
    if (!is_local(sender.key.peer)) continue;
    LOCH_ASSIGN(const LinkRecord receiver, connector_->answer(sender));
    receivers.push_back(receiver);
  }
  LOCH_ASSIGN(const std::vector<LinkRecord> answered, share("receiving ends", receivers, within));
  std::map<LinkKey, LinkRecord> by_key;
  for (const LinkRecord& receiver : answered) by_key[receiver.key] = receiver;
  LOCH_TRY(each_worker([&](VerbsWorker& worker) -> Result<> {
    for (std::uint32_t peer = 0; peer < config_.nodes; ++peer) {
      const LinkKey key{worker.node(), worker.index(), static_cast<NodeId>(peer), 0, 0, Transport::rc};
      const auto found = by_key.find(key);
      if (found == by_key.end()) continue;  // the peer's process was lost during the exchange
      LOCH_TRY(connector_->complete(worker, worker.queue(key), found->second));
    }
    return {};
  }));
  return {};
}

Result<> VerbsFabric::exchange(Nanos within) {
  if (is_exchanged_) return fail(ErrorCode::invalid_argument, "exchange: done once");
  is_exchanged_ = true;
  std::uint32_t qkey = 0;
  if (getrandom(&qkey, sizeof qkey, 0) != sizeof qkey)
    return fail(ErrorCode::internal, "no random numbers from the kernel");
  // The highest bit is cleared: in a send request, a QKey with that bit set means "use the QKey of the
  // sending queue pair".
  shared_.qkey = qkey & 0x7fffffffu;
  LOCH_TRY(each_worker([&](VerbsWorker& worker) -> Result<> {
    worker.sources().reserve(sources_most);
    return {};
  }));
  if (config_.control != nullptr && config_.control->incarnation(rank()) != 0) return rejoin(within);
  if (config_.control != nullptr) {
    LOCH_ASSIGN(const processes::Alignment aligned,
                processes::align_clocks(*config_.control, shared_.clock_base, within));
    shared_.clock_base = aligned.base;
    clock_error_ = aligned.error;
  }
  LOCH_TRY(learn_peers(within));
  learn_limits();
  LOCH_TRY(connect_all(within));
  listen();
  return barrier("queue pairs connected", within);
}

void VerbsFabric::listen() {
  if (config_.control != nullptr) {
    connector_->set_record(record_of(static_cast<NodeId>(rank())));
    config_.control->on_message(
        [this](std::uint32_t from, std::string_view text) { connector_->deliver(from, text); });
    config_.control->on_lost([this](std::uint32_t) { connector_->notice_workers(); });
  }
  connector_->start();
}

// The exchange of addresses and queue pairs by a restarted process. The other processes are in the middle of
// their run and take no part in a collective call, so queue pairs are connected when they are first used.
Result<> VerbsFabric::rejoin(Nanos within) {
  LOCH_TRY(peers_.put(record_of(static_cast<NodeId>(rank()))));
  listen();
  LOCH_ASSIGN(const std::uint64_t run, connector_->return_to_all(within));
  learn_limits();
  runs_ = run == 0 ? 0 : run - 1;
  return each_worker([&](VerbsWorker& worker) -> Result<> {
    worker.adopt_incarnations();
    return worker.open_datagram(shared_.qkey);
  });
}

Result<RemoteRegion> VerbsFabric::lookup(NodeId node, std::string_view region) const {
  const Peer* peer = is_exchanged_ && node < config_.nodes ? shared_.peers[node].load() : nullptr;
  if (peer != nullptr) {
    const auto& regions = peer->record.regions;
    const auto found = std::ranges::find(regions, region, &RegionRecord::name);
    if (found != regions.end())
      return RemoteRegion{node, static_cast<std::uint32_t>(found - regions.begin()), found->rkey,
                          found->bytes};
  }
  return realtime::unknown_region(node, region, is_exchanged_);
}

// ---- Runs of the load ----------------------------------------------------------------------------

// Waits until the clients of all processes have ended, or have taken too long. This thread sleeps until a
// notice of another process or a time-out wakes it, and does not poll: where a worker polls on every core,
// each wake-up of this thread takes a core from a worker.
void VerbsFabric::await_clients() {
  const bool is_alone = config_.control == nullptr;
  realtime::Laggards laggards(shared_.now(), config_.laggards_most, config_.run_most);
  bool has_told = false;
  while (!shared_.stopping.load()) {
    const bool have_ended = pool_.await_own_clients(has_told ? 0 : run_look);
    if (have_ended && !std::exchange(has_told, true)) connector_->clients_ended(runs_);
    std::vector<std::uint32_t> running = connector_->still_running(runs_);
    if (have_ended && running.empty()) return;
    if (laggards.is_over(shared_.now(), have_ended || (running.empty() && !is_alone))) {
      for (const std::uint32_t node : pool_.nodes_of_running_clients()) running.push_back(node);
      late_ = std::move(running);
      return;
    }
    if (have_ended) connector_->await_others(runs_, run_look);
  }
  // A process that has failed tells the others that its clients have ended, so that they do not wait for it.
  if (shared_.has_failed.load() && !has_told) connector_->clients_ended(runs_);
}

// Returns the line to print and the exit status if the process has to be ended because its workers have not
// ended.
realtime::LastResort::End VerbsFabric::end_by_force() const {
  constexpr int status_interrupted = 130;
  if (shared_.interrupted.load())
    return {"verbs: interrupted; workers that wait for the device were ended with the process",
            status_interrupted};
  if (shared_.has_failed.load()) return {shared_.failure_text(), 1};
  return {
      fmt::format(
          "verbs: workers have not ended {} after the end of the run: completions or messages are missing",
          format_duration(silence_most(shared_.capabilities.request_lifetime))),
      1};
}

Result<RunEnd> VerbsFabric::run() {
  if (!is_exchanged_) return fail(ErrorCode::invalid_argument, "run: before the exchange");
  if (shared_.has_failed.load()) return fail(ErrorCode::unavailable, shared_.failure_text());
  connector_->begin_run(++runs_);
  counts_.begin_load(connector_->counters());
  for (std::uint32_t node = 0; node < config_.nodes; ++node)
    node_counts_[node].begin_load(counted(static_cast<NodeId>(node)));
  const bool shares_cores =
      config_.shares_cores.value_or(shared_.has_software() || pool_.started() > usable_cores());
  counters_before_ = read_counters();
  std::optional<realtime::LastResort> last_resort;
  const RunEnd end = pool_.run(shares_cores, [&] {
    await_clients();
    last_resort.emplace(shared_.interrupted.load()  ? interrupted_most
                        : shared_.has_failed.load() ? failed_most
                                                    : silence_most(shared_.capabilities.request_lifetime),
                        [this] { return end_by_force(); });
  });
  last_resort.reset();
  if (shared_.has_failed.load()) return fail(ErrorCode::unavailable, shared_.failure_text());
  counters_after_ = read_counters();
  if (late_.empty()) return end;
  std::vector<std::uint32_t> lost;
  for (std::uint32_t node = 0; node < config_.nodes; ++node) {
    if (shared_.is_lost(static_cast<NodeId>(node))) lost.push_back(node);
  }
  return fail(ErrorCode::timed_out, realtime::late_text("verbs", late_, lost, config_.control == nullptr));
}

// Adds the counters of the ports of all rails, before, after, and what has changed, to those of a node.
void VerbsFabric::add_health(std::map<std::string, double>& counters) const {
  for (std::uint32_t rail = 0; rail < rails_.size(); ++rail) {
    static const CounterValues none;
    const CounterValues& before = counters_before_.empty() ? none : counters_before_[rail];
    const CounterValues& after = counters_after_.empty() ? none : counters_after_[rail];
    PortHealth health = compare(before, after);
    connector_->add_symptoms(rail, health);
    const std::string prefix = rail_prefix(rail);
    for (const auto& [name, value] : to_counters(health)) counters[prefix + name] = value;
    for (const auto& [name, value] : before)
      counters[prefix + "port_before." + name] = static_cast<double>(value);
    for (const auto& [name, value] : after)
      counters[prefix + "port_after." + name] = static_cast<double>(value);
  }
}

// What the workers of a node of this process have counted in all runs.
LoadCounts::Counters VerbsFabric::counted(NodeId node) const {
  LoadCounts::Counters all;
  for (Worker* worker : pool_.workers(node)) {
    const WorkerCounters& counts = worker_at(worker).counters();
    all["verbs.doorbells"] += static_cast<double>(counts.doorbells.load());
    for (std::uint32_t rail = 0; rail < rails_.size(); ++rail) {
      const auto posted = static_cast<double>(counts.posted[rail].load());
      all["verbs.posted"] += posted;
      if (rails_.size() > 1) all[fmt::format("rail{}.verbs.posted", rail)] += posted;
    }
    all["verbs.built"] += static_cast<double>(counts.built.load());
    all["verbs.parked"] += static_cast<double>(counts.parked.load());
    all["verbs.errors"] += static_cast<double>(counts.errors.load());
    all["verbs.unknown_source"] += static_cast<double>(counts.unknown_source.load());
  }
  return all;
}

FabricReport VerbsFabric::report() const {
  FabricReport report;
  report.nodes.resize(config_.nodes);
  bool has_told = false;  // the health of the process's ports is reported with its first node alone
  for (std::uint32_t node = 0; node < config_.nodes; ++node) {
    const auto id = static_cast<NodeId>(node);
    NodeReport& of = report.nodes[node];
    of.is_lost = shared_.is_lost(id);
    if (!is_local(id)) continue;
    of = pool_.report(id, "verbs");
    if (!std::exchange(has_told, true)) add_health(of.counters);
    LoadCounts::Counters counts = counted(id);
    node_counts_[node].take_off_earlier(counts);
    of.counters.merge(counts);
    double& domains = of.counters["verbs.thread_domains"];
    for (Worker* worker : pool_.workers(id))
      domains += static_cast<double>(worker_at(worker).thread_domains());
  }
  report.counters = connector_->counters();
  counts_.take_off_earlier(report.counters);
  report.counters["verbs.huge_page_bytes"] = huge_bytes_;
  report.counters["verbs.plain_bytes"] = plain_bytes_;
  report.counters["verbs.bound_bytes"] = bound_bytes_;
  report.counters["verbs.pinned"] = pool_.pinned();
  report.counters["verbs.crowded"] = shared_.is_crowded.load() ? 1 : 0;
  return report;
}

}  // namespace

Result<std::unique_ptr<Fabric>> make_verbs(const VerbsConfig& config) {
  const auto processes =
      config.control == nullptr ? std::nullopt : std::optional<std::uint32_t>(config.control->ranks());
  LOCH_TRY(realtime::check_nodes("verbs", config.nodes, processes));
  LOCH_ASSIGN(Opened opened, open_together(config));
  auto fabric = std::make_unique<VerbsFabric>(config, std::move(opened));
  LOCH_TRY(fabric->open());
  return fabric;
}

}  // namespace loch::fabric::verbs
