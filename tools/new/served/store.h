// A deployment: the channel between all clients and server workers, and the shards of this process's nodes.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "common/kv/protocol.h"
#include "common/rpc/write_channel.h"
#include "newstore/shard.h"

namespace loch::newstore {

struct Settings {
  kv::DeployConfig config;
  rpc::ChannelConfig channel;
  ShardShape shard;
};

class Store final : public kv::Store {
 public:
  explicit Store(Settings settings) : settings_(std::move(settings)), channel_(settings_.channel) {}

  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) override;
  [[nodiscard]] Result<> connect(fabric::Fabric& fabric) override { return channel_.connect(fabric); }
  [[nodiscard]] Result<> preload(fabric::Fabric& fabric, const kv::Dataset& data) override;
  [[nodiscard]] coro::Task<void> serve(fabric::Worker& worker, std::uint32_t index) override;
  [[nodiscard]] std::unique_ptr<kv::Client> client(fabric::Worker& worker, std::uint32_t slot) override;
  [[nodiscard]] bool needs(kv::Key key, fabric::NodeId node,
                           std::optional<std::uint32_t> server) const override;
  [[nodiscard]] std::map<std::string, double> counters() const override;

 private:
  Settings settings_;
  rpc::WriteChannel channel_;
  // The shards of each node of this process, indexed by server worker.
  std::map<fabric::NodeId, std::vector<std::unique_ptr<Shard>>> shards_;
};

}  // namespace loch::newstore
