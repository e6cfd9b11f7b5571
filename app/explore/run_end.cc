// Ends an execution: finishes work under way, repairs dead clients, reads every key, audits the tables,
// writes and reads every key again. Also converts the run to a history for the checker.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "app/explore/run.h"
#include "common/coro/scope.h"

namespace loch::explore {
namespace {

using Alarms = fabric::step::StepFabric::Alarms;

// Bound on moves after the last client has ended, when only background writes and acknowledgements remain.
constexpr int most_pumps = 20'000;

OpKind kind_of(Verb verb) {
  switch (verb) {
    case Verb::get:
      return OpKind::get;
    case Verb::put:
      return OpKind::put;
    case Verb::insert:
      return OpKind::insert_if_absent;
    case Verb::remove:
    case Verb::migrate:
    case Verb::scrub:
      break;
  }
  return OpKind::remove;
}

Outcome outcome_of(const Operation& o) {
  return o.ended ? loch::outcome_of(kind_of(o.step.verb), o.status, o.effect) : Outcome::unknown;
}

// Time of a move in the history: moves begin at multiples of ten, and an operation returns after the move
// that ends it and before the next move.
Nanos begin_time(std::uint64_t move) { return static_cast<Nanos>(move) * 10; }
Nanos end_time(std::uint64_t move) { return static_cast<Nanos>(move) * 10 + 5; }

}  // namespace

std::vector<check::Operation> Run::history() const {
  std::vector<check::Operation> all;
  for (const std::string& key : plan_.scenario.keys) {
    check::Operation start{.client = check::preload_client,
                           .kind = plan_.is_absent ? OpKind::remove : OpKind::put,
                           .outcome = plan_.is_absent ? Outcome::not_found : Outcome::ok,
                           .key = key,
                           .value = {},
                           .invoke_ns = 0,
                           .return_ns = 0};
    if (!plan_.is_absent) start.value = std::string(check::preloaded_value);
    all.push_back(std::move(start));
  }
  for (const Operation& o : operations_) {
    if (o.step.verb == Verb::migrate || o.step.verb == Verb::scrub) continue;
    const Outcome outcome = outcome_of(o);
    // A GET that has not returned is left out of the history, because no client has seen its result.
    if (o.step.verb == Verb::get && !o.ended) continue;
    check::Operation entry{.client = static_cast<std::int32_t>(o.client),
                           .kind = kind_of(o.step.verb),
                           .outcome = outcome,
                           .key = plan_.scenario.keys[o.step.key],
                           .value = {},
                           .invoke_ns = begin_time(o.begun),
                           .return_ns = {}};
    if (o.ended) entry.return_ns = end_time(*o.ended);
    const bool has_read = o.step.verb == Verb::get && outcome == Outcome::ok;
    if (brings_value(o.step.verb) || has_read) entry.value = o.value;
    all.push_back(std::move(entry));
  }
  return all;
}

// Makes one possible move, chosen in a fixed order; timers fire only if nothing else is possible, and
// deadlines only without timers.
bool Run::pump() {
  const auto usable = [&](std::size_t w) { return w >= clients_.size() || !clients_[w]->is_dead; };
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    fabric::Worker& each = *workers_[w];
    if (!usable(w)) continue;
    for (std::size_t i = 0; i < fabric_->posted(each); ++i) {
      if (!fabric_->is_executable(each, i)) continue;
      static_cast<void>(fabric_->execute(each, i, fabric::step::Fate::executed));
      fabric_->drain(each);
      return true;
    }
    if (!fabric_->has_news(each)) continue;
    fabric_->take_news(each);
    fabric_->drain(each);
    return true;
  }
  for (const Alarms which : {Alarms::timers, Alarms::deadlines}) {
    fabric::Worker* first = nullptr;
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      if (!usable(w)) continue;
      const Nanos at = fabric_->next_alarm(*workers_[w], which).at;
      if (at != fabric::forever && (first == nullptr || at < fabric_->next_alarm(*first, which).at))
        first = workers_[w];
    }
    if (first == nullptr) continue;
    fabric_->ring(*first, which);
    fabric_->drain(*first);
    return true;
  }
  return false;
}

bool Run::pump_until_done(fabric::Worker& worker) {
  fabric_->drain(worker);
  for (int i = 0; i < most_pumps && !fabric_->is_done(worker); ++i) {
    if (!pump()) break;
  }
  return fabric_->is_done(worker);
}

coro::Task<void> Run::visit_all(Client* client, std::uint32_t keys, bool writes) {
  constexpr std::array<Verb, 2> write_and_read = {Verb::put, Verb::get};
  constexpr std::array<Verb, 1> read = {Verb::get};
  const std::span<const Verb> verbs = writes ? std::span<const Verb>(write_and_read) : read;
  Run& run = *client->run;
  for (std::uint32_t key = 0; key < keys; ++key) {
    for (const Verb verb : verbs) {
      ++run.moves_made_;
      ++client->next;  // each value that a client writes has a number of its own
      const std::size_t operation = run.note_begin(*client, {verb, key});
      co_await perform(client, operation);
    }
  }
}

