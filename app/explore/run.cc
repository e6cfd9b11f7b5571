// One execution of a scenario: sets up the deployment and its clients, and makes moves.
#include "app/explore/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "app/explore/words.h"
#include "common/coro/scope.h"
#include "common/kv/value.h"

namespace loch::explore {
namespace {

using fabric::WorkRequest;
using fabric::step::Fate;
using fabric::step::StepFabric;
using Alarms = StepFabric::Alarms;

// The scenario's keys with their initial values, for the preload.
class Start final : public kv::Dataset {
 public:
  explicit Start(const Plan& plan) : plan_(plan) {}
  [[nodiscard]] std::uint64_t count() const override { return plan_.is_absent ? 0 : plan_.keys.size(); }
  void key(std::uint64_t i, std::byte* out) const override {
    std::memcpy(out, plan_.keys[i].data(), key_bytes);
  }
  void value(std::uint64_t i, std::byte* out, std::uint32_t bytes) const override {
    const kv::Key key{plan_.keys[i].data(), key_bytes};
    kv::write_value({kv::key_digest(key), kv::initial_writer, 0, plan_.value_bytes}, out, bytes);
  }

 private:
  const Plan& plan_;
};

// First time in ns by which the clock is advanced when all workers only poll. Each further time is twice as
// long; all together are at most 17 s.
constexpr Nanos first_wait = 1'000;

// The value's name for the history. It begins with "corrupt:" if any byte of the value is wrong, since a torn
// value may begin with the right writer's name.
std::string name_of(const kv::ValueView& value, std::uint64_t digest) {
  const bool is_whole = kv::read_value(value, digest, true).verdict == kv::ValueVerdict::verified;
  return (is_whole ? "" : "corrupt:") + kv::value_name(value);
}

}  // namespace

// Awaitable at which a client waits until the explorer begins its next operation.
struct Run::Gate {
  Client* client;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiter) const { client->gate = waiter; }
  void await_resume() const noexcept {}
};

Run::Run(const Plan& plan) : plan_(plan), left_(plan.bounds) {
  fabric_ = std::make_unique<StepFabric>(fabric::step::StepConfig{
      .nodes = plan.deploy.nodes, .seed = 1, .request_cost = 100, .has_own_time = true});
  fabric_->set_capabilities(plan.capabilities);
  set_up();
  left_.switches.reset();
  start_workers();
  prepare();
}

// Destroys the coroutine frames before the store and the clients, to which the frames refer.
Run::~Run() { fabric_->abandon(); }

// Deploys the store. Errors are program errors, because make_plan has deployed a store of this size before.
void Run::set_up() {
  const kv::DeployConfig& deploy = plan_.deploy;
  auto store = plan_.module->deploy(deploy, plan_.options, plan_.mutant);
  LOCH_CHECK(store.has_value(), "{}", store.error().message);
  store_ = std::move(*store);
  const auto check = [](const Result<>& done) {
    LOCH_CHECK(done.has_value(), "{}", done.has_value() ? "" : done.error().message);
  };
  for (std::uint32_t node = 0; node < deploy.nodes; ++node)
    check(store_->setup_node(*fabric_, static_cast<fabric::NodeId>(node)));
  for (std::uint32_t c = 0; c < deploy.driving_nodes(); ++c)
    workers_.push_back(*fabric_->add_worker({.node = plan_.node_of(c), .index = 0}));
  for (std::uint32_t node = 0; node < deploy.nodes; ++node) {
    if (!deploy.serves(static_cast<fabric::NodeId>(node))) continue;
    for (std::uint32_t s = 0; s < deploy.server_workers; ++s) {
      workers_.push_back(*fabric_->add_worker({.node = static_cast<fabric::NodeId>(node),
                                               .role = fabric::Role::server,
                                               .index = deploy.server_index(s)}));
    }
  }
  check(store_->connect(*fabric_));
  check(store_->preload(*fabric_, Start(plan_)));
  memory_ = fabric_->memories();
  LOCH_CHECK_LE(memory_.size(), std::size_t{64});
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    const fabric::RegionSpec& spec = *memory_[i].spec;
    if (spec.remote_read || spec.remote_write || spec.remote_atomic) shared_ |= std::uint64_t{1} << i;
  }
  memory_hash_.resize(memory_.size());
  is_dirty_.assign(memory_.size(), true);
  chains_.resize(deploy.nodes + workers_.size() + 1);
  LOCH_CHECK_LE(workers_.size(), std::size_t{64});
}

