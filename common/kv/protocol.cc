// Default implementations in Module, Store and Client for what a protocol does not offer, and the names of
// their enumerations.
#include "common/kv/protocol.h"

#include <fmt/format.h>

namespace loch::kv {

std::string_view name(Consistency consistency) {
  switch (consistency) {
    case Consistency::linearizable:
      return "linearizable";
    case Consistency::lossy_cache:
      return "lossy-cache";
    case Consistency::none:
      return "none";
  }
  return "?";
}

std::string_view name(Sizing sizing) {
  switch (sizing) {
    case Sizing::one:
      return "one size";
    case Sizing::slots:
      return "slots of the largest";
    case Sizing::own:
      return "their own size";
  }
  return "?";
}

std::string_view name(Loss loss) {
  switch (loss) {
    case Loss::client_killed:
      return "client-killed";
    case Loss::server_killed:
      return "server-killed";
    case Loss::memory_lost:
      return "memory-lost";
    case Loss::link_down:
      return "link-down";
  }
  return "?";
}

std::string_view name(Promise promise) {
  switch (promise) {
    case Promise::serves:
      return "serves";
    case Promise::after_scrub:
      return "after-scrub";
    case Promise::after_declared:
      return "after-declared";
    case Promise::after_return:
      return "after-return";
    case Promise::unavailable:
      return "unavailable";
  }
  return "?";
}

coro::Task<OpResult> Client::migrate(Key /*key*/, fabric::OpStats* /*stats*/) {
  co_return OpResult{.status = OpStatus::error, .effect = Effect::none, .retries = 0, .value = {}};
}

coro::Task<OpResult> Client::insert_if_absent(Key /*key*/, ValueView /*value*/, fabric::OpStats* /*stats*/) {
  co_return OpResult{.status = OpStatus::error, .effect = Effect::none, .retries = 0, .value = {}};
}

coro::Task<void> Store::background(fabric::Worker& /*worker*/, const bool* /*done*/) { co_return; }

coro::Task<Repair> Store::scrub(fabric::Worker& /*worker*/, std::vector<ClientId> /*dead*/) {
  co_return Repair{};
}

Result<> Store::restart_node(fabric::Fabric& /*fabric*/, fabric::NodeId node) {
  return fail(ErrorCode::unsupported,
              fmt::format("node {} stays without workers: the store cannot lay it out again", node));
}

coro::Task<Repair> Store::declare_lost(fabric::Worker& /*worker*/, std::vector<fabric::NodeId> /*lost*/) {
  co_return Repair{};
}

}  // namespace loch::kv
