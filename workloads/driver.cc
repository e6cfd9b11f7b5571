// Drives load: chooses each client worker's operations, issues them when they are due, and counts their
// outcomes.
#include "workloads/driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "common/base/check.h"
#include "common/coro/scope.h"
#include "common/kv/value.h"
#include "workloads/driver_client.h"
#include "workloads/inserts.h"

namespace loch::workloads {

namespace {

class FileLog final : public OperationLog {
 public:
  explicit FileLog(check::ClientLog& log) : log_(log) {}
  void invoked(OpKind kind, std::string_view key, std::optional<std::string_view> value,
               Nanos invoke_ns) override {
    log_.invoked(kind, key, value, invoke_ns);
  }
  void record(const check::OperationView& operation) override { log_.record(operation); }

 private:
  check::ClientLog& log_;
};

}  // namespace

LogFactory file_logs(check::HistoryWriter* writer) {
  if (writer == nullptr) return {};
  return [writer](std::int32_t client) { return std::make_unique<FileLog>(writer->log(client)); };
}

Driver::Driver(const LoadConfig& load, const kv::DeployConfig& deploy, const Records& records,
               kv::Store& store, fabric::Fabric& fabric, LogFactory logs)
    : has_sizes_(records.shape().has_key_sizes() || records.shape().has_value_sizes()),
      load_(load),
      deploy_(deploy),
      records_(records),
      store_(store),
      fabric_(fabric),
      logs_(std::move(logs)),
      judges_values_(load.values_are_judged && (load.verify || logs_)),
      is_plain_(load.think == 0 && load.pause == 0 && load.rate == 0 && !load.script && load.multi_get == 1 &&
                load.active.every == 0 && load.mix.insert == 0 && load.mix.read_modify_write == 0),
      keys_(load.keys) {
  const bool is_uniform = load.distribution.kind == Distribution::uniform && !load.replay;
  if (is_uniform && load.mix.insert == 0 && load.readers == 0) draws_below_ = records.count();
  // choose() compares 53 random bits k with this number instead of the fraction k / 2^53 with mix.get.
  gets_below_ = static_cast<std::uint64_t>(std::ceil(std::ldexp(load.mix.get, 53)));
  is_bare_ = is_plain_ && !judges_values_ && !logs_ && !has_sizes_ && load.transcript == nullptr &&
             draws_below_ > 0 && keys_.has(draws_below_ - 1);
}

Driver::~Driver() = default;

Result<std::unique_ptr<Driver>> Driver::make(const LoadConfig& load, const kv::DeployConfig& deploy,
                                             const Records& records, kv::Store& store, fabric::Fabric& fabric,
                                             LogFactory logs) {
  LOCH_TRY(check(load.mix));
  if (!load.script && (load.duration > 0) == (load.operations > 0)) {
    return fail(ErrorCode::invalid_argument, "duration, operations: exactly one of them must be above 0");
  }
  for (const auto& [name, span] : {std::pair{"think", load.think}, std::pair{"pause", load.pause}}) {
    if (span < 0 || (span > 0 && load.rate > 0)) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{}: 0 or more, and of a closed loop (rate 0) only", name));
    }
  }
  if (const ActiveWorkers& active = load.active; active.every != 0) {
    const bool is_range =
        active.least > 0 && active.least <= active.most && active.most <= deploy.client_workers;
    if (active.every < 0 || !is_range || load.duration == 0 || load.rate > 0 || load.script || load.replay) {
      return fail(ErrorCode::invalid_argument,
                  "active: from 1 to the number of client workers, of a closed loop with a duration");
    }
  }
  if ((load.timeline > 0 && load.duration == 0) || (load.probe_keys > 0 && load.timeline == 0)) {
    return fail(ErrorCode::invalid_argument, "timeline: goes with a duration; probe_keys: with a timeline");
  }
  if (load.multi_get == 0 || deploy.window % load.multi_get != 0 ||
      (load.multi_get > 1 && load.multi_get > records.shape().preloaded)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("multi-get {}: expected 1 to as many keys as there are", load.multi_get));
  }
  std::unique_ptr<Driver> driver(new Driver(load, deploy, records, store, fabric, std::move(logs)));
  const Records::Shape& shape = records.shape();
  if (!load.replay) {
    LOCH_ASSIGN(driver->chooser_,
                make_chooser(load.distribution, shape.preloaded, shape.most - shape.preloaded));
  }
  if (load.timeline > 0) {
    LOCH_ASSIGN(driver->shape_, measure::timeline_shape(load.timeline, load.duration));
    driver->load_.probe_keys =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(load.probe_keys, shape.preloaded));
  }
  driver->inserts_ =
      std::make_unique<InsertLedger>(shape.preloaded, shape.most, fabric.rank(), fabric.ranks());
  return driver;
}