void Run::start_workers() {
  const kv::DeployConfig& deploy = plan_.deploy;
  for (std::uint32_t s = deploy.driving_nodes(); s < workers_.size(); ++s) {
    const std::uint32_t index = (s - deploy.driving_nodes()) % deploy.server_workers;
    fabric_->start(*workers_[s], store_->serve(*workers_[s], index));
    fabric_->drain(*workers_[s]);
  }
  for (std::uint32_t c = 0; c < plan_.scenario.clients.size(); ++c) {
    auto& client = *clients_.emplace_back(std::make_unique<Client>());
    client.run = this;
    client.number = c;
    client.worker = static_cast<std::uint8_t>(c);
    client.store = store_->client(*workers_[c], 0);
    client.value.resize(plan_.value_bytes);
    fabric_->start(*workers_[c], client_main(&client));
    fabric_->drain(*workers_[c]);
  }
}

// Executes the operations that prepare the state before the exploration, one after the other and in one fixed
// order of moves.
void Run::prepare() {
  constexpr int most_moves = 10'000;
  Client& first = *clients_.front();
  is_preparing_ = true;
  for (std::uint32_t i = 0; i < plan_.scenario.prepared; ++i) {
    static_cast<void>(apply({Kind::begin, 0, 0}));
    std::uint64_t idle = 0;  // bit mask of workers whose next timer will change nothing when it expires
    for (int made = 0; first.running; ++made) {
      const std::vector<Move> possible = moves();
      const auto next = forward(possible, idle);
      is_prepared_ = next != possible.end() && made < most_moves;
      if (!is_prepared_) return;
      const Footprint print = apply(*next);
      idle = print.is_idle ? idle | std::uint64_t{1} << next->worker : 0;
    }
  }
  is_preparing_ = false;
  if (plan_.scenario.prepared > 0) come_to_rest();
  left_.switches = plan_.bounds.switches;
}

// Chooses the next move of prepare(): if possible, the execution of a request, or a worker's noticing of a
// change or message; else the earliest timer, so that no worker's polling delays another; else a deadline.
std::vector<Move>::const_iterator Run::forward(const std::vector<Move>& possible, std::uint64_t idle) {
  const auto at = [&](const Move& m) {
    if (m.kind == Kind::request || m.kind == Kind::news) return Nanos{0};
    return fabric_->next_alarm(worker(m.worker), Alarms::all).at;
  };
  auto best = possible.end();
  for (auto each = possible.begin(); each != possible.end(); ++each) {
    const bool goes_on = each->kind == Kind::request || each->kind == Kind::news ||
                         (each->kind == Kind::alarm && (idle >> each->worker & 1U) == 0) ||
                         each->kind == Kind::late;
    if (goes_on && (best == possible.end() || at(*each) < at(*best))) best = each;
  }
  return best;
}

// Lets the stores' background coroutines finish the work that the preparing operations left to them. If this
// work were done during the exploration, each moment at which it may be done would be another state.
void Run::come_to_rest() {
  constexpr int most_moves = 10'000;
  std::uint64_t idle = 0;  // bit mask of workers whose next timer will change nothing when it expires
  for (int made = 0; made < most_moves; ++made) {
    const std::vector<Move> possible = moves();
    const auto goes_on = [&](const Move& m) {
      return m.kind == Kind::request || m.kind == Kind::news ||
             (m.kind == Kind::alarm && (idle >> m.worker & 1U) == 0);
    };
    const auto next = std::ranges::find_if(possible, goes_on);
    if (next == possible.end()) return;
    const Footprint print = apply(*next);
    if (print.is_idle)
      idle |= std::uint64_t{1} << next->worker;
    else
      idle = 0;
  }
}

coro::Task<void> Run::client_main(Client* client) {
  Run& run = *client->run;
  fabric::Worker& worker = *run.workers_[client->worker];
  if (!run.store_->has_background()) {
    co_await run_program(client);
    co_return;
  }
  coro::Scope scope(worker.run_queue());
  scope.spawn(run_program(client));
  scope.spawn(run.store_->background(worker, &client->is_done));
  co_await scope.join();
}

coro::Task<void> Run::run_program(Client* client) {
  Run& run = *client->run;
  const auto& program = run.plan_.scenario.clients[client->number];
  for (std::size_t i = 0; i < program.size(); ++i) {
    co_await Gate{client};
    const std::size_t operation = *client->running;
    co_await perform(client, operation);
    client->running.reset();
  }
  client->is_done = true;
}

std::vector<kv::ClientId> Run::dead_clients() const {
  std::vector<kv::ClientId> dead;
  for (const auto& client : clients_) {
    const fabric::Worker& who = worker(client->worker);
    if (client->is_dead) dead.push_back({who.node(), static_cast<std::uint16_t>(who.index())});
  }
  return dead;
}

