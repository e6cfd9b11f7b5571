// Turns each operation of the load into a request for a sequence number, and checks the numbers.
#include "sequencer/number_store.h"

#include <fmt/format.h>

namespace loch::sequencer {

coro::Task<kv::OpResult> NumberClient::get(kv::Key /*key*/, fabric::OpStats* stats) { return next(stats); }

coro::Task<kv::OpResult> NumberClient::put(kv::Key /*key*/, kv::ValueView /*value*/, fabric::OpStats* stats) {
  return next(stats);
}

coro::Task<kv::OpResult> NumberClient::remove(kv::Key /*key*/, fabric::OpStats* stats) { return next(stats); }

coro::Task<kv::OpResult> NumberClient::next(fabric::OpStats* stats) {
  const std::uint64_t asked_at = ledger_.beyond();
  co_await worker_.compute(worker_.costs().operation());
  const Drawn drawn = co_await draw(stats);
  kv::OpResult result;
  result.status = drawn.status;
  result.retries = drawn.retries;
  if (drawn.status != kv::OpStatus::ok) {
    result.effect = kv::Effect::unknown;  // the sequencer may have given out a number for this request
    co_return result;
  }
  ledger_.give(drawn.number, asked_at, claimed());
  value_ = drawn.number;
  result.value = {reinterpret_cast<const std::byte*>(&value_), number_bytes, number_bytes};
  co_return result;
}

Result<> NumberStore::preload(fabric::Fabric& /*fabric*/, const kv::Dataset& /*data*/) { return {}; }

void NumberStore::add(std::map<std::string, double>& counters, const RetryCounts& counts) {
  counters["retries"] += static_cast<double>(counts.retries);
  counters["timeouts"] += static_cast<double>(counts.timeouts);
  counters["late_replies"] += static_cast<double>(counts.late_replies);
  counters["duplicate_requests"] += static_cast<double>(counts.duplicate_requests);
  counters["server_requests"] += static_cast<double>(counts.requests);
  counters["server_batches"] += static_cast<double>(counts.batches);
}

void NumberStore::add(std::map<std::string, double>& counters, const rpc::PostingCounts& counts) {
  counters["posted_requests"] += static_cast<double>(counts.requests);
  counters["posting_lists"] += static_cast<double>(counts.lists);
  counters["signaled_requests"] += static_cast<double>(counts.signaled);
}

std::map<std::string, double> NumberStore::counters() const {
  std::map<std::string, double> all;
  add_counters(all);
  ledger_.report(all);
  double& violations = all[std::string(kv::violations_counter)];
  violations += all["numbers_twice"] + all["numbers_unclaimed"];
  if (numbers_are_ordered_) violations += all["numbers_out_of_order"];
  return all;
}

Result<> check_shape(std::string_view name, const kv::DeployConfig& config, bool needs_servers) {
  const auto refuse = [](std::string message) {
    return fail(ErrorCode::invalid_argument, std::move(message));
  };
  if (config.nodes == 0 || config.client_workers == 0 || config.window == 0)
    return refuse(fmt::format("clients: {} needs at least 1 client worker and a window of at least 1", name));
  if (needs_servers && config.server_workers == 0)
    return refuse(fmt::format("servers: {} needs at least 1 server worker", name));
  return {};
}

}  // namespace loch::sequencer
