// A client's request, and how its reply becomes the operation's result.
#include "newstore/client.h"

#include "common/fabric/memory.h"
#include "common/kv/value.h"

namespace loch::newstore {

rpc::ServerId owner_of(kv::Key key, const kv::DeployConfig& config) {
  const std::uint64_t servers = std::uint64_t{config.serving_nodes()} * config.server_workers;
  const auto owner = static_cast<std::uint32_t>(kv::key_digest(key) % servers);
  return {static_cast<fabric::NodeId>(owner / config.server_workers), owner % config.server_workers};
}

coro::Task<kv::OpResult> Client::ask(Ask what, kv::Key key, kv::ValueView value, fabric::OpStats* stats) {
  const fabric::CpuCosts& costs = worker_.costs();
  co_await worker_.compute(costs.operation() + costs.hash(key.size));
  const rpc::ServerId server = owner_of(key, config_);
  const bool is_free = co_await caller_.prepare(server);
  if (!is_free) co_return kv::OpResult{kv::OpStatus::error, kv::Effect::none, 0, {}};
  const auto code = static_cast<std::uint8_t>(what);
  const fabric::LocalSlice frame = caller_.body(server, code);
  const std::uint64_t key_at = frame.offset + messages_.key_at(messages_.request(what));
  fabric::copy_to_shared(frame.region->at(key_at), key.data, key.size);
  if (what == Ask::put) {
    fabric::copy_to_shared(frame.region->at(frame.offset), value.data, value.kept);
    co_await worker_.compute(costs.copy(value.size));
  }
  const rpc::WriteReply reply = co_await caller_.call(server, code, stats);
  co_return result_of(what, reply);
}

kv::OpResult Client::result_of(Ask what, const rpc::WriteReply& reply) const {
  kv::OpResult result;
  result.retries = reply.attempts;
  if (reply.outcome == rpc::WriteReply::Outcome::unsent) {
    result.status = kv::OpStatus::error;
  } else if (reply.outcome != rpc::WriteReply::Outcome::answered) {
    // The operation's effect is unknown: the server may have executed it, or may still do so.
    result.status = kv::OpStatus::timeout;
    result.effect = what == Ask::get ? kv::Effect::none : kv::Effect::unknown;
  } else if (reply.code == static_cast<std::uint8_t>(Say::not_found)) {
    result.status = kv::OpStatus::not_found;
  } else if (reply.code == static_cast<std::uint8_t>(Say::value)) {
    result.value = {reply.frame, config_.value_size, messages_.kept};
  }
  return result;
}

}  // namespace loch::newstore
