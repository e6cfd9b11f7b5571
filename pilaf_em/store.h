// A deployed Pilaf: the regions of the local nodes, their servers' shards, and the way to every shard.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/kv/protocol.h"
#include "common/rpc/message_channel.h"
#include "pilaf_em/log.h"
#include "pilaf_em/shard.h"

namespace loch::pilaf {

// pilaf.table.S, pilaf.extents.S: what clients READ of server S of a node; pilaf.landing: where it lands.
[[nodiscard]] std::string table_region(std::uint32_t server);
[[nodiscard]] std::string extents_region(std::uint32_t server);
constexpr std::string_view landing_region = "pilaf.landing";
// A word for each server, then one for each client worker: what it writes into others'.
constexpr std::string_view membership_region = "pilaf.membership";

// The state of a server, as its membership word says.
enum class Member : std::uint64_t {
  none = 0,      // zeroed memory
  declared = 1,  // the node was declared lost: the shard is laid out empty
  serves = 2,
};

// A client worker's copy of a shard's root, as last READ.
struct View {
  Root root;
  std::optional<cuckoo::HashFamily> family;  // none: the root was never READ
};

// A shard as one client worker reaches it.
struct Link {
  fabric::NodeId node = 0;
  std::uint16_t server = 0;
  fabric::RemoteRegion table, extents;
  std::uint32_t epoch = 0;  // of the connection under which the regions were looked up
  View view;
};

struct ClientCounters {
  std::uint64_t bad_guards = 0, bad_extents = 0, closed_buckets = 0, foreign_extents = 0, roots_read = 0,
                misses_confirmed = 0, misses_refuted = 0, reconnects = 0, restarts = 0, conflicts = 0;
};

// What one client worker keeps; used by its own thread alone.
struct WorkerState {
  std::vector<Link> links;  // indexed by shard
  std::unique_ptr<rpc::MessageClient> channel;
  ClientCounters counters;
};

// One server of this process.
struct ServerState {
  std::uint32_t number = 0;  // the shard's
  fabric::Region* table = nullptr;
  fabric::Region* extents = nullptr;
  std::unique_ptr<Shard> shard;  // null: the emulation; or its node came back and has not been declared lost
  bool is_lost = false;          // the latter
  bool is_changing = false;      // between two steps of a change: for ever, if the server died there
  std::unique_ptr<Log> log;      // null: off
  rpc::MessageCounters messages;
  std::uint64_t resets = 0, refused = 0, malformed = 0;
};

struct NodeState {
  fabric::NodeId node = 0;
  fabric::Region* landing = nullptr;
  fabric::Region* membership = nullptr;
  rpc::MessageRegions messages;
  std::vector<std::unique_ptr<ServerState>> servers;
  std::vector<std::unique_ptr<WorkerState>> workers;
  // Of the node's former incarnations: frames of its dead workers refer to them.
  std::vector<std::unique_ptr<WorkerState>> old_workers;
  std::vector<std::unique_ptr<Shard>> old_shards;
};

class PilafStore final : public kv::Store {
 public:
  explicit PilafStore(std::unique_ptr<const Settings> settings) : settings_(std::move(settings)) {}

  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) override;
  [[nodiscard]] Result<> connect(fabric::Fabric& fabric) override;
  // Loads the records, and replays the logs.
  [[nodiscard]] Result<> preload(fabric::Fabric& fabric, const kv::Dataset& data) override;
  [[nodiscard]] coro::Task<void> serve(fabric::Worker& worker, std::uint32_t index) override;
  [[nodiscard]] std::unique_ptr<kv::Client> client(fabric::Worker& worker, std::uint32_t slot) override;
  [[nodiscard]] std::map<std::string, double> counters() const override;
  [[nodiscard]] std::vector<std::string> notes() const override;

  // Without a log alone. A server that came back answers nothing until its node has been declared lost.
  [[nodiscard]] Result<> restart_node(fabric::Fabric& fabric, fabric::NodeId node) override;
  [[nodiscard]] coro::Task<kv::Repair> declare_lost(fabric::Worker& worker,
                                                    std::vector<fabric::NodeId> lost) override;
  [[nodiscard]] bool needs(kv::Key key, fabric::NodeId node,
                           std::optional<std::uint32_t> server) const override;
  [[nodiscard]] std::vector<std::string> audit(const std::vector<fabric::NodeId>& lost) const override;

  // For tests, before preload(): where the logs are written. The disk outlives the store.
  void use_disk(LogDisk& disk) { disk_ = &disk; }
  [[nodiscard]] const Settings& settings() const { return *settings_; }
  [[nodiscard]] fabric::Fabric& fabric() const { return *fabric_; }
  // A node of this process; aborts for any other.
  [[nodiscard]] NodeState& local(fabric::NodeId node);
  // A shard of this process; aborts for any other.
  [[nodiscard]] Shard& shard(std::uint32_t number);

 private:
  [[nodiscard]] Result<> open_logs();
  [[nodiscard]] coro::Task<kv::Repair> declare_all(fabric::Worker* worker, std::vector<fabric::NodeId> lost);
  [[nodiscard]] coro::Task<bool> declare(fabric::Worker* worker, fabric::NodeId lost);
  std::vector<Link> links_;  // the links of a new worker
  std::unique_ptr<const Settings> settings_;
  PosixDisk own_disk_;
  LogDisk* disk_ = &own_disk_;
  fabric::Fabric* fabric_ = nullptr;
  std::map<fabric::NodeId, NodeState> nodes_;
};

// One window slot of one client worker.
[[nodiscard]] std::unique_ptr<kv::Client> make_client(PilafStore& store, fabric::Worker& worker,
                                                      std::uint32_t slot);
// The main of a server worker.
[[nodiscard]] coro::Task<void> run_server(PilafStore* store, fabric::Worker* worker, std::uint32_t index);

}  // namespace loch::pilaf