coro::Task<void> Run::scrub_dead(Client* client, std::size_t operation) {
  Run& run = *client->run;
  std::vector<kv::ClientId> dead = run.dead_clients();
  for (const kv::ClientId& each : dead) static_cast<void>(run.fabric_->fence(each.node));
  if (!dead.empty()) {
    const kv::Repair repaired = co_await run.store_->scrub(*run.workers_[client->worker], std::move(dead));
    if (!repaired.is_complete) run.operations_[operation].status = kv::OpStatus::error;
  }
  run.operations_[operation].ended = run.moves_made_;
  run.returned_ |= std::uint64_t{1} << operation;
}

coro::Task<void> Run::perform(Client* client, std::size_t operation) {
  Run& run = *client->run;
  const Step step = run.operations_[operation].step;
  if (step.verb == Verb::scrub) {
    co_await scrub_dead(client, operation);
    co_return;
  }
  const kv::Key key{run.plan_.keys[step.key].data(), key_bytes};
  client->stats = {};
  kv::OpResult result;
  if (step.verb == Verb::get) {
    const kv::OpResult got = co_await client->store->get(key, &client->stats);
    result = got;
    if (got.status == kv::OpStatus::ok)
      run.operations_[operation].value = name_of(got.value, kv::key_digest(key));
  } else if (brings_value(step.verb)) {
    const std::uint32_t bytes = run.plan_.value_bytes;
    const kv::ValueStamp stamp{kv::key_digest(key), client->number, client->next, bytes};
    kv::write_value(stamp, client->value.data(), bytes);
    run.operations_[operation].value = kv::value_name(stamp);
    const kv::ValueView value{client->value.data(), bytes, bytes};
    if (step.verb == Verb::put) {
      const kv::OpResult put = co_await client->store->put(key, value, &client->stats);
      result = put;
    } else {
      const kv::OpResult inserted = co_await client->store->insert_if_absent(key, value, &client->stats);
      result = inserted;
    }
  } else if (step.verb == Verb::remove) {
    const kv::OpResult removed = co_await client->store->remove(key, &client->stats);
    result = removed;
  } else {
    const kv::OpResult moved = co_await client->store->migrate(key, &client->stats);
    result = moved;
  }
  Operation& done = run.operations_[operation];
  done.status = result.status;
  done.effect = result.effect;
  done.ended = run.moves_made_;
  run.returned_ |= std::uint64_t{1} << operation;
}

Run::Client* Run::client_of(std::uint8_t worker) {
  return worker < clients_.size() ? clients_[worker].get() : nullptr;
}

// ---- the moves of a run: one step of a worker, a failure, or passing time

std::size_t Run::note_begin(Client& client, const Step& step) {
  operations_.push_back({.client = client.number,
                         .step = step,
                         .predecessors = returned_,
                         .dead = 0,
                         .begun = moves_made_,
                         .is_troubled = false,
                         .ended = {},
                         .status = kv::OpStatus::ok,
                         .effect = kv::Effect::none,
                         .value = {}});
  return operations_.size() - 1;
}

void Run::begin(Client& client) {
  client.running = note_begin(client, plan_.scenario.clients[client.number][client.next++]);
  Operation& begun = operations_[*client.running];
  for (const auto& each : clients_) {
    if (begun.step.verb == Verb::scrub && each->is_dead) begun.dead |= std::uint64_t{1} << each->number;
  }
  worker(client.worker).run_queue().push(std::exchange(client.gate, {}));
}

// Adds to the footprint the memory that the request will access.
void Run::note_request(std::uint8_t w, const WorkRequest& request, Footprint& print) const {
  print.target = static_cast<std::uint8_t>(request.peer);
  print.is_message = request.verb == fabric::Verb::send;
  print.is_write = request.verb != fabric::Verb::read;
  if (print.is_message || !worker(w).connected(request.peer)) return;
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    const fabric::Region& region = *memory_[i].region;
    if (region.node() != request.remote.node || region.id() != request.remote.id) continue;
    print.region = static_cast<std::int32_t>(i);
    print.region_is_seen = !memory_[i].spec->remote_atomic;
  }
  print.from = request.remote_offset;
  print.to = request.remote_offset + request.length;
}

void Run::mark_node(fabric::NodeId node) {
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    if (memory_[i].region->node() == node) is_dirty_[i] = true;
  }
}

