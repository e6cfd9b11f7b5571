// The steps of GET, PUT and DELETE.
#include "newstore/client.h"

#include "common/fabric/memory.h"
#include "common/kv/value.h"

namespace loch::newstore {
namespace {

kv::OpResult failed(kv::Effect effect) { return {kv::OpStatus::error, effect, 0, {}}; }

}  // namespace

Client::Client(fabric::Worker& worker, Shared& shared, std::uint32_t slot)
    : worker_(worker),
      shared_(shared),
      settings_(shared.settings),
      buffer_(shared.buffers.at(worker.node())),
      at_((std::uint64_t{worker.index()} * settings_.config.window + slot) * 2 * settings_.slot_bytes()),
      value_(settings_.config.kept_value_bytes) {}

// GET: READs the lock before and after the value; if the lock is free and unchanged, the value did not change
// in between.
coro::Task<kv::OpResult> Client::get(kv::Key key, fabric::OpStats* stats) {
  const fabric::CpuCosts& costs = worker_.costs();
  co_await worker_.compute(costs.operation() + costs.hash(key.size));
  const Slot slot = find(key);
  const auto rest = static_cast<std::uint32_t>(settings_.slot_bytes() - state_at);
  for (std::uint32_t attempt = 0; attempt < settings_.attempts; ++attempt) {
    const fabric::Completion first = co_await worker_.read(*slot.region, slot.offset, buffer(0), 8, stats);
    if (!first.ok()) co_return failed(kv::Effect::none);
    const std::uint64_t before = word(0);
    const fabric::Completion body =
        co_await worker_.read(*slot.region, slot.offset + state_at, buffer(state_at), rest, stats);
    if (!body.ok()) co_return failed(kv::Effect::none);
    const fabric::Completion last = co_await worker_.read(*slot.region, slot.offset, buffer(0), 8, stats);
    if (!last.ok()) co_return failed(kv::Effect::none);
    if (settings_.has_lock && (before % 2 == 1 || word(0) != before)) continue;
    co_await worker_.compute(costs.copy(settings_.config.value_size));
    co_return found(attempt);
  }
  co_return kv::OpResult{kv::OpStatus::conflict, kv::Effect::none, settings_.attempts, {}};
}

coro::Task<Client::Lock> Client::take(Slot slot, fabric::OpStats* stats) {
  Lock lock;
  for (std::uint32_t attempt = 0; attempt < settings_.attempts; ++attempt) {
    lock.result.retries = attempt;
    const fabric::Completion seen = co_await worker_.read(*slot.region, slot.offset, buffer(0), 8, stats);
    if (!seen.ok()) {
      lock.result = failed(kv::Effect::none);
      co_return lock;
    }
    lock.free = word(0);
    if (!settings_.has_lock) co_return lock;
    if (lock.free % 2 == 1) continue;
    const fabric::Completion taken =
        co_await worker_.cas(*slot.region, slot.offset, lock.free, lock.free + 1, stats);
    if (!taken.ok()) {
      // The failed CAS may have taken the lock, which is then never released; the value is unchanged.
      lock.result = failed(kv::Effect::none);
      co_return lock;
    }
    if (taken.result == lock.free) co_return lock;
  }
  lock.result = {kv::OpStatus::conflict, kv::Effect::none, settings_.attempts, {}};
  co_return lock;
}

coro::Task<kv::OpResult> Client::change(kv::Key key, kv::ValueView value, bool is_put,
                                        fabric::OpStats* stats) {
  const fabric::CpuCosts& costs = worker_.costs();
  co_await worker_.compute(costs.operation() + costs.hash(key.size) + costs.copy(value.size));
  const Slot slot = find(key);
  const Lock lock = co_await take(slot, stats);
  if (lock.result.status != kv::OpStatus::ok) co_return lock.result;
  const fabric::Completion old =
      co_await worker_.read(*slot.region, slot.offset + state_at, buffer(state_at), 8, stats);
  // After a failed request the lock is never released: a failed WRITE may still take effect, and until then
  // no client may use the value.
  if (!old.ok()) co_return failed(kv::Effect::none);
  const bool was_there = word(state_at) == 1;
  const std::uint64_t out = settings_.slot_bytes();
  fabric::store_word_release(buffer_->at(at_ + out + state_at), is_put ? 1 : 0);
  if (is_put) fabric::copy_to_shared(buffer_->at(at_ + out + value_at), value.data, value.kept);
  const auto length = static_cast<std::uint32_t>(is_put ? settings_.slot_bytes() - state_at : 8);
  const fabric::Completion written =
      co_await worker_.write(*slot.region, slot.offset + state_at, buffer(out + state_at), length, stats);
  if (!written.ok()) co_return failed(kv::Effect::unknown);
  if (settings_.has_lock) {
    const fabric::Completion freed =
        co_await worker_.cas(*slot.region, slot.offset, lock.free + 1, lock.free + 2, stats);
    if (!freed.ok()) co_return failed(kv::Effect::unknown);
  }
  kv::OpResult result = lock.result;
  if (!is_put && !was_there) result.status = kv::OpStatus::not_found;
  co_return result;
}

Client::Slot Client::find(kv::Key key) const {
  const auto found = shared_.record_of.find(kv::key_digest(key));
  LOCH_CHECK(found != shared_.record_of.end(), "a key that is not of the run's records");
  const std::uint64_t nodes = settings_.config.serving_nodes();
  return {&shared_.slots[found->second % nodes], found->second / nodes * settings_.slot_bytes()};
}

kv::OpResult Client::found(std::uint32_t retries) {
  if (word(state_at) != 1) return {kv::OpStatus::not_found, kv::Effect::none, retries, {}};
  fabric::copy_from_shared(value_.data(), buffer_->at(at_ + value_at), value_.size());
  const kv::ValueView value{value_.data(), settings_.config.value_size, settings_.config.kept_value_bytes};
  return {kv::OpStatus::ok, kv::Effect::none, retries, value};
}

std::uint64_t Client::word(std::uint64_t within) const {
  return fabric::load_word(buffer_->at(at_ + within));
}

}  // namespace loch::newstore
