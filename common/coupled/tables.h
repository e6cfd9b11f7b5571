// The tables of the nodes of this process in registered memory, and the request channel to all server
// workers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/coupled/settings.h"
#include "common/cuckoo/entry_pool.h"
#include "common/cuckoo/placement.h"
#include "common/cuckoo/table.h"
#include "common/rpc/write_channel.h"

namespace loch::coupled {

// A server worker's access to the memory of its own table.
class RowMemory final : public cuckoo::TableMemory {
 public:
  RowMemory(const Settings& settings, fabric::Region& index, fabric::Region& data, std::uint32_t server)
      : settings_(settings), index_(index), data_(data), server_(server) {}

  [[nodiscard]] std::uint64_t word(std::uint64_t slot) const override;
  void read_key(std::uint32_t entry, std::byte* out) const override;
  [[nodiscard]] bool has_key(std::uint32_t entry, std::span<const std::byte> key) const override;

  [[nodiscard]] fabric::Region& index() const { return index_; }
  [[nodiscard]] fabric::Region& data() const { return data_; }
  [[nodiscard]] std::uint64_t word_at(std::uint64_t slot) const { return settings_.word_at(server_, slot); }
  [[nodiscard]] std::uint64_t entry_at(std::uint32_t entry) const {
    return settings_.entry_at(server_, entry);
  }

 private:
  const Settings& settings_;
  fabric::Region& index_;
  fabric::Region& data_;
  std::uint32_t server_;
};

// Event counters of one server worker.
struct ServerCounts {
  std::uint64_t requests = 0, repeated = 0, stale = 0, unanswered = 0, reconnects = 0, moves = 0, full = 0,
                busy = 0, refused = 0, examined = 0, lost = 0, nic_reads = 0, nic_swaps = 0,
                nic_reconnects = 0;
};
// Event counters of one client slot (slot of a client worker's window of outstanding operations).
struct ClientCounts {
  std::uint64_t retries = 0, reconnects = 0, unsent = 0, timeouts = 0, late_frames = 0, busy = 0;
};

// A row, the table of one server worker, on a node of this process. Once that worker runs, no other thread
// may access the row.
struct Row {
  Row(const Settings& settings, fabric::Region& index, fabric::Region& data, fabric::NodeId node,
      std::uint32_t server)
      : memory(settings, index, data, server),
        table(settings.family, node * settings.servers() + server, settings.config.key_size, memory) {}
  RowMemory memory;
  cuckoo::Table table;
  // the entries that are free or that wait to be reused (retired); set by the preload
  cuckoo::EntryPool entries{0, 0};
  std::uint64_t stores = 0;
  // False after the server worker's node came back with zeroed memory, until the node is declared lost.
  // Meanwhile every request is answered "lost".
  bool is_laid_out = true;
  bool is_changing = false;       // true during a request; stays true if the worker died in the middle of one
  std::uint64_t incarnation = 0;  // incremented whenever the server worker's node restarts
  ServerCounts counts;
};

// The state of a server worker, as stored in the worker's word of the membership region.
enum class Member : std::uint64_t {
  none = 0,      // the node's memory is zeroed and nobody has declared it lost
  declared = 1,  // declared lost: the worker's keys are gone, and it must initialise its table
  serves = 2,
};

// Buffer of a server worker that accesses index words through the NIC: one cache line, with the word that a
// READ or CAS returns, and a word for a READ that only shows that an earlier request has ended.
constexpr std::uint64_t nic_word_bytes = 64;

// The memory regions and rows (server workers' tables) of one node. A serving node has index, data and rows;
// a node with clients has `clients`.
struct NodeTables {
  // One word for each server worker (its Member state), then for each client worker one word as buffer
  // for its READs and WRITEs of other nodes' states.
  fabric::Region* membership = nullptr;
  fabric::Region* index = nullptr;
  fabric::Region* data = nullptr;
  // Buffers for the words that server workers READ and CAS through the NIC, nic_word_bytes for each worker;
  // null if they access the index by CPU.
  fabric::Region* nic_words = nullptr;
  std::vector<std::unique_ptr<Row>> rows;  // the tables, indexed by server worker
  // counters, indexed by client slot (slot of a worker's window)
  std::vector<std::unique_ptr<ClientCounts>> clients;
};

class Tables {
 public:
  explicit Tables(Settings settings);

  // setup_node(), connect() and preload() implement the functions of the same names of kv::Store.
  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node);
  [[nodiscard]] Result<> connect(fabric::Fabric& fabric);
  [[nodiscard]] Result<> preload(const fabric::Fabric& fabric, const kv::Dataset& data);

  // restart_node(), declare_lost(), needs() and audit() implement the functions of the same names of
  // kv::Store. A restarted node serves again once it has been declared lost.
  [[nodiscard]] Result<> restart_node(fabric::NodeId node);
  [[nodiscard]] coro::Task<kv::Repair> declare_lost(fabric::Worker* worker, std::vector<fabric::NodeId> lost);
  [[nodiscard]] bool needs(kv::Key key, fabric::NodeId node, std::optional<std::uint32_t> server) const;
  [[nodiscard]] std::vector<std::string> audit(const std::vector<fabric::NodeId>& lost) const;

  // Initialises a server worker's table (row) as empty, as if all its keys had been deleted. To be called by
  // that worker.
  void lay_out(Row& row, fabric::Worker& worker) const;

  [[nodiscard]] const Settings& settings() const { return settings_; }
  [[nodiscard]] const rpc::WriteChannel& channel() const { return channel_; }
  [[nodiscard]] NodeTables& local(fabric::NodeId node);
  // The region of a serving node's index, for requests that the node's own NIC executes.
  [[nodiscard]] fabric::RemoteRegion own_index(fabric::NodeId node) const;
  [[nodiscard]] std::string index_region() const { return settings_.name + ".index"; }
  [[nodiscard]] std::string data_region() const { return settings_.name + ".data"; }
  [[nodiscard]] std::string membership_region() const { return settings_.name + ".membership"; }
  [[nodiscard]] std::map<std::string, double> counters() const;

 private:
  [[nodiscard]] Result<> fill_row(Row& row, std::uint32_t number, const kv::Dataset& data,
                                  const cuckoo::Placement& placement);

  [[nodiscard]] std::vector<std::string> audit_row(const Row& row) const;
  [[nodiscard]] coro::Task<bool> declare(fabric::Worker* worker, fabric::NodeId lost);
  [[nodiscard]] std::uint64_t membership_bytes() const {
    return (std::uint64_t{settings_.servers()} + settings_.config.client_workers) * 8;
  }

  Settings settings_;
  fabric::Fabric* fabric_ = nullptr;
  rpc::WriteChannel channel_;
  std::map<fabric::NodeId, NodeTables> nodes_;
};

}  // namespace loch::coupled