void Run::refresh() {
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    if (!is_dirty_[i]) continue;
    memory_hash_[i] = hash_of(memory_[i].data, memory_[i].bytes);
    is_dirty_[i] = false;
  }
}

// Hash of all memory that code on the node's CPU may read.
Hash Run::seen_by(fabric::NodeId node) {
  refresh();
  Words words;
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    if (memory_[i].region->node() == node && !memory_[i].spec->remote_atomic) words.add(memory_hash_[i]);
  }
  return words.hash();
}

// Hash of the memory that CPU code of the node may read and that peers can access. Buffers that receive the
// data of READs are left out, because they only show which READ came last.
Hash Run::shared_by(fabric::NodeId node) {
  refresh();
  Words words;
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    if (memory_[i].region->node() == node && (shared_ >> i & 1U) != 0 && !memory_[i].spec->remote_atomic)
      words.add(memory_hash_[i]);
  }
  return words.hash();
}

void Run::extend_chain(const Move& move, const WorkRequest* done, fabric::NodeId node) {
  struct {
    Hash before, seen;
    std::uint64_t move = 0, status = 0, result = 0;
    Nanos now = 0;
  } all;
  all.before = chains_[node];
  all.seen = seen_by(node);
  all.move = static_cast<std::uint64_t>(move.kind) << 16U | move.worker << 8U | move.request;
  all.now = fabric_->now();
  if (done != nullptr) {
    all.status = static_cast<std::uint64_t>(done->status);
    all.result = done->result;
  }
  chains_[node] = hash_of(&all, sizeof all);
}

Hash Run::alarm_key(const Move& alarm) {
  const fabric::NodeId node = worker(alarm.worker).node();
  struct {
    Hash chain, seen;
    std::uint64_t alarm = 0;
    Nanos now = 0;
  } all{chains_[node], seen_by(node), std::uint64_t{alarm.worker} << 8U | alarm.request, fabric_->now()};
  return hash_of(&all, sizeof all);
}

void Run::note_switch(const Move& move) {
  if (!left_.switches) return;
  if (is_switch(move)) --*left_.switches;
  if (move.kind != Kind::kill && move.kind != Kind::kill_executed && move.kind != Kind::clock)
    last_ = move.worker;
}

void Run::tear(const Move& move, Footprint& print) {
  fabric::Worker& who = worker(move.worker);
  note_request(move.worker, fabric_->request(who, move.request), print);
  fabric_->execute_half(who, move.request, tear_of(move));
  if (print.region >= 0) is_dirty_[static_cast<std::size_t>(print.region)] = true;
  mark_node(who.node());
  print.fails = true;  // two torn requests are dependent: the first may use up Bounds::torn
  --left_.torn;
}

void Run::let_time_pass(const Move& move) {
  // This move is possible when all workers only poll. Each move of this kind advances the clock by twice as
  // long as the one before it.
  if (move.request == 2) {
    fabric_->advance(first_wait << waits_in_vain_++);
    return;
  }
  fabric::Worker& who = worker(move.worker);
  if (is_early(move.worker)) note_trouble_of_all();
  const Nanos at = fabric_->next_alarm(who, Alarms::deadlines).at;
  fabric_->advance(std::max<Nanos>(0, at - who.now()));
  fabric_->ring(who, Alarms::deadlines);
  if (move.request == 0) --left_.late;
}

void Run::execute(const Move& move, Fate fate, Footprint& print, Executed& executed) {
  fabric::Worker& who = worker(move.worker);
  const WorkRequest before = fabric_->request(who, move.request);
  note_request(move.worker, before, print);
  executed.is_rest = fabric_->torn(who, move.request) != nullptr;
  executed.before = before;
  executed.done = fabric_->execute(who, move.request, fate);
  if (before.verb == fabric::Verb::cas) print.is_write = executed.done->result == before.compare;
  if (print.region >= 0) is_dirty_[static_cast<std::size_t>(print.region)] = true;
  if (print.is_message) mark_node(before.peer);
  mark_node(who.node());
}

void Run::execute_and_fail(const Move& move, Footprint& print, Executed& executed) {
  const bool is_unheard = move.kind == Kind::unheard || move.kind == Kind::unheard_cut;
  note_trouble(move.worker, fabric_->request(worker(move.worker), move.request));
  execute(move, is_unheard ? Fate::unheard : Fate::not_executed, print, executed);
  print.fails = print.is_write = true;
}

