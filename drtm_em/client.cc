// A client of DrTM-em: GETs READ an item; PUTs and DELETEs add to or lock its state word by atomics.
#include "drtm_em/client.h"

#include <algorithm>

#include "common/coro/scope.h"
#include "common/fabric/memory.h"
#include "common/kv/back_off.h"

namespace loch::drtm {
namespace {

kv::OpResult failed(kv::OpStatus status, kv::Effect effect) {
  kv::OpResult result;
  result.status = status;
  result.effect = effect;
  return result;
}

}  // namespace

DrtmClient::DrtmClient(DrtmStore& store, fabric::Worker& worker, WorkerState& own, std::uint32_t slot)
    : store_(store), settings_(store.settings()), worker_(worker), own_(own) {
  const kv::DeployConfig& config = settings_.config;
  LOCH_CHECK_LT(slot, config.window);
  const std::uint32_t lane = worker.index() * config.window + slot;
  NodeState& node = store.local(worker.node());
  landing_ = {node.landing, std::uint64_t{lane} * settings_.item.bytes()};
  word_ = {node.words, std::uint64_t{lane} * 8};
  const std::uint64_t number =
      std::uint64_t{config.client_number(worker.node(), worker.index())} * config.window + slot;
  lock_word_ = lock_bit | (number + 1);
}

DrtmClient::Address DrtmClient::find(kv::Key key) const {
  cuckoo::KeyHash hash = settings_.family.hash({key.data, key.size});
  const cuckoo::Place place = hash.candidate(0);
  return {place.node, place.slot * settings_.item.bytes()};
}

fabric::WorkRequest DrtmClient::state_request(fabric::Verb verb, const Address& item,
                                              fabric::OpStats* stats) const {
  return fabric::one_sided(verb, own_.items[item.node].region, item.offset + settings_.item.state_at(), {}, 8,
                           stats);
}

coro::Task<bool> DrtmClient::reconnect(std::uint32_t node) {
  ++own_.counts.reconnects;
  const Nanos deadline = worker_.now() + settings_.patience;
  co_return co_await rpc::restore(worker_, store_.fabric(), own_.items[node], items_region, deadline);
}

coro::Task<kv::OpResult> DrtmClient::get(kv::Key key, fabric::OpStats* stats) {
  co_await worker_.compute(worker_.costs().operation() + worker_.costs().hash(key.size));
  const Address item = find(key);
  const ItemLayout& layout = settings_.item;
  kv::OpResult result;
  constexpr std::uint32_t most_tries = 8;
  while (true) {
    const fabric::WorkRequest request = fabric::one_sided(fabric::Verb::read, own_.items[item.node].region,
                                                          item.offset, landing_, layout.bytes(), stats);
    const fabric::Completion done = co_await own_.lists.execute(request);
    if (done.ok()) break;
    const bool is_back = co_await reconnect(item.node);
    if (!is_back || ++result.retries == most_tries) co_return failed(kv::OpStatus::error, kv::Effect::none);
  }
  co_await worker_.compute(worker_.costs().compare(key.size));
  if (!std::equal(key.data, key.data + key.size, landing_.data())) ++own_.counts.other_keys;
  const fabric::LocalSlice value{landing_.region, landing_.offset + layout.value_at()};
  result.value = {value.data(), layout.value_size(),
                  std::min(settings_.config.kept_value_bytes, layout.value_size())};
  co_return result;
}

coro::Task<kv::OpResult> DrtmClient::put(kv::Key key, kv::ValueView /*value*/, fabric::OpStats* stats) {
  return update(key, stats);
}

coro::Task<kv::OpResult> DrtmClient::remove(kv::Key key, fabric::OpStats* stats) {
  return update(key, stats);
}

coro::Task<kv::OpResult> DrtmClient::update(kv::Key key, fabric::OpStats* stats) {
  co_await worker_.compute(worker_.costs().operation() + worker_.costs().hash(key.size));
  const Address item = find(key);
  if (settings_.atomics == Atomics::cas) co_return co_await lock_and_release(item, stats);
  co_return co_await add_twice(item, stats);
}

// A PUT or DELETE with option atomics=faa: two fetch-and-adds, one after the other or both at once. One whose
// completion failed is not repeated, because it may have been executed.
coro::Task<kv::OpResult> DrtmClient::add_twice(Address item, fabric::OpStats* stats) {
  bool is_first_done = false, is_second_done = false;
  if (settings_.adds_together) {
    coro::Scope both(worker_.run_queue());
    both.spawn(add(this, item, stats, &is_first_done));
    both.spawn(add(this, item, stats, &is_second_done));
    co_await both.join();
  } else {
    co_await add(this, item, stats, &is_first_done);
    if (is_first_done) co_await add(this, item, stats, &is_second_done);
  }
  if (is_first_done && is_second_done) co_return kv::OpResult{};
  const bool is_back = co_await reconnect(item.node);  // reconnects for the next operation
  static_cast<void>(is_back);
  co_return failed(kv::OpStatus::error, kv::Effect::unknown);
}

coro::Task<void> DrtmClient::add(DrtmClient* self, Address item, fabric::OpStats* stats, bool* is_done) {
  ++self->own_.counts.atomics_begun;
  if (self->settings_.fault == "adds-by-write") {
    *is_done = co_await self->add_by_write(item, stats);
  } else {
    fabric::WorkRequest request = self->state_request(fabric::Verb::faa, item, stats);
    request.operand = 1;
    const fabric::Completion done = co_await self->own_.lists.execute(request);
    *is_done = done.ok();
  }
  if (*is_done) ++self->own_.counts.atomics_done;
}

// Known-bad variant: adds by READ and WRITE, which loses additions that other clients make between the READ
// and the WRITE.
coro::Task<bool> DrtmClient::add_by_write(Address item, fabric::OpStats* stats) {
  const fabric::RemoteRegion region = own_.items[item.node].region;
  const std::uint64_t at = item.offset + settings_.item.state_at();
  const fabric::Completion read = co_await worker_.read(region, at, word_, 8, stats);
  if (!read.ok()) co_return false;
  fabric::store_word_release(word_.data(), fabric::load_word(word_.data()) + 1);
  const fabric::Completion written = co_await worker_.write(region, at, word_, 8, stats);
  co_return written.ok();
}

coro::Task<kv::OpResult> DrtmClient::lock_and_release(Address item, fabric::OpStats* stats) {
  std::uint32_t retries = 0;
  const Locked locked = co_await lock(item, stats, &retries);
  if (locked == Locked::error) co_return failed(kv::OpStatus::error, kv::Effect::unknown);
  if (locked == Locked::conflict) {
    kv::OpResult result = failed(kv::OpStatus::conflict, kv::Effect::none);
    result.retries = retries;
    co_return result;
  }
  const bool is_released = co_await release(item, stats);
  if (!is_released) co_return failed(kv::OpStatus::error, kv::Effect::unknown);
  kv::OpResult result;
  result.retries = retries;
  co_return result;
}

coro::Task<DrtmClient::Locked> DrtmClient::lock(Address item, fabric::OpStats* stats,
                                                std::uint32_t* retries) {
  std::uint64_t expected = 0;
  for (std::uint32_t attempt = 0; attempt < settings_.attempts; ++attempt) {
    *retries = attempt;
    fabric::WorkRequest request = state_request(fabric::Verb::cas, item, stats);
    request.compare = expected;
    request.operand = lock_word_;
    const fabric::Completion done = co_await own_.lists.execute(request);
    if (!done.ok()) co_return co_await settle_lock(item);
    if (done.result == expected) co_return Locked::held_by_me;
    ++own_.counts.lock_conflicts;
    if (settings_.fault == "steals-locks") expected = done.result;
    if (worker_.stopping()) break;
    co_await kv::back_off(&worker_, settings_.backoff_start, settings_.backoff_cap, attempt);
  }
  co_return Locked::conflict;
}

// After a CAS that completed with an error, READs the state word to learn whether this client holds the lock:
// no other client writes this client's lock word.
coro::Task<DrtmClient::Locked> DrtmClient::settle_lock(Address item) {
  const bool is_back = co_await reconnect(item.node);
  if (is_back) {
    const fabric::Completion read = co_await worker_.read(own_.items[item.node].region,
                                                          item.offset + settings_.item.state_at(), word_, 8);
    if (read.ok())
      co_return (fabric::load_word(word_.data()) == lock_word_ ? Locked::held_by_me : Locked::conflict);
  }
  ++own_.counts.locks_left;
  co_return Locked::error;
}

// Releases the lock; returns true once this client certainly does not hold it.
coro::Task<bool> DrtmClient::release(Address item, fabric::OpStats* stats) {
  constexpr int most_tries = 4;
  bool is_certain = true;  // false after a failed CAS, which may have released the lock
  for (int i = 0; i < most_tries; ++i) {
    fabric::WorkRequest request = state_request(fabric::Verb::cas, item, stats);
    request.compare = lock_word_;
    request.operand = 0;
    const fabric::Completion done = co_await own_.lists.execute(request);
    if (done.ok()) {
      if (done.result != lock_word_ && is_certain) ++own_.counts.locks_not_held;
      co_return true;
    }
    is_certain = false;
    const bool is_back = co_await reconnect(item.node);
    if (!is_back) break;
  }
  ++own_.counts.locks_left;
  co_return false;
}

}  // namespace loch::drtm
