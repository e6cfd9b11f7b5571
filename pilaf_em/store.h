// A deployed Pilaf: the regions of the local nodes, their servers' shards, and clients' links to every shard.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/kv/further_loads.h"
#include "common/kv/protocol.h"
#include "common/rpc/message_channel.h"
#include "pilaf_em/log.h"
#include "pilaf_em/shard.h"

namespace loch::pilaf {

// Names of the regions of server S of a node: pilaf.table.S and pilaf.extents.S, which clients READ. The
// region pilaf.landing has the buffers into which a node's clients READ.
[[nodiscard]] std::string table_region(std::uint32_t server);
[[nodiscard]] std::string extents_region(std::uint32_t server);
constexpr std::string_view landing_region = "pilaf.landing";
// Region of the words that tell which servers were declared lost: a word for each server, and a word for each
// client worker, which is the source of that worker's WRITEs.
constexpr std::string_view membership_region = "pilaf.membership";

// The state of a server in its membership word.
enum class Member : std::uint64_t {
  none = 0,      // no state was stored: the node restarted with zeroed memory
  declared = 1,  // the node was declared lost: the server lays out an empty shard
  serves = 2,
};

// A client worker's copy of a shard's root (its table's descriptor), as it was last READ.
struct View {
  Root root;
  std::optional<cuckoo::HashFamily> family;  // nullopt: the root (the table's descriptor) was never READ
};

// A client worker's access to one shard.
struct Link {
  fabric::NodeId node = 0;
  std::uint16_t server = 0;
  fabric::RemoteRegion table, extents;
  std::uint32_t epoch = 0;  // identifies the connection over which the regions were looked up
  View view;
};

struct ClientCounters {
  std::uint64_t bad_guards = 0, bad_extents = 0, closed_buckets = 0, foreign_extents = 0, roots_read = 0,
                misses_confirmed = 0, misses_refuted = 0, reconnects = 0, restarts = 0, conflicts = 0;
};

// State of one client worker, used only by its thread.
struct WorkerState {
  std::vector<Link> links;  // indexed by shard
  std::unique_ptr<rpc::MessageClient> channel;
  ClientCounters counters;
};

// One server of this process.
struct ServerState {
  std::uint32_t number = 0;  // identifies the server's shard
  fabric::Region* table = nullptr;
  fabric::Region* extents = nullptr;
  // Null for the emulation, and on a restarted node that was not declared lost yet.
  std::unique_ptr<Shard> shard;
  bool is_lost = false;      // whether the node restarted and was not declared lost yet
  bool is_changing = false;  // whether a change is partly applied; stays true if the server dies meanwhile
  std::unique_ptr<Log> log;  // null: no log
  rpc::ServerMemory memory;
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
  // State of the node's former incarnations, to which coroutine frames of its dead workers refer.
  std::vector<std::unique_ptr<WorkerState>> old_workers;
  std::vector<std::unique_ptr<Shard>> old_shards;
};

class PilafStore final : public kv::Store, public kv::FurtherLoads {
 public:
  explicit PilafStore(std::unique_ptr<const Settings> settings) : settings_(std::move(settings)) {}

  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) override;
  [[nodiscard]] Result<> connect(fabric::Fabric& fabric) override;
  // Stores the preloaded records, and replays the logs.
  [[nodiscard]] Result<> preload(fabric::Fabric& fabric, const kv::Dataset& data) override;
  [[nodiscard]] coro::Task<void> serve(fabric::Worker& worker, std::uint32_t index) override;
  [[nodiscard]] std::unique_ptr<kv::Client> client(fabric::Worker& worker, std::uint32_t slot) override;
  [[nodiscard]] std::map<std::string, double> counters() const override;
  [[nodiscard]] std::vector<std::string_view> levels() const override {
    return {"logs_closed", "keys", "slots", "extents_free_bytes"};
  }
  // Not with logs, which go on over all loads.
  [[nodiscard]] bool serves_further_loads() const override;
  [[nodiscard]] std::vector<std::string> notes() const override;

  // Takes a restarted node back, if it has no log. Its servers answer "lost" until the node is declared lost.
  [[nodiscard]] Result<> restart_node(fabric::Fabric& fabric, fabric::NodeId node) override;
  [[nodiscard]] coro::Task<kv::Repair> declare_lost(fabric::Worker& worker,
                                                    std::vector<fabric::NodeId> lost) override;
  [[nodiscard]] bool needs(kv::Key key, fabric::NodeId node,
                           std::optional<std::uint32_t> server) const override;
  [[nodiscard]] std::vector<std::string> audit(const std::vector<fabric::NodeId>& lost) const override;

  // For tests, before preload(): the disk for the logs. It has to outlive the store.
  void use_disk(LogDisk& disk) { disk_ = &disk; }
  [[nodiscard]] const Settings& settings() const { return *settings_; }
  [[nodiscard]] fabric::Fabric& fabric() const { return *fabric_; }
  // The state of a node of this process; aborts for another node.
  [[nodiscard]] NodeState& local(fabric::NodeId node);
  // A shard of this process; aborts for another shard.
  [[nodiscard]] Shard& shard(std::uint32_t number);

 private:
  [[nodiscard]] Result<> preload_shards(const fabric::Fabric& fabric, const kv::Dataset& data,
                                        std::size_t part, std::size_t parts);
  [[nodiscard]] Result<> open_logs();
  [[nodiscard]] coro::Task<kv::Repair> declare_all(fabric::Worker* worker, std::vector<fabric::NodeId> lost);
  [[nodiscard]] coro::Task<bool> declare(fabric::Worker* worker, fabric::NodeId lost);
  std::vector<Link> links_;  // initial links of a new client worker
  std::unique_ptr<const Settings> settings_;
  PosixDisk own_disk_;
  LogDisk* disk_ = &own_disk_;
  fabric::Fabric* fabric_ = nullptr;
  std::map<fabric::NodeId, NodeState> nodes_;
};

// Makes the client of one window slot (outstanding operation) of a client worker.
[[nodiscard]] std::unique_ptr<kv::Client> make_client(PilafStore& store, fabric::Worker& worker,
                                                      std::uint32_t slot);
// The main coroutine of a server worker.
[[nodiscard]] coro::Task<void> run_server(PilafStore* store, fabric::Worker* worker, std::uint32_t index);

}  // namespace loch::pilaf
