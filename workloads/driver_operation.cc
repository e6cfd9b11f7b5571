// The loop of a window slot (place for one operation): draws the next operation, issues it and counts its
// outcome.
#include <algorithm>
#include <cmath>

#include "common/base/clock_fence.h"
#include "common/coro/scope.h"
#include "common/kv/value.h"
#include "workloads/driver_client.h"
#include "workloads/inserts.h"

namespace loch::workloads {

// Open loop: an operation due later than this never begins, so that sums of times do not overflow.
constexpr Nanos latest_due = Nanos{1} << 60;
// Open loop: a window slot (place for one operation) does not wait for an operation that is due later than
// this many nanoseconds after the end of the run.
constexpr Nanos beyond_end = 1'000'000'000;

Driver::Turn Driver::next_turn(ClientWorker& own, const Slot& slot, Nanos now) {
  if (own.worker->stopping() || is_swept_) return Turn::stop;
  if (load_.script) return slot.next < slot.script.size() ? Turn::measured : Turn::stop;
  const Nanos elapsed = now - own.measured_from + load_.warmup;
  if (load_.operations == 0) {
    // An operation that begins in the warm-up and ends in the measurement window counts; one that ends after
    // the window does not.
    return elapsed < load_.warmup + load_.duration ? Turn::measured : Turn::stop;
  }
  if (elapsed < load_.warmup) return Turn::warm_up;
  if (own.quota == 0) return Turn::stop;
  --own.quota;
  return Turn::measured;
}

Driver::Action Driver::choose(ClientWorker& own) const {
  if (own.is_reader) return Action::get;
  const std::uint64_t drawn = own.rng() >> 11;
  if (drawn < gets_below_) [[likely]]
    return Action::get;
  const OperationMix& mix = load_.mix;
  double u = static_cast<double>(drawn) * 0x1.0p-53 - mix.get;
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
  // At a very low rate, the gap between two operations would exceed the range of Nanos.
  constexpr double gap_max = 1e17;
  return std::max<Nanos>(1, std::llround(std::min(gap, gap_max)));
}

Nanos Driver::first_pause(ClientWorker& own) const {
  return static_cast<Nanos>(own.rng.below(static_cast<std::uint64_t>(load_.pause)));
}

Nanos Driver::rests_until(const ClientWorker& own, Nanos now) const {
  const ActiveWorkers& active = load_.active;
  const Nanos began = own.measured_from - load_.warmup;
  const Nanos end = own.measured_from + load_.duration;
  if (own.index >= active.most) return end;
  Nanos interval = (now - began) / active.every;
  if (own.index < active.in(static_cast<std::uint64_t>(interval), load_.seed)) return now;
  // A worker that woke at the beginning of each interval, only to sleep again, would take time from others.
  do {
    ++interval;
    if (began + interval * active.every >= end) return end;
  } while (own.index >= active.in(static_cast<std::uint64_t>(interval), load_.seed));
  return began + interval * active.every;
}

// Sets the key and, for a write, the value of a window slot (place for one operation). Computes the key's
// digest only if the value is written or verified.
void Driver::prepare(Slot& slot, OpKind kind, std::uint64_t record) {
  slot.key_size = records_.key_size(record);
  slot.stats = {};
  if (keys_.has(record)) {
    slot.key_at = keys_.key(record);
    slot.stamp.key_digest = keys_.digest(record);
  } else {
    records_.key(record, slot.key.data());
    slot.key_at = slot.key.data();
    if (brings_value(kind) || judges_values_)
      slot.stamp.key_digest = kv::key_digest({slot.key_at, slot.key_size});
  }
  if (brings_value(kind)) {
    slot.stamp.writer = slot.number;
    slot.stamp.sequence = ++slot.sequence;
    slot.stamp.length = slot.value_bytes > 0
                            ? slot.value_bytes
                            : records_.version_size(slot.stamp.key_digest, slot.number, slot.sequence);
    kv::write_value(slot.stamp, slot.value.data(), std::min(slot.stamp.length, deploy_.kept_value_bytes));
  }
  if (slot.log == nullptr) return;
  slot.key_text = key_name({slot.key_at, slot.key_size}, slot.key_hex);
  if (brings_value(kind)) slot.value_text = kv::value_name(slot.stamp);
}

bool Driver::is_in_window(const ClientWorker& own, const Slot& slot, Nanos at) const {
  return slot.is_measured && at >= own.measured_from &&
         (load_.duration == 0 || at <= own.measured_from + load_.duration);
}

void Driver::account(ClientWorker& own, Slot& slot, OpKind kind, Nanos now, Began began,
                     const kv::OpResult& result) {
  const bool has_value = kind == OpKind::get && result.status == kv::OpStatus::ok;
  bool is_corrupt = false, is_verified = false;
  kv::ValueReading reading;
  if (has_value && judges_values_ && (load_.verify || slot.log != nullptr)) [[unlikely]] {
    reading = kv::read_value(result.value, slot.stamp.key_digest, true);
    is_corrupt = reading.verdict == kv::ValueVerdict::corrupt ||
                 !records_.is_size_right(reading, result.value.size, slot.stamp.key_digest);
    is_verified = !is_corrupt && reading.verdict != kv::ValueVerdict::unnamed;
  }
  if (slot.log != nullptr) [[unlikely]] {
    std::string read;
    if (has_value && is_verified)
      read = kv::value_name(reading.stamp);
    else if (has_value)
      read = is_corrupt ? "corrupt:" + kv::value_name(result.value) : kv::value_name(result.value);
    log(slot, kind, began.invoked, now, result,
        has_value ? std::optional<std::string_view>(read) : std::nullopt);
  }
  own.completed.store(own.completed.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  own.latest_ns.store(now, std::memory_order_relaxed);

  if (!is_in_window(own, slot, now)) {
    ++own.tally.unmeasured;
    own.tally.corrupt += is_corrupt ? 1 : 0;  // wrong values count outside the measurement window too
    return;
  }
  end_warmup(*own.worker);
  own.count_requests(kind, slot.stats);
  own.next_ended() = {.at = now,
                      .latency = now - began.due,
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
  view.invoke_ns = invoked;
  view.return_ns = returned;
  slot.log->record(view);
}

Nanos Driver::pause_after(Slot& slot, const kv::OpResult& result) const {
  const bool is_trouble = result.status == kv::OpStatus::error || result.status == kv::OpStatus::timeout ||
                          result.status == kv::OpStatus::table_full;
  if (!is_trouble) {
    slot.error_run = 0;
    return 0;
  }
  slot.had_trouble = true;
  const std::uint32_t doublings = std::min<std::uint32_t>(slot.error_run++, 10);
  return load_.error_pause << doublings;
}

void Driver::begin_operation(ClientWorker& own, Slot& slot, OpKind kind, std::uint64_t record,
                             Nanos invoked) {
  if (load_.transcript != nullptr) transcribe(own, slot, kind, record);
  prepare(slot, kind, record);
  if (slot.log != nullptr && kind != OpKind::get) {
    slot.log->invoked(kind, slot.key_text,
                      brings_value(kind) ? std::optional<std::string_view>(slot.value_text) : std::nullopt,
                      invoked);
  }
  slot.is_busy = true;
}

// Returns the store's own coroutine for the caller to await. If issue() were a coroutine itself, each
// operation would cost one frame and two switches more.
coro::Task<kv::OpResult> Driver::issue(Slot& slot, OpKind kind) const {
  const kv::Key key{slot.key_at, slot.key_size};
  if (kind == OpKind::get) return slot.client->get(key, &slot.stats);
  if (kind == OpKind::remove) return slot.client->remove(key, &slot.stats);
  const kv::ValueView value{slot.value.data(), slot.stamp.length,
                            std::min(slot.stamp.length, deploy_.kept_value_bytes)};
  return kind == OpKind::put ? slot.client->put(key, value, &slot.stats)
                             : slot.client->insert_if_absent(key, value, &slot.stats);
}

namespace {

// The worker's time for a history. What the processor does out of order must not reach across the reading:
// the effects of an operation are within its interval. A function of its own, in which a test looks for both
// fences (tests/e2e/test_history_clock.py).
[[gnu::noinline]] Nanos fenced_time(const fabric::Worker& worker) {
  fence_clock();
  const Nanos now = worker.now();
  fence_clock();
  return now;
}

}  // namespace

Nanos Driver::time_of(const ClientWorker& own) const {
  return logs_ ? fenced_time(*own.worker) : own.worker->now();
}

Nanos Driver::end_operation(ClientWorker& own, Slot& slot, OpKind kind, Nanos due, Nanos invoked,
                            const kv::OpResult& result) {
  const Nanos now = time_of(own);
  slot.is_busy = false;
  slot.last = result.status;
  if (own.worker->is_traced()) own.worker->mark(capital_name(kind), invoked);
  account(own, slot, kind, now, {due, invoked}, result);
  return now;
}

coro::Task<void> Driver::operate(ClientWorker* own, Slot* slot, OpKind kind, std::uint64_t record,
                                 Nanos due) {
  fabric::Worker& worker = *own->worker;
  const Nanos invoked = time_of(*own);
  begin_operation(*own, *slot, kind, record, invoked);
  const kv::OpResult result = co_await issue(*slot, kind);
  const Nanos ended = end_operation(*own, *slot, kind, due < 0 ? invoked : due, invoked, result);
  const Nanos pause = pause_after(*slot, result);
  if (pause > 0 && !worker.stopping()) co_await worker.sleep_until(ended + pause);
}

// The loop of a window slot (place for one operation). It reads the clock once for both the end of an
// operation and the beginning of the next one, unless the slot waits between them.
coro::Task<void> Driver::slot_main(ClientWorker* own, Slot* slot) {
  fabric::Worker& worker = *own->worker;
  // pauses begin at a random time; without this, window slots (places for one operation each) that pause for
  // equal times would issue operations in step
  if (load_.pause > 0) co_await worker.spin_until(worker.now() + first_pause(*own));
  Nanos now = time_of(*own);
  while (true) {
    const Turn turn = next_turn(*own, *slot, now);
    if (turn == Turn::stop) break;
    slot->is_measured = turn == Turn::measured;
    if (is_plain_) [[likely]] {
      const Action action = choose(*own);
      // choose_record() would make the same draw; this saves the call if records are drawn uniformly
      const std::uint64_t record = draws_below_ != 0 ? own->rng.below(draws_below_) : choose_record(*own);
      const OpKind kind = kind_of(action, record);
      const Nanos invoked = now;
      begin_operation(*own, *slot, kind, record, invoked);
      const kv::OpResult result = co_await issue(*slot, kind);
      now = end_operation(*own, *slot, kind, invoked, invoked, result);
      const Nanos pause = pause_after(*slot, result);
      if (pause == 0 || worker.stopping()) continue;
      co_await worker.sleep_until(now + pause);
    } else {
      const bool goes_on = co_await wait_and_operate(own, slot);
      if (!goes_on) break;
    }
    now = time_of(*own);
  }
}

// Counts an operation of bare_main() with less work than account(): no history, verification or transcript is
// needed.
[[gnu::always_inline]] inline void Driver::account_bare(ClientWorker& own, Slot& slot, OpKind kind, Nanos now,
                                                        Nanos invoked, const kv::OpResult& result) {
  if (!is_measuring_.load(std::memory_order_relaxed) || !is_in_window(own, slot, now)) [[unlikely]]
    return account(own, slot, kind, now, {invoked, invoked}, result);
  own.completed.store(own.completed.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  own.latest_ns.store(now, std::memory_order_relaxed);
  own.count_requests(kind, slot.stats);
  own.next_ended() = {
      .at = now, .latency = now - invoked, .retries = result.retries, .kind = kind, .status = result.status};
}

// A variant of slot_main() for the simplest load (is_bare_), with the fewest instructions between two
// operations.
coro::Task<void> Driver::bare_main(ClientWorker* own, Slot* slot) {
  fabric::Worker& worker = *own->worker;
  slot->key_size = records_.shape().key_size;
  Nanos now = worker.now();
  while (true) {
    const Turn turn = next_turn(*own, *slot, now);
    if (turn == Turn::stop) break;
    slot->is_measured = turn == Turn::measured;
    const Action action = choose(*own);
    const std::uint64_t record = own->rng.below(draws_below_);
    const OpKind kind = kind_of(action, record);
    if (brings_value(kind)) {
      prepare(*slot, kind, record);
    } else {
      slot->stats = {};
      slot->key_at = keys_.key(record);
    }
    slot->is_busy = true;
    const Nanos invoked = now;
    const kv::OpResult result = co_await issue(*slot, kind);
    now = worker.now();
    slot->is_busy = false;
    slot->last = result.status;
    if (worker.is_traced()) [[unlikely]]
      worker.mark(capital_name(kind), invoked);
    account_bare(*own, *slot, kind, now, invoked, result);
    const Nanos pause = pause_after(*slot, result);
    if (pause == 0 || worker.stopping()) [[likely]]
      continue;
    co_await worker.sleep_until(now + pause);
    now = worker.now();
  }
}

// Issues the next operation of a window slot (place for one operation) under a load with a rate, a think
// time, pauses, workers that take turns, a script, inserts, read-modify-writes or multi-gets; or sleeps, if
// it is not the worker's turn. Returns false if the slot has no further operation.
coro::Task<bool> Driver::wait_and_operate(ClientWorker* own, Slot* slot) {
  fabric::Worker& worker = *own->worker;
  if (load_.active.every > 0) {
    const Nanos now = worker.now(), until = rests_until(*own, now);
    if (until > now) {
      co_await worker.sleep_until(until);
      co_return true;  // the caller asks whether the load is over
    }
  }
  co_await worker.compute(load_.think);
  if (load_.pause > 0) co_await worker.spin_until(worker.now() + load_.pause);
  Nanos due = -1;
  if (load_.rate > 0) {
    due = own->due < 0 ? begin_ns_ + next_due(*own) : own->due;
    own->due = std::min(due + next_due(*own), latest_due);
    const Nanos now = worker.now();
    const Nanos end = load_.operations > 0 ? latest_due : begin_ns_ + load_.warmup + load_.duration;
    if (due > end + beyond_end) {
      co_await worker.sleep_until(end);
      co_return false;
    }
    if (due > now) co_await worker.sleep_until(due);
    if (worker.stopping()) co_return false;
  }
  if (load_.script) {
    const ScriptedOperation next = slot->script[slot->next++];
    slot->slept_until = worker.now() < next.at ? next.at : -1;
    if (slot->slept_until >= 0) co_await worker.sleep_until(next.at);
    if (worker.stopping()) co_return false;
    co_await operate(own, slot, next.kind, next.record, due);
    co_return true;
  }
  const Action action = choose(*own);
  if (action == Action::insert) {
    co_await insert(own, slot, due);
    co_return true;
  }
  if (action == Action::get && load_.multi_get > 1) {
    co_await multi_get(own, slot, due);
    co_return true;
  }
  const std::uint64_t record = choose_record(*own);
  if (action == Action::read_modify_write) {
    co_await operate(own, slot, OpKind::get, record, due);
    co_await operate(own, slot, OpKind::put, record, -1);
    co_return true;
  }
  const OpKind kind = kind_of(action, record);
  co_await operate(own, slot, kind, record, due);
  co_return true;
}

OpKind Driver::kind_of(Action action, std::uint64_t record) const {
  if (action == Action::get) [[likely]]
    return OpKind::get;
  if (record < load_.read_only) return OpKind::get;
  if (action == Action::put) return OpKind::put;
  return action == Action::remove ? OpKind::remove : OpKind::insert_if_absent;
}

coro::Task<void> Driver::insert(ClientWorker* own, Slot* slot, Nanos due) {
  const std::uint64_t record = inserts_->take();
  if (record == InsertLedger::none) {
    ++inserts_refused_;
    const std::uint64_t present = choose_record(*own);
    co_await operate(own, slot, OpKind::put, present, due);
    co_return;
  }
  co_await operate(own, slot, OpKind::put, record, due);
  inserts_->acknowledge(record);
}

// A multi-get: GETs of different records at the same time, each in a window slot (place for one operation) of
// its own. The result is no snapshot: each GET takes effect at its own instant.
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
  if (!is_in_window(*own, *slot, now)) co_return;
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

}  // namespace loch::workloads
