// A deployed DrTM-em: items in the memory of every serving node, addressed by the key's hash.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/kv/client_driven.h"
#include "common/kv/further_loads.h"
#include "common/kv/preloading.h"
#include "common/rpc/remote.h"
#include "drtm_em/settings.h"

namespace loch::drtm {

constexpr std::string_view items_region = "drtm-em.items";
// region with room for one item per window slot (outstanding operation), into which GETs READ
constexpr std::string_view landing_region = "drtm-em.landing";
// One word for each window slot (outstanding operation), into which an item's state word is READ.
constexpr std::string_view words_region = "drtm-em.words";

// State that all outstanding operations of a client worker share; used only by its thread.
struct WorkerState {
  WorkerState(fabric::Worker& worker, const rpc::PostingShape& posting) : lists(worker, posting) {}
  rpc::PostingLists lists;
  std::vector<rpc::Remote> items;  // indexed by serving node
  struct Counts {
    std::uint64_t other_keys = 0;      // number of GETs that READ an item with another key
    std::uint64_t lock_conflicts = 0;  // number of attempts to lock an item that was locked
    std::uint64_t locks_not_held = 0;  // number of releases that did not find this client's lock
    std::uint64_t reconnects = 0;
    // atomics=faa: numbers of additions posted and completed, to be compared with the sum of all state words.
    std::uint64_t atomics_begun = 0, atomics_done = 0;
    // atomics=cas: number of locks that clients perhaps still hold after an error
    std::uint64_t locks_left = 0;
  } counts;
};

struct NodeState {
  fabric::Region* items = nullptr;  // null on a node that only drives load
  fabric::Region* landing = nullptr;
  fabric::Region* words = nullptr;
  std::vector<std::unique_ptr<WorkerState>> workers;
};

class DrtmStore final : public kv::ClientDrivenStore, public kv::FurtherLoads {
 public:
  explicit DrtmStore(std::unique_ptr<const Settings> settings) : settings_(std::move(settings)) {}

  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) override;
  [[nodiscard]] Result<> connect(fabric::Fabric& fabric) override;
  [[nodiscard]] Result<> preload(fabric::Fabric& fabric, const kv::Dataset& data) override;
  [[nodiscard]] std::unique_ptr<kv::Client> client(fabric::Worker& worker, std::uint32_t slot) override;
  // The store's counters. "violations" counts locks that another client than the holder released, and
  // additions that were lost or executed twice.
  [[nodiscard]] std::map<std::string, double> counters() const override;
  [[nodiscard]] std::vector<std::string_view> levels() const override {
    return {"locks_left", kv::violations_counter};
  }

  [[nodiscard]] const Settings& settings() const { return *settings_; }
  [[nodiscard]] fabric::Fabric& fabric() { return *fabric_; }
  [[nodiscard]] NodeState& local(fabric::NodeId node) { return nodes_.at(node); }

 private:
  // Preloads those items of this process's nodes that have these numbers on their nodes.
  void preload_items(const kv::Dataset& data, kv::Span numbers);
  [[nodiscard]] bool holds_every_item() const;
  [[nodiscard]] std::uint64_t violations_at_rest(const WorkerState::Counts& sum) const;

  std::unique_ptr<const Settings> settings_;
  fabric::Fabric* fabric_ = nullptr;
  std::vector<fabric::RemoteRegion> items_;  // indexed by serving node
  std::map<fabric::NodeId, NodeState> nodes_;
};

}  // namespace loch::drtm
