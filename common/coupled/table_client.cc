// Sends a client's requests to the server worker that owns the key, and converts replies to results.
#include "common/coupled/table_client.h"

#include <algorithm>

#include "common/base/probe.h"
#include "common/fabric/memory.h"
#include "common/kv/back_off.h"

namespace loch::coupled {

TableClient::TableClient(Tables& tables, fabric::Worker& worker, std::uint32_t lane)
    : settings_(tables.settings()),
      worker_(worker),
      caller_(tables.channel(), worker, lane),
      counts_(*tables.local(worker.node()).clients[lane]),
      before_(counts_) {}

rpc::ServerId TableClient::server_of(kv::Key key) {
  cuckoo::KeyHash hash = settings_.family.hash({key.data, key.size});
  const std::uint32_t row = hash.candidate(0).node;
  const std::uint32_t servers = settings_.servers(), node = row / servers;
  rpc::ServerId server{static_cast<fabric::NodeId>(node), row - node * servers};
  if (settings_.rules.serves_any_row)
    server.index = static_cast<std::uint32_t>(worker_.rng().below(settings_.servers()));
  return server;
}

coro::Task<kv::OpResult> TableClient::ask(Ask what, kv::Key key, kv::ValueView value,
                                          fabric::OpStats* stats) {
  const fabric::CpuCosts& costs = worker_.costs();
  co_await worker_.compute(costs.operation() + costs.hash(key.size));
  const rpc::ServerId server = server_of(key);
  kv::OpResult result;
  std::uint32_t retries = 0;
  for (std::uint32_t attempt = 0;; ++attempt) {
    if (!caller_.is_prepared(server)) [[unlikely]] {
      const bool is_free = co_await caller_.prepare(server);
      if (!is_free) {
        result = {.status = kv::OpStatus::error, .effect = kv::Effect::none, .retries = 0, .value = {}};
        break;
      }
    }
    lay_out(what, server, key, value);
    if (brings_value(what)) co_await worker_.compute(costs.copy(value.size));
    // Does what call() does, but without a coroutine of its own, because every operation takes this path.
    const rpc::WriteCaller::Tried tried =
        co_await caller_.try_call(server, static_cast<std::uint8_t>(what), stats);
    rpc::WriteReply reply;
    if (tried.reply) [[likely]] {
      reply = *tried.reply;
    } else {
      const rpc::WriteReply settled = co_await caller_.settle(server, tried, stats);
      reply = settled;
    }
    retries += reply.attempts;
    result = result_of(what, reply);
    const bool is_busy = reply.outcome == rpc::WriteReply::Outcome::answered &&
                         reply.code == static_cast<std::uint8_t>(Say::busy);
    if (!is_busy || attempt + 1 >= settings_.attempts || worker_.stopping()) break;
    LOCH_PROBE("coupled.readers.asked-again");
    ++counts_.busy;
    ++retries;
    co_await kv::back_off(&worker_, settings_.backoff_start, settings_.backoff_cap, attempt);
  }
  count();
  result.retries = retries;
  co_return result;
}

void TableClient::lay_out(Ask what, rpc::ServerId server, kv::Key key, kv::ValueView value) {
  const auto code = static_cast<std::uint8_t>(what);
  const std::uint32_t bytes = settings_.channel.request_bytes[code];
  const fabric::LocalSlice frame = caller_.body(server, code);
  const auto at = [&](std::uint32_t within) { return frame.region->at(frame.offset + within); };
  fabric::copy_to_shared(at(settings_.frames.key_at(bytes)), key.data, key.size);
  if (!brings_value(what)) return;
  fabric::store_word_release(at(settings_.frames.length_at()), value.size);
  const std::uint64_t kept =
      std::min<std::uint64_t>(value.kept, frame.region->kept(frame.offset, value.size));
  fabric::copy_to_shared(at(0), value.data, kept);
}

kv::OpResult TableClient::result_of(Ask what, const rpc::WriteReply& reply) const {
  const bool changes = what != Ask::get;
  kv::OpResult result;
  switch (reply.outcome) {
    case rpc::WriteReply::Outcome::answered:
      break;
    case rpc::WriteReply::Outcome::unsent:
      result.status = kv::OpStatus::error;
      return result;
    case rpc::WriteReply::Outcome::timed_out:
    case rpc::WriteReply::Outcome::stopping:
      // The server may have executed the request, or may yet execute it from its request slot.
      result.status = kv::OpStatus::timeout;
      result.effect = changes && !settings_.rules.timeouts_are_none ? kv::Effect::unknown : kv::Effect::none;
      return result;
  }
  switch (static_cast<Say>(reply.code)) {
    case Say::value:
      result.value = {reply.frame, settings_.config.value_size, settings_.kept_value()};
      break;
    case Say::done:
      break;
    case Say::not_found:
      result.status = kv::OpStatus::not_found;
      break;
    case Say::exists:
      result.status = kv::OpStatus::exists;
      break;
    case Say::table_full:
    case Say::busy:
      result.status = kv::OpStatus::table_full;
      break;
    case Say::unknown:
      result.status = kv::OpStatus::timeout;
      result.effect = kv::Effect::unknown;
      break;
    case Say::refused:
    case Say::lost:
      result.status = kv::OpStatus::error;
      break;
  }
  return result;
}

void TableClient::count() {
  const rpc::WriteCaller::Counts& c = caller_.counts();
  counts_.retries = before_.retries + c.retries;
  counts_.reconnects = before_.reconnects + c.reconnects;
  counts_.unsent = before_.unsent + c.unsent;
  counts_.timeouts = before_.timeouts + c.timeouts;
  counts_.late_frames = before_.late_frames + c.late_frames;
}

}  // namespace loch::coupled