Result<> Driver::add_workers(const Pinning& pinning, const fabric::Requirements& needs) {
  needs_ = needs;
  std::uint32_t added = 0;  // number of this process's workers that are added already
  LOCH_TRY(make_rows());
  LOCH_TRY(make_clocks());
  const auto spec = [&](std::uint32_t node, fabric::Role role, std::uint32_t index, std::string name) {
    fabric::WorkerSpec out = worker_spec(static_cast<fabric::NodeId>(node), role, index);
    out.core = pinning.core_of(added++, index);
    out.name = std::move(name);
    return out;
  };
  for (std::uint32_t node = 0; node < deploy_.nodes; ++node) {
    const auto id = static_cast<fabric::NodeId>(node);
    if (!fabric_.is_local(id)) continue;
    const std::uint32_t clients = deploy_.drives(id) ? deploy_.client_workers : 0;
    const std::uint32_t servers = deploy_.serves(id) ? deploy_.server_workers : 0;
    for (std::uint32_t i = 0; i < clients; ++i) {
      LOCH_ASSIGN(fabric::Worker * client,
                  fabric_.add_worker(spec(node, fabric::Role::client, i, fmt::format("client {}", i))));
      clients_.push_back(client_of(client, i));
    }
    for (std::uint32_t i = 0; i < servers; ++i) {
      LOCH_ASSIGN(fabric::Worker * server,
                  fabric_.add_worker(spec(node, fabric::Role::server, deploy_.server_index(i),
                                          fmt::format("server {}", i))));
      servers_.push_back(server);
    }
    // A node without clients and servers still needs a worker, through whose connections its data is reached.
    if (clients + servers == 0) LOCH_TRY(fabric_.add_worker(spec(node, fabric::Role::server, 0, "idle")));
  }
  return {};
}

std::unique_ptr<Driver::ClientWorker> Driver::client_of(fabric::Worker* worker, std::uint32_t index) {
  const std::uint64_t workers = std::uint64_t{deploy_.driving_nodes()} * deploy_.client_workers;
  const std::uint64_t number = deploy_.client_number(worker->node(), index);
  auto own = std::make_unique<ClientWorker>();
  own->worker = worker;
  own->index = index;
  own->is_reader = index + load_.readers >= deploy_.client_workers;
  own->rng = Rng(load_.seed, "load", number);
  own->place = shape_place(number, workers, records_.shape().preloaded);
  own->quota = load_.operations / workers + (number < load_.operations % workers ? 1 : 0);
  if (shape_) own->recorder = measure::TimelineRecorder(*shape_, rows_of(worker->node()));
  return own;
}

Result<> Driver::take_workers(const Driver& other) {
  needs_ = other.needs_;
  LOCH_TRY(make_rows());
  LOCH_TRY(make_clocks());
  for (const auto& each : other.clients_) clients_.push_back(client_of(each->worker, each->index));
  servers_ = other.servers_;
  return {};
}

