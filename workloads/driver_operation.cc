// One operation of a slot: its key and value, what a history says of it, and what it counts for.
#include <algorithm>

#include "common/kv/value.h"
#include "workloads/driver_client.h"

namespace loch::workloads {

coro::Task<void> Driver::operate(ClientWorker* own, Slot* slot, OpKind kind, std::uint64_t record,
                                 Nanos due) {
  fabric::Worker& worker = *own->worker;
  const Nanos invoked = worker.now();
  begin_operation(*own, *slot, kind, record, invoked);
  const kv::OpResult result = co_await issue(*slot, kind);
  const Nanos ended = end_operation(*own, *slot, kind, due < 0 ? invoked : due, invoked, result);
  const Nanos pause = pause_after(*slot, result);
  if (pause > 0 && !worker.stopping()) co_await worker.sleep_until(ended + pause);
}

void Driver::begin_operation(ClientWorker& own, Slot& slot, OpKind kind, std::uint64_t record,
                             Nanos invoked) {
  if (load_.transcript != nullptr) transcribe(own, slot, kind, record);
  prepare(slot, kind, record);
  if (slot.log != nullptr && kind != OpKind::get) {
    slot.log->invoked(kind, slot.key_text,
                      kind == OpKind::put ? std::optional<std::string_view>(slot.value_text) : std::nullopt,
                      earliest(invoked));
  }
  slot.is_busy = true;
}

// The store's own coroutine, which the caller awaits: one of the driver's between the two would cost each
// operation a frame and two switches.
coro::Task<kv::OpResult> Driver::issue(Slot& slot, OpKind kind) const {
  const kv::Key key{slot.key_at, slot.key_size};
  if (kind == OpKind::get) return slot.client->get(key, &slot.stats);
  if (kind == OpKind::remove) return slot.client->remove(key, &slot.stats);
  const kv::ValueView value{slot.value.data(), slot.stamp.length,
                            std::min(slot.stamp.length, deploy_.kept_value_bytes)};
  return slot.client->put(key, value, &slot.stats);
}

Nanos Driver::end_operation(ClientWorker& own, Slot& slot, OpKind kind, Nanos due, Nanos invoked,
                            const kv::OpResult& result) {
  const Nanos now = own.worker->now();
  slot.is_busy = false;
  slot.last = result.status;
  if (own.worker->is_traced()) own.worker->mark(capital_name(kind), invoked);
  account(own, slot, kind, now, {due, invoked}, result);
  return now;
}

// The digest is asked for where a value is written or judged.
void Driver::prepare(Slot& slot, OpKind kind, std::uint64_t record) {
  slot.key_size = records_.key_size(record);
  slot.stats = {};
  if (keys_.has(record)) {
    slot.key_at = keys_.key(record);
    slot.stamp.key_digest = keys_.digest(record);
  } else {
    records_.key(record, slot.key.data());
    slot.key_at = slot.key.data();
    if (kind == OpKind::put || judges_values_)
      slot.stamp.key_digest = kv::key_digest({slot.key_at, slot.key_size});
  }
  if (kind == OpKind::put) {
    slot.stamp.writer = slot.number;
    slot.stamp.sequence = ++slot.sequence;
    slot.stamp.length = slot.value_bytes > 0
                            ? slot.value_bytes
                            : records_.version_size(slot.stamp.key_digest, slot.number, slot.sequence);
    kv::write_value(slot.stamp, slot.value.data(), std::min(slot.stamp.length, deploy_.kept_value_bytes));
  }
  if (slot.log == nullptr) return;
  slot.key_text = key_name({slot.key_at, slot.key_size});
  if (kind == OpKind::put) slot.value_text = kv::value_name(slot.stamp);
}

bool Driver::is_in_window(const ClientWorker& own, const Slot& slot, Nanos at) const {
  return slot.is_measured && at >= own.measured_from &&
         (load_.duration == 0 || at <= own.measured_from + load_.duration);
}

void Driver::account(ClientWorker& own, Slot& slot, OpKind kind, Nanos now, Began began,
                     const kv::OpResult& result) {
  const bool has_value = kind == OpKind::get && result.status == kv::OpStatus::ok;
  bool is_corrupt = false, is_verified = false;
  if (has_value && judges_values_ && (load_.verify || slot.log != nullptr)) [[unlikely]] {
    const kv::ValueReading reading = kv::read_value(result.value, slot.stamp.key_digest, true);
    is_corrupt = reading.verdict == kv::ValueVerdict::corrupt ||
                 !records_.is_size_right(reading, result.value.size, slot.stamp.key_digest);
    is_verified = !is_corrupt && reading.verdict != kv::ValueVerdict::unnamed;
  }
  if (slot.log != nullptr) [[unlikely]] {
    std::string read;
    if (has_value)
      read = is_corrupt ? "corrupt:" + kv::value_name(result.value) : kv::value_name(result.value);
    log(slot, kind, began.invoked, now, result,
        has_value ? std::optional<std::string_view>(read) : std::nullopt);
  }
  own.completed.store(own.completed.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  own.latest_ns.store(now, std::memory_order_relaxed);

  if (!is_in_window(own, slot, now)) {
    ++own.tally.unmeasured;
    own.tally.corrupt += is_corrupt ? 1 : 0;  // wrong values count outside the window as well
    return;
  }
  if (!is_measuring_.load(std::memory_order_relaxed) && !is_measuring_.exchange(true))
    fabric_.reset_counters();
  own.next_ended() = {.at = now,
                      .latency = now - began.due,
                      .stats = slot.stats,
                      .retries = result.retries,
                      .kind = kind,
                      .status = result.status,
                      .is_verified = is_verified,
                      .is_corrupt = is_corrupt};
  if (!has_sizes_) return;
  own.tally.sizes.key_bytes.record(slot.key_size);
  const bool is_put = kind == OpKind::put && result.status == kv::OpStatus::ok;
  if (has_value || is_put) own.tally.sizes.value_bytes.record(is_put ? slot.stamp.length : result.value.size);
}

// The earliest time that another process's clock may have shown then: a history takes an operation for as
// long as it may have been under way.
Nanos Driver::earliest(Nanos invoked) const { return std::max<Nanos>(0, invoked - fabric_.clock_error()); }

void Driver::log(Slot& slot, OpKind kind, Nanos invoked, Nanos returned, const kv::OpResult& result,
                 std::optional<std::string_view> read) {
  check::OperationView view;
  view.client = static_cast<std::int32_t>(slot.number);
  view.kind = kind;
  view.outcome = outcome_of(kind, result.status, result.effect);
  view.key = slot.key_text;
  if (kind == OpKind::put)
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

}  // namespace loch::workloads
