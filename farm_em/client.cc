// A client of FaRM-em: GETs READ buckets; PUTs are sent as published, or with request numbers.
#include "farm_em/client.h"

#include <algorithm>

#include "common/fabric/memory.h"

namespace loch::farm {

FarmClient::FarmClient(FarmStore& store, fabric::Worker& worker, WorkerState& own, Putter& putter,
                       std::uint32_t slot)
    : store_(store), settings_(store.settings()), worker_(worker), own_(own), putter_(putter) {
  LOCH_CHECK_LT(slot, settings_.config.window);
  const std::uint64_t lane = std::uint64_t{worker.index()} * settings_.config.window + slot;
  const NodeState& node = store.local(worker.node());
  landing_ = {node.landing, lane * settings_.layout.neighbourhood_bytes()};
  landing_value_ = {node.landing_values, lane * settings_.layout.value_size()};
}

cuckoo::Place FarmClient::home(kv::Key key) const {
  cuckoo::KeyHash hash = settings_.family.hash({key.data, key.size});
  return hash.candidate(0);
}

coro::Task<bool> FarmClient::read(bool is_value, std::uint32_t node, std::uint64_t offset,
                                  std::uint32_t bytes, fabric::OpStats* stats, std::uint32_t* retries) {
  constexpr std::uint32_t most_tries = 8;
  rpc::Remote& remote = is_value ? own_.values[node] : own_.index[node];
  const std::string_view name = is_value ? store_.values_name() : store_.index_name();
  for (std::uint32_t tried = 0; tried < most_tries; ++tried) {
    const fabric::LocalSlice into = is_value ? landing_value_ : landing_;
    const fabric::WorkRequest request =
        fabric::one_sided(fabric::Verb::read, remote.region, offset, into, bytes, stats);
    const fabric::Completion done = co_await own_.lists.execute(request);
    if (done.ok()) co_return true;
    ++own_.reconnects;
    ++*retries;
    const Nanos deadline = worker_.now() + settings_.patience;
    const bool is_back = co_await rpc::restore(worker_, store_.fabric(), remote, name, deadline);
    if (!is_back) break;
  }
  co_return false;
}

std::uint32_t FarmClient::find(kv::Key key) {
  for (std::uint32_t i = 0; i < neighbourhood; ++i) {
    const std::byte* bucket =
        landing_.region->at(landing_.offset + std::uint64_t{i} * settings_.layout.bucket_bytes());
    if (std::equal(key.data, key.data + key.size, bucket)) return i;
  }
  ++own_.absent_keys;
  return 0;
}

coro::Task<kv::OpResult> FarmClient::get(kv::Key key, fabric::OpStats* stats) {
  const Layout& layout = settings_.layout;
  co_await worker_.compute(worker_.costs().operation() + worker_.costs().hash(key.size));
  const cuckoo::Place place = home(key);
  kv::OpResult result;
  result.status = kv::OpStatus::error;
  const std::uint64_t at = place.slot * layout.bucket_bytes();
  const bool has_index =
      co_await read(false, place.node, at, layout.neighbourhood_bytes(), stats, &result.retries);
  if (!has_index) co_return result;
  co_await worker_.compute(worker_.costs().compare(key.size));
  const std::uint64_t bucket = landing_.offset + std::uint64_t{find(key)} * layout.bucket_bytes();
  const std::uint32_t kept = std::min(settings_.config.kept_value_bytes, layout.value_size());
  if (layout.form() == Form::inlined) {
    result.status = kv::OpStatus::ok;
    result.value = {landing_.region->at(bucket + layout.key_size()), layout.value_size(), kept};
    co_return result;
  }
  std::uint64_t pointer = 0;
  fabric::copy_from_shared(&pointer, landing_.region->at(bucket + layout.key_size()), pointer_bytes);
  pointer %= settings_.values_per_node();
  const std::uint64_t value_at = pointer * layout.value_size();
  const bool has_value =
      co_await read(true, place.node, value_at, layout.value_size(), stats, &result.retries);
  if (!has_value) co_return result;
  result.status = kv::OpStatus::ok;
  result.value = {landing_value_.data(), layout.value_size(), kept};
  co_return result;
}

coro::Task<kv::OpResult> FarmClient::put(kv::Key key, kv::ValueView value, fabric::OpStats* stats) {
  co_await worker_.compute(worker_.costs().operation() + worker_.costs().hash(key.size));
  const cuckoo::Place place = home(key);
  co_return co_await putter_.put(place.node, key, value, stats);
}

// DELETE causes the traffic of a PUT, because the emulation stores nothing that could be deleted.
coro::Task<kv::OpResult> FarmClient::remove(kv::Key key, fabric::OpStats* stats) {
  const kv::ValueView nothing{nullptr, settings_.layout.value_size(), 0};
  return put(key, nothing, stats);
}

}  // namespace loch::farm
