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

// Open loop: an operation due later than this never begins, so that sums of times do not overflow.
constexpr Nanos latest_due = Nanos{1} << 60;
// Open loop: a slot does not wait for an operation that is due this many nanoseconds after the end of the
// run.
constexpr Nanos beyond_end = 1'000'000'000;

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
      logs_(std::move(logs)) {}

Driver::~Driver() = default;

Result<std::unique_ptr<Driver>> Driver::make(const LoadConfig& load, const kv::DeployConfig& deploy,
                                             const Records& records, kv::Store& store, fabric::Fabric& fabric,
                                             LogFactory logs) {
  LOCH_TRY(check(load.mix));
  if (!load.script && (load.duration > 0) == (load.operations > 0)) {
    return fail(ErrorCode::invalid_argument, "duration, operations: exactly one of them must be above 0");
  }
  if (load.think < 0 || (load.think > 0 && load.rate > 0)) {
    return fail(ErrorCode::invalid_argument, "think: 0 or more, and of a closed loop (rate 0) only");
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

Result<> Driver::add_workers(std::uint32_t pin, std::uint32_t ud_lanes) {
  ud_lanes_ = ud_lanes;
  LOCH_TRY(make_rows());
  const auto spec = [&](std::uint32_t node, fabric::Role role, std::uint32_t index, std::string name) {
    fabric::WorkerSpec out = worker_spec(static_cast<fabric::NodeId>(node), role, index);
    out.core = pin == 0 ? -1 : static_cast<int>(index % pin);
    out.name = std::move(name);
    return out;
  };
  const std::uint64_t workers = std::uint64_t{deploy_.driving_nodes()} * deploy_.client_workers;
  for (std::uint32_t node = 0; node < deploy_.nodes; ++node) {
    const auto id = static_cast<fabric::NodeId>(node);
    if (!fabric_.is_local(id)) continue;
    const std::uint32_t clients = deploy_.drives(id) ? deploy_.client_workers : 0;
    const std::uint32_t servers = deploy_.serves(id) ? deploy_.server_workers : 0;
    for (std::uint32_t i = 0; i < clients; ++i) {
      auto own = std::make_unique<ClientWorker>();
      LOCH_ASSIGN(own->worker,
                  fabric_.add_worker(spec(node, fabric::Role::client, i, fmt::format("client {}", i))));
      const std::uint64_t number = deploy_.client_number(id, i);
      own->index = i;
      own->is_reader = i + load_.readers >= deploy_.client_workers;
      own->rng = Rng(load_.seed, "load", number);
      own->place = shape_place(number, workers, records_.shape().preloaded);
      own->quota = load_.operations / workers + (number < load_.operations % workers ? 1 : 0);
      if (shape_) own->recorder = measure::TimelineRecorder(*shape_, rows_of(id));
      clients_.push_back(std::move(own));
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

fabric::WorkerSpec Driver::worker_spec(fabric::NodeId node, fabric::Role role, std::uint32_t index) const {
  fabric::WorkerSpec spec;
  spec.node = node;
  spec.role = role;
  spec.index = static_cast<std::uint16_t>(index);
  spec.name = fmt::format("{} {}", role == fabric::Role::client ? "client" : "server", index);
  spec.ud_lanes = ud_lanes_;
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

void Driver::start() {
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
  if (!is_measuring_.exchange(true)) fabric_.reset_counters();
  co_await scope.join();
}

coro::Task<void> Driver::client_main(ClientWorker* own) {
  // Nanoseconds of CPU time; on a shared core they take longer in real time.
  constexpr Nanos spin = 1'000'000;
  const Nanos settled = own->worker->now() + load_.settle;
  while (own->worker->now() < settled && !own->worker->stopping()) co_await own->worker->compute(spin);
  begin(*own->worker);
  own->measured_from = begin_ns_ + load_.warmup;
  own->middle = load_.duration > 0 ? own->measured_from + load_.duration / 2 : 0;
  const bool probes = is_prober(*own);
  coro::Scope scope(own->worker->run_queue()), alongside(own->worker->run_queue());
  for (std::uint32_t i = 0; i < deploy_.window; ++i) {
    own->slots[i]->client = store_.client(*own->worker, i);
    // Slot i is only a lane of an earlier slot's multi-gets.
    if (!probes && i % load_.multi_get != 0) continue;
    Slot* const slot = own->slots[i].get();
    scope.spawn(probes         ? probe_main(own, slot, i)
                : load_.replay ? replay_main(own, slot)
                               : slot_main(own, slot));
  }
  if (is_keeper(*own)) scope.spawn(keep(own));
  if (load_.repair_after && !load_.failures && own->index == 0) alongside.spawn(tend(own));
  if (store_.has_background()) alongside.spawn(store_.background(*own->worker, &own->done));
  co_await scope.join();
  own->has_ended = true;
  if (load_.final_sweep) co_await finish(own);
  own->done = true;
  co_await alongside.join();
  if (load_.scrub && own->index == 0) co_await scrub_lost(own->worker);
  for (const auto& slot : own->slots) slot->client.reset();
}

coro::Task<void> Driver::slot_main(ClientWorker* own, Slot* slot) {
  fabric::Worker& worker = *own->worker;
  while (true) {
    const Turn turn = next_turn(*own, *slot);
    if (turn == Turn::stop) break;
    slot->is_measured = turn == Turn::measured;
    co_await worker.compute(load_.think);
    Nanos due = -1;
    if (load_.rate > 0) {
      due = own->due < 0 ? begin_ns_ + next_due(*own) : own->due;
      own->due = std::min(due + next_due(*own), latest_due);
      const Nanos now = worker.now();
      const Nanos end = load_.operations > 0 ? latest_due : begin_ns_ + load_.warmup + load_.duration;
      if (due > end + beyond_end) {
        co_await worker.sleep_until(end);
        break;
      }
      if (due > now) co_await worker.sleep_until(due);
      if (worker.stopping()) break;
    }
    if (load_.script) {
      const ScriptedOperation next = slot->script[slot->next++];
      slot->slept_until = worker.now() < next.at ? next.at : -1;
      if (slot->slept_until >= 0) co_await worker.sleep_until(next.at);
      if (worker.stopping()) break;
      co_await operate(own, slot, next.kind, next.record, due);
      continue;
    }
    const Action action = choose(*own);
    if (action == Action::insert) {
      const std::uint64_t record = inserts_->take();
      if (record == InsertLedger::none) {
        ++inserts_refused_;
        const std::uint64_t present = choose_record(*own);
        co_await operate(own, slot, OpKind::put, present, due);
        continue;
      }
      co_await operate(own, slot, OpKind::put, record, due);
      inserts_->acknowledge(record);
      continue;
    }
    if (action == Action::get && load_.multi_get > 1) {
      co_await multi_get(own, slot, due);
      continue;
    }
    const std::uint64_t record = choose_record(*own);
    if (action == Action::read_modify_write) {
      co_await operate(own, slot, OpKind::get, record, due);
      co_await operate(own, slot, OpKind::put, record, -1);
      continue;
    }
    const bool reads = action == Action::get || record < load_.read_only;
    const OpKind writes = action == Action::put      ? OpKind::put
                          : action == Action::remove ? OpKind::remove
                                                     : OpKind::insert_if_absent;
    const OpKind kind = reads ? OpKind::get : writes;
    co_await operate(own, slot, kind, record, due);
  }
}

coro::Task<void> Driver::operate(ClientWorker* own, Slot* slot, OpKind kind, std::uint64_t record,
                                 Nanos due) {
  fabric::Worker& worker = *own->worker;
  if (load_.transcript != nullptr) transcribe(*own, *slot, kind, record);
  prepare(*slot, kind, record);
  const kv::Key key{slot->key.data(), slot->key_size};
  const kv::ValueView value{slot->value.data(), slot->stamp.length,
                            std::min(slot->stamp.length, deploy_.kept_value_bytes)};
  const Nanos invoked = worker.now();
  if (slot->log != nullptr && kind != OpKind::get) {
    slot->log->invoked(kind, slot->key_text,
                       brings_value(kind) ? std::optional<std::string_view>(slot->value_text) : std::nullopt,
                       earliest(invoked));
  }
  slot->is_busy = true;
  kv::OpResult result;
  if (kind == OpKind::get) {
    const kv::OpResult got = co_await slot->client->get(key, &slot->stats);
    result = got;
  } else if (kind == OpKind::put) {
    const kv::OpResult put = co_await slot->client->put(key, value, &slot->stats);
    result = put;
  } else if (kind == OpKind::insert_if_absent) {
    const kv::OpResult inserted = co_await slot->client->insert_if_absent(key, value, &slot->stats);
    result = inserted;
  } else {
    const kv::OpResult removed = co_await slot->client->remove(key, &slot->stats);
    result = removed;
  }
  slot->is_busy = false;
  worker.mark(capital_name(kind), invoked);
  slot->last = result.status;
  account(*own, *slot, kind, due < 0 ? invoked : due, invoked, result);
  const Nanos pause = pause_after(*slot, result);
  if (pause > 0 && !worker.stopping()) co_await worker.sleep_until(worker.now() + pause);
}

// A multi-get: GETs of different records at the same time, each on a lane of the slot. The result is no
// snapshot: each GET takes effect at its own instant.
coro::Task<void> Driver::multi_get(ClientWorker* own, Slot* slot, Nanos due) {
  fabric::Worker& worker = *own->worker;
  const Nanos invoked = worker.now();
  choose_distinct(*own, &slot->batch);
  coro::Scope scope(worker.run_queue());
  for (std::uint32_t i = 0; i < load_.multi_get; ++i) {
    Slot* lane = own->slots[slot->index + i].get();
    lane->is_measured = slot->is_measured;
    scope.spawn(operate(own, lane, OpKind::get, slot->batch[i], due));
  }
  co_await scope.join();
  const Nanos now = worker.now();
  if (!is_in_window(*slot, now)) co_return;
  ++own->tally.batches.total;
  bool is_whole = true;
  for (std::uint32_t i = 0; i < load_.multi_get; ++i)
    is_whole = is_whole && is_completed(own->slots[slot->index + i]->last);
  if (is_whole) own->tally.batches.latency_ns.record(now - (due < 0 ? invoked : due));
}

// Fills *records with different record numbers. A record that is drawn a second time is redrawn up to seven
// times, and then replaced by the next number not yet in the list, since a skewed distribution keeps drawing
// the same few records.
void Driver::choose_distinct(ClientWorker& own, std::vector<std::uint64_t>* records) {
  constexpr int draws = 8;
  const auto begin = records->begin();
  for (auto at = begin; at != records->end(); ++at) {
    const auto is_new = [&](std::uint64_t record) { return std::find(begin, at, record) == at; };
    std::uint64_t record = choose_record(own);
    for (int i = 1; i < draws && !is_new(record); ++i) record = choose_record(own);
    while (!is_new(record)) record = (record + 1) % records_.count();
    *at = record;
  }
}

// When all clients have ended, one of them runs the final sweep: the keeper, or without planned failures the
// client worker that ends last. The others wait for its end, so that their background coroutines keep
// running.
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
  if (load_.warmup == 0 && !is_measuring_.exchange(true)) fabric_.reset_counters();
}

Driver::Turn Driver::next_turn(ClientWorker& own, const Slot& slot) {
  if (own.worker->stopping() || is_swept_) return Turn::stop;
  if (load_.script) return slot.next < slot.script.size() ? Turn::measured : Turn::stop;
  const Nanos elapsed = own.worker->now() - begin_ns_.load(std::memory_order_relaxed);
  if (load_.operations == 0) {
    // An operation that begins in the warm-up and ends in the window counts; one that ends after the window
    // does not.
    return elapsed < load_.warmup + load_.duration ? Turn::measured : Turn::stop;
  }
  if (elapsed < load_.warmup) return Turn::warm_up;
  if (own.quota == 0) return Turn::stop;
  --own.quota;
  return Turn::measured;
}

Driver::Action Driver::choose(ClientWorker& own) const {
  if (own.is_reader) return Action::get;
  const OperationMix& mix = load_.mix;
  double u = own.rng.uniform();
  if ((u -= mix.get) < 0) return Action::get;
  if ((u -= mix.remove) < 0) return Action::remove;
  if ((u -= mix.insert) < 0) return Action::insert;
  if ((u -= mix.read_modify_write) < 0) return Action::read_modify_write;
  if ((u -= mix.insert_if_absent) < 0) return Action::insert_if_absent;
  return mix.put > 0 ? Action::put : Action::get;
}

std::uint64_t Driver::choose_record(ClientWorker& own) {
  if (own.is_reader && load_.read_only > 0) return own.rng.below(load_.read_only);
  Drawer drawer;
  drawer.rng = &own.rng;
  drawer.records = records_.count() + inserts_->acknowledged();
  drawer.node = own.worker->node() - deploy_.server_nodes;
  drawer.nodes = deploy_.driving_nodes();
  drawer.sequence = &own.place;
  const std::uint64_t record = inserts_->record(chooser_->next(drawer));
  if (load_.readers == 0 || record >= load_.read_only || drawer.records <= load_.read_only) return record;
  return inserts_->record(load_.read_only + own.rng.below(drawer.records - load_.read_only));
}

// Draws the time in ns from one operation of this worker to the next (open loop).
Nanos Driver::next_due(ClientWorker& own) const {
  const double workers = static_cast<double>(deploy_.driving_nodes()) * deploy_.client_workers;
  const double mean_ns = 1e9 * workers / load_.rate;
  const double gap = load_.fixed_gaps ? mean_ns : own.rng.exponential(mean_ns);
  // At a very low rate, the gap would exceed the range of Nanos.
  constexpr double gap_max = 1e17;
  return std::max<Nanos>(1, std::llround(std::min(gap, gap_max)));
}

void Driver::prepare(Slot& slot, OpKind kind, std::uint64_t record) {
  records_.key(record, slot.key.data());
  slot.key_size = records_.key_size(record);
  const kv::Key key{slot.key.data(), slot.key_size};
  slot.stats = {};
  slot.stamp.key_digest = kv::key_digest(key);
  if (brings_value(kind)) {
    slot.stamp.writer = slot.number;
    slot.stamp.sequence = ++slot.sequence;
    slot.stamp.length = slot.value_bytes > 0
                            ? slot.value_bytes
                            : records_.version_size(slot.stamp.key_digest, slot.number, slot.sequence);
    kv::write_value(slot.stamp, slot.value.data(), std::min(slot.stamp.length, deploy_.kept_value_bytes));
  }
  if (slot.log == nullptr) return;
  slot.key_text = key_name(key);
  if (brings_value(kind)) slot.value_text = kv::value_name(slot.stamp);
}

bool Driver::is_in_window(const Slot& slot, Nanos at) const {
  const Nanos measure_from = begin_ns_.load(std::memory_order_relaxed) + load_.warmup;
  return slot.is_measured && at >= measure_from &&
         (load_.duration == 0 || at <= measure_from + load_.duration);
}

void Driver::account(ClientWorker& own, Slot& slot, OpKind kind, Nanos due, Nanos invoked,
                     const kv::OpResult& result) {
  const Nanos now = own.worker->now();
  const bool has_value = kind == OpKind::get && result.status == kv::OpStatus::ok;
  bool is_corrupt = false, is_verified = false;
  if (has_value && load_.values_are_judged && (load_.verify || slot.log != nullptr)) {
    const kv::ValueReading reading = kv::read_value(result.value, slot.stamp.key_digest, true);
    is_corrupt = reading.verdict == kv::ValueVerdict::corrupt ||
                 !records_.is_size_right(reading, result.value.size, slot.stamp.key_digest);
    is_verified = !is_corrupt && reading.verdict != kv::ValueVerdict::unnamed;
  }
  if (slot.log != nullptr) {
    std::string read;
    if (has_value)
      read = is_corrupt ? "corrupt:" + kv::value_name(result.value) : kv::value_name(result.value);
    log(slot, kind, invoked, now, result, has_value ? std::optional<std::string_view>(read) : std::nullopt);
  }
  own.completed.store(own.completed.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  own.latest_ns.store(now, std::memory_order_relaxed);

  if (!is_in_window(slot, now)) {
    ++own.tally.unmeasured;
    own.tally.corrupt += is_corrupt ? 1 : 0;  // wrong values count outside the measurement window too
    return;
  }
  if (!is_measuring_.load(std::memory_order_relaxed) && !is_measuring_.exchange(true))
    fabric_.reset_counters();
  own.next_ended() = {.at = now,
                      .latency = now - due,
                      .stats = slot.stats,
                      .retries = result.retries,
                      .kind = kind,
                      .status = result.status,
                      .is_verified = is_verified,
                      .is_corrupt = is_corrupt};
  if (!has_sizes_) return;
  own.tally.sizes.key_bytes.record(slot.key_size);
  const bool is_put = brings_value(kind) && result.status == kv::OpStatus::ok;
  if (has_value || is_put) own.tally.sizes.value_bytes.record(is_put ? slot.stamp.length : result.value.size);
}

// The earliest time that another process's clock may have shown at `invoked`. Histories use it so that clock
// error widens an operation's interval and never narrows it.
Nanos Driver::earliest(Nanos invoked) const { return std::max<Nanos>(0, invoked - fabric_.clock_error()); }

void Driver::log(Slot& slot, OpKind kind, Nanos invoked, Nanos returned, const kv::OpResult& result,
                 std::optional<std::string_view> read) {
  check::OperationView view;
  view.client = static_cast<std::int32_t>(slot.number);
  view.kind = kind;
  view.outcome = outcome_of(kind, result.status, result.effect);
  view.key = slot.key_text;
  if (brings_value(kind))
    view.value = slot.value_text;
  else
    view.value = read;
  view.invoke_ns = earliest(invoked);
  view.return_ns = returned + fabric_.clock_error();
  slot.log->record(view);
}

Nanos Driver::pause_after(Slot& slot, const kv::OpResult& result) const {
  const bool is_trouble = result.status == kv::OpStatus::error || result.status == kv::OpStatus::timeout ||
                          result.status == kv::OpStatus::table_full;
  if (!is_trouble) {
    slot.error_run = 0;
    return 0;
  }
  const std::uint32_t doublings = std::min<std::uint32_t>(slot.error_run++, 10);
  return load_.error_pause << doublings;
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
