// Pilaf-em-OPT, HERD's emulation of Pilaf (HERD 2014, section 5.1). A GET is on average 1.6 READs of 32-byte
// buckets and then one READ of a value, one after the other. A PUT is a message with key and value and a
// short reply, both inlined and unsignaled on an unreliable transport. The messages have real sizes, but no
// table is behind them and values are meaningless.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "pilaf_em/client.h"

namespace loch::pilaf {
namespace {
constexpr std::uint32_t emulated_bucket_bytes = 32;
}  // namespace

coro::Task<kv::OpResult> PilafClient::emulated_get(kv::Key key, fabric::OpStats* stats) {
  const fabric::CpuCosts& costs = worker_.costs();
  co_await worker_.compute(costs.operation() + costs.hash(key.size));
  Link& link = own_.links[settings_.shard_of(key)];
  search_ = {.key = key, .link = &link, .stats = stats};
  const double whole = std::floor(settings_.emulated_reads);
  const bool has_more = worker_.rng().chance(settings_.emulated_reads - whole);
  const std::uint32_t reads = static_cast<std::uint32_t>(whole) + (has_more ? 1 : 0);
  const kv::OpResult failed{.status = kv::OpStatus::error};
  const fabric::LocalSlice bucket = landing(settings_.landing_bucket());
  const std::uint64_t buckets = link.table.bytes / emulated_bucket_bytes;
  for (std::uint32_t i = 0; i < reads; ++i) {
    const std::uint64_t at = worker_.rng().below(buckets) * emulated_bucket_bytes;
    if (stats != nullptr) ++stats->index_read;
    const fabric::Completion done =
        co_await worker_.read(link.table, at, bucket, emulated_bucket_bytes, stats);
    if (done.ok()) continue;
    const bool is_back = co_await reconnect();
    if (!is_back) co_return failed;
  }
  const std::uint64_t blocks = settings_.extents_most / settings_.block;
  const std::uint64_t at = worker_.rng().below(blocks) * settings_.block;
  const std::uint32_t size = settings_.config.value_size;
  const fabric::LocalSlice value = landing(0);
  const fabric::Completion done = co_await worker_.read(link.extents, at, value, size, stats);
  if (!done.ok()) {
    const bool is_back = co_await reconnect();
    static_cast<void>(is_back);
    co_return failed;
  }
  co_return kv::OpResult{.value = {value.data(), size, settings_.kept()}};
}

coro::Task<kv::OpResult> PilafClient::emulated_put(kv::Key key, kv::ValueView value, fabric::OpStats* stats) {
  const fabric::CpuCosts& costs = worker_.costs();
  const std::uint32_t length = key.size + value.size;
  co_await worker_.compute(costs.operation() + costs.hash(key.size) + costs.copy(length));
  std::byte* const out = own_.channel->request(slot_);
  std::memcpy(out, key.data, key.size);
  if (value.kept != 0) std::memcpy(out + key.size, value.data, value.kept);
  co_return co_await change(MessageOp::emulated_put, settings_.shard_of(key), length, stats);
}

}  // namespace loch::pilaf
