// A deployed HERD: the nodes' regions, and the state of servers and client workers.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "common/kv/further_loads.h"
#include "common/kv/protocol.h"
#include "herd_em/client.h"
#include "herd_em/server.h"
#include "herd_em/settings.h"

namespace loch::herd {

class HerdStore final : public kv::Store, public kv::FurtherLoads {
 public:
  explicit HerdStore(Settings settings) : settings_(std::move(settings)) {}

  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) override;
  [[nodiscard]] Result<> connect(fabric::Fabric& fabric) override;
  [[nodiscard]] Result<> preload(fabric::Fabric& fabric, const kv::Dataset& data) override;
  [[nodiscard]] coro::Task<void> serve(fabric::Worker& worker, std::uint32_t index) override;
  [[nodiscard]] std::unique_ptr<kv::Client> client(fabric::Worker& worker, std::uint32_t slot) override;
  [[nodiscard]] std::map<std::string, double> counters() const override;
  [[nodiscard]] std::vector<std::string_view> levels() const override { return {"request_region_bytes"}; }

  [[nodiscard]] bool needs(kv::Key key, fabric::NodeId node,
                           std::optional<std::uint32_t> server) const override;
  [[nodiscard]] std::vector<std::string> audit(const std::vector<fabric::NodeId>& lost) const override;

  [[nodiscard]] const Settings& settings() const { return settings_; }

 private:
  [[nodiscard]] Result<> preload_servers(const kv::Dataset& data, std::size_t part, std::size_t parts);
  struct Node {
    // Request slots, ordered by server worker of this node, client of the cluster, and window slot
    // (outstanding operation).
    fabric::Region* slots = nullptr;
    fabric::Region* replies = nullptr;  // send buffers for replies, by server worker
    std::vector<std::unique_ptr<Server>> servers;
    ClientRegions client_regions;
    std::vector<std::unique_ptr<ClientWorker>> clients;
  };

  Settings settings_;
  fabric::Fabric* fabric_ = nullptr;         // set by connect()
  std::map<fabric::NodeId, Node> nodes_;     // nodes of this process
  std::vector<fabric::RemoteRegion> slots_;  // the request slots at each serving node
};

}  // namespace loch::herd