// Executes a move in the fabric, such as a request; finish_move() then runs the worker's coroutines.
Run::Executed Run::make_move(const Move& move, Footprint& print) {
  const std::uint8_t w = move.worker;
  fabric::Worker& who = worker(w);
  Executed executed;
  switch (move.kind) {
    case Kind::begin:
      begin(*client_of(w));
      print.begins = true;
      break;
    case Kind::request:
      execute(move, Fate::executed, print, executed);
      break;
    case Kind::unheard:
    case Kind::not_executed:
      execute_and_fail(move, print, executed);
      --left_.fails;
      break;
    case Kind::unheard_cut:
    case Kind::not_executed_cut:
      fabric_->refuse_reconnect(who, fabric_->request(who, move.request).peer);
      execute_and_fail(move, print, executed);
      --left_.cuts;
      break;
    case Kind::tear:
      executed.before = fabric_->request(who, move.request);
      tear(move, print);
      break;
    case Kind::news:
      fabric_->take_news(who);
      break;
    case Kind::alarm:
      // If Bounds::cuts is 0, background coroutines do not poll repeatedly, and recording which of them have
      // polled would only make more states.
      print.polls = plan_.bounds.cuts > 0 && is_background(w);
      if (print.polls && hashes_) looked_at(w) = shared_by(who.node());
      note_impatience(w);
      fabric_->ring_timer(who, move.request);
      break;
    case Kind::late:
      print.is_global = true;
      let_time_pass(move);
      break;
    case Kind::kill_executed:
      execute(move, Fate::executed, print, executed);
      [[fallthrough]];
    case Kind::kill:
      print.is_global = true;
      --left_.kills;
      fabric_->kill(who);
      client_of(w)->is_dead = true;
      break;
    case Kind::clock:
      print.is_global = true;
      --left_.clocks;
      fabric_->advance(plan_.jump);
      break;
  }
  return executed;
}

Footprint Run::apply(const Move& move, std::string* text) {
  ++moves_made_;
  Footprint print;
  print.node = static_cast<std::uint8_t>(worker(move.worker).node());
  note_switch(move);
  print.is_ordered = left_.switches.has_value();
  const std::uint64_t returned_before = returned_;
  const Executed executed = make_move(move, print);
  const WorkRequest* before = executed.before ? &*executed.before : nullptr;
  const WorkRequest* done = executed.done ? &*executed.done : nullptr;
  finish_move(move, done, print);
  print.ends = returned_ != returned_before;
  if (hashes_) note_polls(move.worker, print);
  print.is_global = print.is_global || is_over();  // a move that ends the run is swapped with no other move
  if (text != nullptr) *text = describe(move, before, done, executed.is_rest);
  return print;
}

// Records which background workers have polled, and clears the hashes of the memory that the other workers
// polled. Both are stored in chains_, so that a run that repeats moves without hashing can restore them from
// there.
void Run::note_polls(std::uint8_t w, const Footprint& print) {
  std::uint64_t& polled = chains_.back().low;
  const std::uint64_t own = std::uint64_t{1} << w;
  if (print.is_global || print.is_write) polled = 0;
  if ((print.changed & shared_) != 0) polled &= own;
  if (print.polls) polled |= own;
  for (std::uint8_t each = 0; each < workers_.size(); ++each) {
    if ((polled >> each & 1U) == 0) looked_at(each) = {};
  }
}

// Runs the worker's coroutines after a move until all of them wait.
void Run::finish_move(const Move& move, const WorkRequest* done, Footprint& print) {
  if (move.kind == Kind::tear) return;  // no completion: only one half of the request was executed
  if (move.kind == Kind::kill || move.kind == Kind::kill_executed || move.kind == Kind::clock) {
    if (hashes_) extend_chain(move, done, worker(move.worker).node());
    return;
  }
  fabric::Worker& who = worker(move.worker);
  const fabric::NodeId node = who.node();
  if (!hashes_) {
    fabric_->drain(who);
    mark_node(node);
    return;
  }
  extend_chain(move, done, node);  // extend_chain() also refreshes the hashes of memory
  const std::vector<Hash> before = memory_hash_;
  const std::size_t posted = fabric_->posted(who), timers = fabric_->timers(who) + 1;
  const std::uint64_t returned = returned_;
  const bool had_news = fabric_->has_news(who);
  fabric_->drain(who);
  mark_node(node);
  refresh();
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    if (memory_hash_[i] != before[i]) print.changed |= std::uint64_t{1} << i;
  }
  print.is_idle = move.kind == Kind::alarm && print.changed == 0 && fabric_->posted(who) == posted &&
                  returned == returned_ && !fabric_->is_done(who) && fabric_->has_news(who) == had_news &&
                  fabric_->timers(who) == timers;
}

}  // namespace loch::explore
