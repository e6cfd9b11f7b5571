// A deployed FaRM-em: buckets in the memory of every serving node, which clients READ, and server workers
// that answer PUTs and store nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/kv/further_loads.h"
#include "common/rpc/remote.h"
#include "farm_em/puts.h"
#include "farm_em/settings.h"

namespace loch::farm {

// State that all outstanding operations of a client worker share; used only by its thread.
struct WorkerState {
  WorkerState(fabric::Worker& worker, const rpc::PostingShape& posting) : lists(worker, posting) {}
  rpc::PostingLists lists;
  std::vector<rpc::Remote> index, values;  // indexed by serving node
  std::uint64_t absent_keys = 0;           // number of GETs whose key was in none of its six buckets
  std::uint64_t reconnects = 0;
};

struct NodeState {
  fabric::Region* index = nullptr;   // null on a node that only drives load
  fabric::Region* values = nullptr;  // region of values; exists only in farm-em-var
  // for each window slot (outstanding operation), a buffer that holds six buckets
  fabric::Region* landing = nullptr;
  // For each window slot (outstanding operation), a buffer that holds a value; only in farm-em-var.
  fabric::Region* landing_values = nullptr;
  std::vector<std::unique_ptr<WorkerState>> workers;
};

class FarmStore final : public kv::Store, public kv::FurtherLoads {
 public:
  explicit FarmStore(std::unique_ptr<const Settings> settings);

  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) override;
  [[nodiscard]] Result<> connect(fabric::Fabric& fabric) override;
  [[nodiscard]] Result<> preload(fabric::Fabric& fabric, const kv::Dataset& data) override;
  [[nodiscard]] coro::Task<void> serve(fabric::Worker& worker, std::uint32_t index) override;
  [[nodiscard]] std::unique_ptr<kv::Client> client(fabric::Worker& worker, std::uint32_t slot) override;
  [[nodiscard]] std::map<std::string, double> counters() const override;
  [[nodiscard]] std::vector<std::string_view> levels() const override { return {kv::violations_counter}; }

  [[nodiscard]] const Settings& settings() const { return *settings_; }
  [[nodiscard]] fabric::Fabric& fabric() { return *fabric_; }
  [[nodiscard]] std::string_view index_name() const { return index_name_; }
  [[nodiscard]] std::string_view values_name() const { return values_name_; }
  [[nodiscard]] NodeState& local(fabric::NodeId node) { return nodes_.at(node); }

 private:
  void preload_nodes(const kv::Dataset& data, std::size_t part, std::size_t parts);

  std::unique_ptr<const Settings> settings_;
  std::unique_ptr<PutChannel> puts_;
  std::string index_name_, values_name_;
  fabric::Fabric* fabric_ = nullptr;
  std::vector<fabric::RemoteRegion> index_, values_;  // indexed by serving node
  std::map<fabric::NodeId, NodeState> nodes_;
};

}  // namespace loch::farm