// Lets `survivor` GET every key (if `writes` is true, after a PUT of the key), and adds a message to `wrong`
// for each operation that does not end or has a wrong status.
void Run::visit(Client& survivor, bool writes, std::vector<std::string>& wrong) {
  fabric::Worker& who = worker(survivor.worker);
  const std::size_t first = operations_.size();
  fabric_->start(who, visit_all(&survivor, static_cast<std::uint32_t>(plan_.keys.size()), writes));
  const bool has_ended = pump_until_done(who);
  for (std::size_t i = first; i < operations_.size(); ++i) {
    const Operation& o = operations_[i];
    if (!o.ended) {
      if (!has_ended)
        wrong.push_back(fmt::format("at rest: {} does not come to an end", plan_.scenario.describe(o.step)));
      continue;
    }
    // A PUT may answer "table full": an absent key may find no free slot, and a store with few spare entries
    // may have to wait until an entry expires. Slots and entries that were lost are found by Store::audit.
    const bool finds_no_place = o.step.verb == Verb::put && o.status == kv::OpStatus::table_full;
    const bool is_answer =
        o.status == kv::OpStatus::ok || (o.status == kv::OpStatus::not_found && o.step.verb != Verb::put);
    if (!is_answer && !finds_no_place)
      wrong.push_back(fmt::format("at rest: {} answers {}", plan_.scenario.describe(o.step), name(o.status)));
  }
}

coro::Task<void> Run::background_main(Run* run, fabric::Worker* worker, const bool* done) {
  co_await run->store_->background(*worker, done);
}

coro::Task<void> Run::scrub(Run* run, fabric::Worker* worker, std::vector<kv::ClientId> dead, bool* done) {
  const kv::Repair repaired = co_await run->store_->scrub(*worker, std::move(dead));
  LOCH_CHECK(repaired.is_complete, "nothing is out of reach");
  *done = true;
}

coro::Task<void> Run::repair_main(Run* run, fabric::Worker* worker, std::vector<kv::ClientId> dead,
                                  bool* done) {
  coro::Scope scope(worker->run_queue());
  scope.spawn(scrub(run, worker, std::move(dead), done));
  if (run->store_->has_background()) scope.spawn(background_main(run, worker, done));
  co_await scope.join();
}

// Fences the dead clients off, and lets `survivor` repair what they left half-done. The background coroutines
// of the living clients run meanwhile, because a repair may depend on these coroutines.
bool Run::repair(Client& survivor, const std::vector<kv::ClientId>& dead) {
  for (const kv::ClientId& client : dead) static_cast<void>(fabric_->fence(client.node));
  bool is_repaired = false;
  std::vector<fabric::Worker*> others;
  for (const auto& client : clients_) {
    if (client->is_dead || client.get() == &survivor || !store_->has_background()) continue;
    others.push_back(workers_[client->worker]);
    fabric_->start(*others.back(), background_main(this, others.back(), &is_repaired));
    fabric_->drain(*others.back());
  }
  fabric::Worker* who = workers_[survivor.worker];
  fabric_->start(*who, repair_main(this, who, dead, &is_repaired));
  if (!pump_until_done(*who)) return false;
  return std::ranges::all_of(others, [&](fabric::Worker* each) { return pump_until_done(*each); });
}

// Whether the protocol promises that every key is served at the end, under the failures that happened.
bool Run::demands_service() const {
  const auto holds = [&](kv::Loss loss) {
    const kv::Promise promise = plan_.module->promise(loss, plan_.options);
    return promise == kv::Promise::serves || promise == kv::Promise::after_scrub;
  };
  const bool has_dead = std::ranges::any_of(clients_, [](const auto& c) { return c->is_dead; });
  const bool has_failed = left_.fails != plan_.bounds.fails || left_.cuts != plan_.bounds.cuts;
  return (!has_dead || holds(kv::Loss::client_killed)) && (!has_failed || holds(kv::Loss::link_down));
}

std::vector<std::string> Run::end() {
  std::vector<std::string> wrong;
  const std::vector<kv::ClientId> dead = dead_clients();
  Client* survivor = nullptr;
  for (const auto& client : clients_) {
    fabric::Worker& who = worker(client->worker);
    if (client->is_dead) continue;
    if (!pump_until_done(who)) {
      wrong.push_back(
          fmt::format("at rest: client {} does not come to an end", static_cast<char>('A' + client->number)));
      return wrong;
    }
    if (survivor == nullptr) survivor = client.get();
  }
  if (survivor == nullptr) return wrong;
  const bool repairs =
      plan_.module->promise(kv::Loss::client_killed, plan_.options) == kv::Promise::after_scrub;
  if (!dead.empty() && repairs && !repair(*survivor, dead)) {
    wrong.emplace_back("at rest: scrub does not come to an end");
    return wrong;
  }
  if (!demands_service()) return wrong;
  visit(*survivor, false, wrong);
  for (const std::string& line : store_->audit({})) wrong.push_back("at rest: " + line);
  // Writing every key finds locks that block writers but not readers.
  if (wrong.empty()) visit(*survivor, true, wrong);
  return wrong;
}

}  // namespace loch::explore
