// The tables of the local nodes in registered memory, and the channel to everybody's server workers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/coupled/settings.h"
#include "common/cuckoo/entry_pool.h"
#include "common/cuckoo/placement.h"
#include "common/cuckoo/table.h"
#include "common/rpc/write_channel.h"

namespace loch::coupled {

// One row as its worker sees it.
class RowMemory final : public cuckoo::TableMemory {
 public:
  RowMemory(const Settings& settings, fabric::Region& index, fabric::Region& data, std::uint32_t server)
      : settings_(settings), index_(index), data_(data), server_(server) {}

  [[nodiscard]] std::uint64_t word(std::uint64_t slot) const override;
  void read_key(std::uint32_t entry, std::byte* out) const override;

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

// What one server worker counts.
struct ServerCounts {
  std::uint64_t requests = 0, repeated = 0, stale = 0, unanswered = 0, reconnects = 0, moves = 0, full = 0,
                busy = 0, refused = 0, examined = 0, lost = 0;
};
// What one client lane counts.
struct ClientCounts {
  std::uint64_t retries = 0, reconnects = 0, unsent = 0, timeouts = 0, late_frames = 0, busy = 0;
};

// A row of a node of this process; its worker's alone once that runs.
struct Row {
  Row(const Settings& settings, fabric::Region& index, fabric::Region& data, fabric::NodeId node,
      std::uint32_t server)
      : memory(settings, index, data, server),
        table(settings.family, node * settings.servers() + server, settings.config.key_size, memory) {}
  RowMemory memory;
  cuckoo::Table table;
  cuckoo::EntryPool entries{0, 0};  // numbers of free entries; filled by the preload
  std::uint64_t stores = 0;
  // False: its node came back with zeroed memory and has not been declared lost. Nothing is answered.
  bool is_laid_out = true;
  bool is_changing = false;       // between two steps of a request: for ever, if its worker died there
  std::uint64_t incarnation = 0;  // grows whenever its node comes back
  ServerCounts counts;
};

// The state of a server worker, as its word of the membership region says.
enum class Member : std::uint64_t {
  none = 0,      // zeroed memory
  declared = 1,  // declared lost: the row's keys are lost and it must be initialised
  serves = 2,
};

// Of a node that serves: index, data and rows; of one that drives: clients.
struct NodeTables {
  // A word for each server worker, then one for each client worker: what it writes into others'.
  fabric::Region* membership = nullptr;
  fabric::Region* index = nullptr;
  fabric::Region* data = nullptr;
  std::vector<std::unique_ptr<Row>> rows;              // by server worker
  std::vector<std::unique_ptr<ClientCounts>> clients;  // by lane
};

class Tables {
 public:
  explicit Tables(Settings settings);

  // As kv::Store's.
  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node);
  [[nodiscard]] Result<> connect(fabric::Fabric& fabric);
  [[nodiscard]] Result<> preload(const kv::Dataset& data);

  // As kv::Store's. A node that is back serves once it has been declared lost.
  [[nodiscard]] Result<> restart_node(fabric::NodeId node);
  [[nodiscard]] coro::Task<kv::Repair> declare_lost(fabric::Worker* worker, std::vector<fabric::NodeId> lost);
  [[nodiscard]] bool needs(kv::Key key, fabric::NodeId node, std::optional<std::uint32_t> server) const;
  [[nodiscard]] std::vector<std::string> audit(const std::vector<fabric::NodeId>& lost) const;

  // The row as if all of its keys had been removed, by its worker.
  void lay_out(Row& row, fabric::Worker& worker) const;

  [[nodiscard]] const Settings& settings() const { return settings_; }
  [[nodiscard]] const rpc::WriteChannel& channel() const { return channel_; }
  [[nodiscard]] NodeTables& local(fabric::NodeId node);
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
