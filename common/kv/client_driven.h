// A store whose nodes' CPUs take no part in operations: its clients execute every operation.
#pragma once

#include "common/kv/protocol.h"

namespace loch::kv {

class ClientDrivenStore : public Store {
 public:
  // Never called: check_client_driven() (checks.h) refuses server workers.
  [[nodiscard]] coro::Task<void> serve(fabric::Worker& /*worker*/, std::uint32_t /*index*/) final {
    co_return;
  }
};

}  // namespace loch::kv