// Several processes that record histories compare their clocks, unless only one of them has clients.
Result<> Driver::make_clocks() {
  if (!logs_ || fabric_.ranks() == 1 || fabric_.capabilities().simulated) return {};
  std::vector<fabric::NodeId> driving;
  std::optional<fabric::NodeId> own;
  for (std::uint32_t node = 0; node < deploy_.nodes; ++node) {
    const auto id = static_cast<fabric::NodeId>(node);
    if (!deploy_.drives(id)) continue;
    driving.push_back(id);
    if (fabric_.is_local(id)) own = id;
  }
  if (!own || driving.size() < 2) return {};
  LOCH_ASSIGN(clocks_, ClockExchange::make(fabric_, std::move(driving), *own, deploy_.client_workers));
  return {};
}

// Ends when the clocks of all processes have been compared and all processes may begin the load.
coro::Task<void> Driver::align_first(ClientWorker* own) {
  constexpr Nanos look = 200'000;
  fabric::Worker& worker = *own->worker;
  if (own->index == 0) {
    co_await clocks_->align_first(&worker);
    co_return;
  }
  while (!clocks_->has_begun() && !worker.stopping()) {
    const Nanos soon = worker.now() + look;
    co_await worker.sleep_until(soon);
  }
}

fabric::WorkerSpec Driver::worker_spec(fabric::NodeId node, fabric::Role role, std::uint32_t index) const {
  fabric::WorkerSpec spec;
  spec.node = node;
  spec.role = role;
  spec.index = static_cast<std::uint16_t>(index);
  spec.name = fmt::format("{} {}", role == fabric::Role::client ? "client" : "server", index);
  spec.ud_lanes = needs_.ud_lanes;
  spec.uses_rc = needs_.rc;
  spec.receives_rc = needs_.receives_rc;
  spec.receives_uc = needs_.receives_uc;
  return spec;
}

void Driver::add_slots(ClientWorker& own, std::uint32_t first_number) {
  for (std::uint32_t i = 0; i < deploy_.window; ++i) {
    auto slot = std::make_unique<Slot>();
    slot->number = first_number + i;
    slot->index = i;
    slot->script =
        scripted({own.worker->node(), static_cast<std::uint16_t>(own.index), i, own.incarnation, {}});
    if (logs_) slot->log = logs_(static_cast<std::int32_t>(slot->number));
    slot->key.resize(deploy_.key_size);
    slot->value.resize(deploy_.kept_value_bytes);
    slot->batch.resize(load_.multi_get);
    own.slots.push_back(std::move(slot));
  }
}

void Driver::reseed_workers() {
  const auto reseed = [this](fabric::Worker& worker) {
    worker.rng() = Rng(load_.seed, "worker of a load", (std::uint64_t{worker.node()} << 16) | worker.index());
  };
  for (const auto& own : clients_) reseed(*own->worker);
  for (fabric::Worker* const server : servers_) reseed(*server);
}

void Driver::start() {
  if (load_.reseeds_workers) reseed_workers();
  workers_left_ = clients_.size();
  next_number_ = deploy_.driving_nodes() * deploy_.client_workers * deploy_.window;
  if (load_.failures) {
    if (logs_) losses_ = logs_(check::preload_client);
    for (const auto& own : clients_) {
      const kv::ClientId id{own->worker->node(), static_cast<std::uint16_t>(own->index)};
      own->is_doomed = std::ranges::find(load_.failures->doomed, id) != load_.failures->doomed.end();
    }
    fabric_.on_restart([this](fabric::NodeId node) { revive(node); });
  }
  for (const auto& own : clients_)
    add_slots(*own, deploy_.client_number(own->worker->node(), own->index) * deploy_.window);
  if (load_.replay) deal_trace();
  for (const auto& own : clients_) fabric_.start(*own->worker, client_main(own.get()));
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    const auto index = static_cast<std::uint32_t>(i % deploy_.server_workers);
    fabric_.start(*servers_[i], server_main(servers_[i], index));
  }
}

// Serves requests. On a node without clients, the first server worker also ends the warm-up, as clients do
// elsewhere.
coro::Task<void> Driver::server_main(fabric::Worker* worker, std::uint32_t index) {
  if (!clients_.empty() || index != 0) {
    co_await store_.serve(*worker, index);
    co_return;
  }
  begin(*worker);
  coro::Scope scope(worker->run_queue());
  scope.spawn(store_.serve(*worker, index));
  co_await worker->sleep_until(begin_ns_ + load_.warmup);
  end_warmup(*worker);
  co_await scope.join();
}

