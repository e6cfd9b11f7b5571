// Executes a client's operations by messages: PUT, DELETE and INSERT, and in Pilaf-VO also GET. A request
// without a reply is sent again.
#include "pilaf_em/client.h"

#include <algorithm>
#include <cstring>

namespace loch::pilaf {

PilafClient::PilafClient(PilafStore& store, fabric::Worker& worker, std::uint32_t slot)
    : store_(store),
      settings_(store.settings()),
      worker_(worker),
      node_(store.local(worker.node())),
      own_(*node_.workers.at(worker.index())),
      slot_(slot),
      landing_((std::uint64_t{worker.index()} * settings_.config.window + slot) *
               settings_.landing_stride()) {
  if (own_.channel == nullptr)
    own_.channel = std::make_unique<rpc::MessageClient>(settings_.messages, node_.messages, worker);
}

coro::Task<kv::OpResult> PilafClient::get(kv::Key key, fabric::OpStats* stats) {
  switch (settings_.system) {
    case System::pilaf:
      return get_by_reads(key, stats);
    case System::pilaf_vo:
      return get_by_message(key, stats);
    case System::em_opt:
      break;
  }
  return emulated_get(key, stats);
}

void PilafClient::write_key(std::byte* out, kv::Key key) const {
  const std::uint64_t length = key.size;
  std::memcpy(out, &length, sizeof length);
}

coro::Task<kv::OpResult> PilafClient::put(kv::Key key, kv::ValueView value, fabric::OpStats* stats) {
  if (settings_.system == System::em_opt) co_return co_await emulated_put(key, value, stats);
  co_return co_await store(MessageOp::put, key, value, stats);
}

coro::Task<kv::OpResult> PilafClient::insert_if_absent(kv::Key key, kv::ValueView value,
                                                       fabric::OpStats* stats) {
  if (!settings_.rules.inserts_in_two_steps)
    co_return co_await store(MessageOp::insert_if_absent, key, value, stats);
  const kv::OpResult seen = co_await get(key, stats);
  if (seen.status == kv::OpStatus::ok) co_return kv::OpResult{.status = kv::OpStatus::exists};
  if (seen.status != kv::OpStatus::not_found) co_return seen;
  co_return co_await store(MessageOp::put, key, value, stats);
}

// Sends a PUT or INSERT as a message (Pilaf 3.1). The client computes the checksum of the extent (key and
// value), and the server only the bucket's.
coro::Task<kv::OpResult> PilafClient::store(MessageOp op, kv::Key key, kv::ValueView value,
                                            fabric::OpStats* stats) {
  const fabric::CpuCosts& costs = worker_.costs();
  const std::uint64_t length = std::uint64_t{key.size} + value.size;
  co_await worker_.compute(costs.operation() + costs.hash(key.size) + costs.crc(length) + costs.copy(length));
  const std::uint64_t value_length = value.size;
  const std::uint64_t crc = crc_of({key.data, key.size}, value);
  std::byte* const out = own_.channel->request(slot_);
  write_key(out, key);
  std::memcpy(out + 8, &value_length, sizeof value_length);
  std::memcpy(out + 16, &crc, sizeof crc);
  std::memcpy(out + put_head, key.data, key.size);
  if (value.kept != 0) std::memcpy(out + put_head + key.size, value.data, value.kept);
  const std::uint32_t shard = settings_.shard_of(key);
  const auto bytes = static_cast<std::uint32_t>(put_head + length);
  co_return co_await change(op, shard, bytes, stats);
}

coro::Task<kv::OpResult> PilafClient::remove(kv::Key key, fabric::OpStats* stats) {
  const fabric::CpuCosts& costs = worker_.costs();
  co_await worker_.compute(costs.operation() + costs.hash(key.size));
  if (settings_.system == System::em_opt) co_return kv::OpResult{.status = kv::OpStatus::not_found};
  std::byte* const out = own_.channel->request(slot_);
  write_key(out, key);
  std::memcpy(out + key_head, key.data, key.size);
  const std::uint32_t shard = settings_.shard_of(key);
  co_return co_await change(MessageOp::remove, shard, key_head + key.size, stats);
}

kv::OpResult PilafClient::unanswered(const rpc::Reply& reply) const {
  const bool was_sent = reply.outcome == rpc::Reply::Outcome::no_answer;
  return {.status = was_sent ? kv::OpStatus::timeout : kv::OpStatus::error,
          .effect = was_sent && !settings_.rules.timeouts_are_none ? kv::Effect::unknown : kv::Effect::none,
          .retries = reply.retries,
          .value = {}};
}

coro::Task<kv::OpResult> PilafClient::change(MessageOp op, std::uint32_t shard, std::uint32_t length,
                                             fabric::OpStats* stats) {
  const rpc::ServerAddress to = address(shard);
  const rpc::Reply reply =
      co_await own_.channel->call(slot_, to, static_cast<std::uint8_t>(op), length, stats);
  if (!reply.ok()) co_return unanswered(reply);
  kv::OpResult result{.retries = reply.retries};
  std::uint32_t status = 0, epoch = 0;
  if (reply.length != reply_head)
    co_return kv::OpResult{.status = kv::OpStatus::error, .effect = kv::Effect::unknown};
  std::memcpy(&status, reply.data, sizeof status);
  std::memcpy(&epoch, reply.data + 4, sizeof epoch);
  // If the reply's epoch is not that of the root (the table's descriptor) that this worker has READ, the
  // table has grown since, and the next GET READs the root again.
  View& view = own_.links[shard].view;
  if (view.family && epoch != view.root.epoch && settings_.rules.follows_epoch) view.family.reset();
  switch (static_cast<ReplyStatus>(status)) {
    case ReplyStatus::ok:
      break;
    case ReplyStatus::not_found:
      result.status = kv::OpStatus::not_found;
      break;
    case ReplyStatus::exists:
      result.status = kv::OpStatus::exists;
      break;
    case ReplyStatus::table_full:
      result.status = kv::OpStatus::table_full;
      break;
    case ReplyStatus::lost:  // the server's node restarted without its memory and was not declared lost yet
      result.status = kv::OpStatus::error;
      break;
    case ReplyStatus::not_logged:  // the change is invisible, but a restart may replay it from the log
      result.status = kv::OpStatus::error;
      result.effect = kv::Effect::unknown;
      break;
    case ReplyStatus::log_closed:
      result.status = kv::OpStatus::error;
      result.effect = kv::Effect::none;
      break;
  }
  co_return result;
}

// Executes a GET of Pilaf-VO by messages: a request to the key's server, whose reply has the value.
coro::Task<kv::OpResult> PilafClient::get_by_message(kv::Key key, fabric::OpStats* stats) {
  const fabric::CpuCosts& costs = worker_.costs();
  co_await worker_.compute(costs.operation() + costs.hash(key.size));
  std::byte* const out = own_.channel->request(slot_);
  write_key(out, key);
  std::memcpy(out + key_head, key.data, key.size);
  const rpc::ServerAddress to = address(settings_.shard_of(key));
  const auto op = static_cast<std::uint8_t>(MessageOp::get);
  const rpc::Reply reply = co_await own_.channel->call(slot_, to, op, key_head + key.size, stats);
  if (!reply.ok() || reply.length < reply_head) {
    kv::OpResult result = unanswered(reply);
    result.effect = kv::Effect::none;
    co_return result;
  }
  std::uint32_t status = 0, length = 0;
  std::memcpy(&status, reply.data, sizeof status);
  if (static_cast<ReplyStatus>(status) == ReplyStatus::lost)
    co_return kv::OpResult{.status = kv::OpStatus::error, .retries = reply.retries};
  if (static_cast<ReplyStatus>(status) != ReplyStatus::ok)
    co_return kv::OpResult{.status = kv::OpStatus::not_found, .retries = reply.retries};
  std::memcpy(&length, reply.data + 4, sizeof length);
  const std::uint32_t kept = std::min(length, settings_.kept());
  co_return kv::OpResult{.retries = reply.retries, .value = {reply.data + reply_head, length, kept}};
}

std::unique_ptr<kv::Client> make_client(PilafStore& store, fabric::Worker& worker, std::uint32_t slot) {
  return std::make_unique<PilafClient>(store, worker, slot);
}

}  // namespace loch::pilaf
