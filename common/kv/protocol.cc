#include "common/kv/protocol.h"

namespace loch::kv {

std::string_view name(OpStatus status) {
  switch (status) {
    case OpStatus::ok:
      return "ok";
    case OpStatus::not_found:
      return "not_found";
    case OpStatus::conflict:
      return "conflict";
    case OpStatus::timeout:
      return "timeout";
    case OpStatus::table_full:
      return "table_full";
    case OpStatus::error:
      return "error";
  }
  return "?";
}

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

coro::Task<void> Store::background(fabric::Worker& /*worker*/, const bool* /*done*/) { co_return; }

coro::Task<std::map<std::string, std::uint64_t>> Store::scrub(fabric::Worker& /*worker*/,
                                                              std::vector<fabric::NodeId> /*dead*/) {
  co_return std::map<std::string, std::uint64_t>{};
}

}  // namespace loch::kv