coro::Task<void> Driver::client_main(ClientWorker* own) {
  // Until the time `settle` is over, clients burn CPU time in steps of this many ns, each of which takes
  // longer in real time on a shared core.
  constexpr Nanos spin = 1'000'000;
  const Nanos settled = own->worker->now() + load_.settle;
  while (own->worker->now() < settled && !own->worker->stopping()) co_await own->worker->compute(spin);
  if (clocks_ != nullptr) co_await align_first(own);
  begin(*own->worker);
  own->measured_from = begin_ns_ + load_.warmup;
  own->middle = load_.duration > 0 ? own->measured_from + load_.duration / 2 : 0;
  const bool probes = is_prober(*own);
  kv::PacedWorker pacing(*own->worker, load_.conflicts ? &*load_.conflicts : nullptr);
  coro::Scope scope(own->worker->run_queue()), alongside(own->worker->run_queue());
  for (std::uint32_t i = 0; i < deploy_.window; ++i) {
    own->slots[i]->client = pacing.paced(store_.client(*own->worker, i));
    // In a load of multi-gets, a window slot (place for one operation) uses the next multi_get - 1 slots for
    // the further GETs of each multi-get; those slots get no loop of their own.
    if (!probes && i % load_.multi_get != 0) continue;
    Slot* const slot = own->slots[i].get();
    scope.spawn(probes         ? probe_main(own, slot, i)
                : load_.replay ? replay_main(own, slot)
                : is_bare_     ? bare_main(own, slot)
                               : slot_main(own, slot));
  }
  if (is_keeper(*own)) scope.spawn(keep(own));
  if (load_.repair_after && !load_.failures && own->index == 0) alongside.spawn(tend(own));
  if (clocks_ != nullptr && own->index == 0) alongside.spawn(clocks_->keep_aligned(own->worker));
  if (store_.has_background()) alongside.spawn(store_.background(*own->worker, &own->done));
  co_await scope.join();
  own->has_ended = true;
  if (clocks_ != nullptr) clocks_->client_ended();
  if (load_.final_sweep) co_await finish(own);
  own->done = true;
  co_await alongside.join();
  if (load_.scrub && own->index == 0) co_await scrub_lost(own->worker);
  for (const auto& slot : own->slots) slot->client.reset();
}

// When all clients have ended, one client worker runs the final sweep (GETs and PUTs of every key): with
// planned failures the worker that does the repairs (FailurePlan::keeper), otherwise the worker that ends
// last. The other workers wait until the sweep has ended, so that their background coroutines keep running.
coro::Task<void> Driver::finish(ClientWorker* own) {
  constexpr Nanos pause = 100'000;
  fabric::Worker& worker = *own->worker;
  const bool is_last = --workers_left_ == 0;
  const bool sweeps = load_.failures ? is_keeper(*own) : is_last;
  if (!sweeps) {
    while (!is_swept_ && !worker.stopping()) co_await worker.sleep_until(worker.now() + pause);
    co_return;
  }
  while (load_.failures && !worker.stopping() &&
         (worker.now() < load_.failures->over || !others_have_ended())) {
    co_await worker.sleep_until(worker.now() + pause);
  }
  co_await sweep(own);
  is_swept_ = true;
}

bool Driver::others_have_ended() const {
  return std::ranges::all_of(clients_, [](const auto& each) { return each->is_doomed || each->has_ended; });
}

bool Driver::is_keeper(const ClientWorker& own) const {
  if (!load_.failures || own.is_doomed) return false;
  const kv::ClientId& keeper = load_.failures->keeper;
  return own.worker->node() == keeper.node && own.index == keeper.worker;
}

