// micro-verbs and micro-atomic: every operation is one round of equal work requests to the serving nodes in
// turn.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "baselines/micro/settings.h"
#include "baselines/micro/signals.h"

namespace loch::micro {

class TrafficStore final : public kv::Store {
 public:
  explicit TrafficStore(Settings settings) : settings_(std::move(settings)) {}

  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) override;
  [[nodiscard]] Result<> connect(fabric::Fabric& fabric) override;
  // Does nothing, because this store has no records.
  [[nodiscard]] Result<> preload(fabric::Fabric& fabric, const kv::Dataset& data) override;
  [[nodiscard]] coro::Task<void> serve(fabric::Worker& worker, std::uint32_t index) override;
  [[nodiscard]] std::unique_ptr<kv::Client> client(fabric::Worker& worker, std::uint32_t slot) override;
  [[nodiscard]] std::map<std::string, double> counters() const override;

 private:
  friend class TrafficClient;
  struct Node {
    fabric::Region* places = nullptr;  // memory of a serving node for READs, WRITEs and atomics
    // one buffer for each window slot (outstanding operation) of a node that drives load
    fabric::Region* landing = nullptr;
    fabric::Region* messages = nullptr;  // receive buffers of a serving node, for SENDs
    std::size_t first_received = 0;      // index in received_ of the node's first server worker
  };
  [[nodiscard]] fabric::Receiving receiving(const Node& node, std::uint32_t server,
                                            std::uint32_t buffers) const;

  // The state of the worker's selective signaling, which its outstanding operations share.
  [[nodiscard]] Signals* signals_of(fabric::Worker& worker);

  // Number of SENDs that were posted and not received; includes lost messages.
  [[nodiscard]] std::uint64_t on_their_way();

  Settings settings_;
  fabric::Fabric* fabric_ = nullptr;
  std::uint32_t buffers_ = 0;
  std::map<fabric::NodeId, Node> nodes_;  // nodes of this process
  std::vector<fabric::RemoteRegion> places_;
  std::deque<fabric::Counted> received_;  // messages received by each server worker of this process
  std::mutex signals_mutex_;
  std::map<const fabric::Worker*, std::unique_ptr<Signals>> signals_;
  std::atomic<std::uint64_t> posted_ = 0, errors_ = 0, reconnects_ = 0;
  std::atomic<std::uint64_t> without_credit_ = 0;  // SENDs after a wait for a credit that was given up
};

}  // namespace loch::micro
