// A deployment of newstore: one slot for each record, on node record % nodes, so that clients compute its
// position.
//
//   slot  0       8       16
//         | lock  | state | value …     (a multiple of 8 bytes)
//
//   lock   even: free; odd: held by a PUT or DELETE. Locking and unlocking add 1 each
//   state  0 absent, 1 present
#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "common/kv/protocol.h"

namespace loch::newstore {

constexpr std::uint64_t state_at = 8, value_at = 16;

struct Settings {
  kv::DeployConfig config;
  std::uint32_t attempts = 0;  // attempts of one operation to take the lock or to READ an unlocked value
  bool has_lock = true;        // false only in the known-bad variant without locks

  [[nodiscard]] std::uint64_t slot_bytes() const { return value_at + (config.value_size + 7) / 8 * 8; }
  // Lets a simulation of much data keep only the beginning of each value in memory.
  [[nodiscard]] fabric::Elision elision() const {
    const std::uint64_t kept = value_at + (config.kept_value_bytes + 7) / 8 * 8;
    if (kept >= slot_bytes()) return {};
    return {.entry_bytes = slot_bytes(), .keep_head = static_cast<std::uint32_t>(kept), .keep_tail = 0};
  }
};

// State shared by the clients of this process.
struct Shared {
  Settings settings;
  std::unordered_map<std::uint64_t, std::uint64_t> record_of;  // key digest -> record
  // by node, the clients' buffers: two slots for each client
  std::map<fabric::NodeId, fabric::Region*> buffers;
  std::vector<fabric::RemoteRegion> slots;  // the servers' tables, indexed by node
};

class Store final : public kv::Store {
 public:
  explicit Store(const Settings& settings) { shared_.settings = settings; }

  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) override;
  [[nodiscard]] Result<> connect(fabric::Fabric& fabric) override;
  [[nodiscard]] Result<> preload(fabric::Fabric& fabric, const kv::Dataset& data) override;
  [[nodiscard]] coro::Task<void> serve(fabric::Worker& /*worker*/, std::uint32_t /*index*/) override {
    co_return;
  }
  [[nodiscard]] std::unique_ptr<kv::Client> client(fabric::Worker& worker, std::uint32_t slot) override;
  [[nodiscard]] bool needs(kv::Key key, fabric::NodeId node,
                           std::optional<std::uint32_t> server) const override;

 private:
  Shared shared_;
};

}  // namespace loch::newstore