void Driver::revive(fabric::NodeId node) {
  const Result<> laid_out = store_.restart_node(fabric_, node);
  if (!laid_out) return;
  revived_.push_back(node);
  note(*clients_.front()->worker, "rejoin", node);
  ++repaired_["restarts"];
  for (std::uint32_t i = 0; deploy_.serves(node) && i < deploy_.server_workers; ++i) {
    const Result<fabric::Worker*> server =
        fabric_.add_worker(worker_spec(node, fabric::Role::server, deploy_.server_index(i)));
    LOCH_CHECK(server.has_value(), "a node that is back has room for its workers");
    fabric_.start(**server, store_.serve(**server, i));
  }
  if (deploy_.drives(node)) revive_clients(node);
}

// Starts the clients of a restarted node under new client numbers, because the operations of its old clients
// never return and stay open in the history.
void Driver::revive_clients(fabric::NodeId node) {
  const std::uint64_t workers = std::uint64_t{deploy_.driving_nodes()} * deploy_.client_workers;
  for (std::uint32_t i = 0; i < deploy_.client_workers; ++i) {
    auto own = std::make_unique<ClientWorker>();
    const Result<fabric::Worker*> worker = fabric_.add_worker(worker_spec(node, fabric::Role::client, i));
    LOCH_CHECK(worker.has_value(), "a node that is back has room for its workers");
    own->worker = *worker;
    own->index = i;
    own->incarnation = static_cast<std::uint32_t>(std::ranges::count(revived_, node));
    own->rng = Rng(load_.seed, "load of a second life", next_number_);
    own->place = shape_place(next_number_, workers, records_.shape().preloaded);
    own->quota = load_.operations / workers / 2;
    if (shape_) own->recorder = measure::TimelineRecorder(*shape_, rows_of(node));
    add_slots(*own, next_number_);
    next_number_ += deploy_.window;
    ++workers_left_;
    clients_.push_back(std::move(own));
    fabric_.start(*clients_.back()->worker, client_main(clients_.back().get()));
  }
}

void Driver::begin(fabric::Worker& worker) {
  Nanos unset = -1;
  const Nanos now = worker.now();
  begin_ns_.compare_exchange_strong(unset, now);
  if (load_.warmup == 0) end_warmup(worker);
}

void Driver::end_warmup(fabric::Worker& worker) {
  if (is_measuring_.load(std::memory_order_relaxed) || is_measuring_.exchange(true)) return;
  counters_late_ = worker.now() - (begin_ns_ + load_.warmup);
  fabric_.reset_counters();
}

measure::Tally Driver::tally(fabric::NodeId node) const {
  measure::Tally sum;
  for (const auto& own : clients_) {
    if (own->worker->node() == node) sum.merge(own->settle());
  }
  return sum;
}

double Driver::window_s() const {
  if (load_.duration > 0) return static_cast<double>(load_.duration) / 1e9;
  const Nanos from = begin_ns_ + load_.warmup;
  Nanos last = from;
  for (const auto& own : clients_) last = std::max(last, own->settle().last_ns);
  return static_cast<double>(last - from) / 1e9;
}

std::uint64_t Driver::outstanding() const {
  std::uint64_t busy = 0;
  for (const auto& own : clients_) {
    for (const auto& slot : own->slots) busy += slot->is_busy ? 1 : 0;
  }
  return busy;
}

bool Driver::had_trouble() const {
  return std::ranges::any_of(clients_, [](const auto& own) {
    return std::ranges::any_of(own->slots, [](const auto& slot) { return slot->had_trouble; });
  });
}

std::uint64_t Driver::operations_so_far() const {
  std::uint64_t sum = 0;
  for (const auto& own : clients_) sum += own->completed.load(std::memory_order_relaxed);
  return sum;
}

double Driver::progress() const {
  if (load_.operations > 0) {
    return std::min(1.0, static_cast<double>(operations_so_far()) * fabric_.ranks() /
                             static_cast<double>(load_.operations));
  }
  const Nanos from = begin_ns_;
  Nanos now = from;
  for (const auto& own : clients_) now = std::max(now, own->latest_ns.load(std::memory_order_relaxed));
  if (from < 0) return 0;
  return std::min(1.0, static_cast<double>(now - from) / static_cast<double>(load_.warmup + load_.duration));
}

}  // namespace loch::workloads
