// micro-echo by SEND: a server answers each request with a reply of another length. Messages carry no
// identifier, so a reply that a worker receives ends any one of the worker's waiting operations.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "baselines/micro/echo_settings.h"
#include "common/fabric/traffic.h"

namespace loch::micro {

class SendEchoStore final : public kv::Store {
 public:
  explicit SendEchoStore(EchoSettings settings);
  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) override;
  [[nodiscard]] Result<> connect(fabric::Fabric& /*fabric*/) override { return {}; }
  [[nodiscard]] Result<> preload(fabric::Fabric& /*fabric*/, const kv::Dataset& /*data*/) override {
    return {};
  }
  [[nodiscard]] coro::Task<void> serve(fabric::Worker& worker, std::uint32_t index) override;
  [[nodiscard]] std::unique_ptr<kv::Client> client(fabric::Worker& worker, std::uint32_t slot) override;
  [[nodiscard]] std::map<std::string, double> counters() const override;

 private:
  friend class SendEchoClient;
  struct Node {
    fabric::Region* source = nullptr;  // payload of the requests, whose content does not matter
    // Receive buffers: first those of the node's client workers, then those of its server workers.
    fabric::Region* messages = nullptr;
  };
  [[nodiscard]] fabric::Traffic traffic(std::uint32_t bytes, const fabric::Capabilities& device) const;
  [[nodiscard]] std::uint32_t largest() const;
  [[nodiscard]] fabric::Receiving of_client(const Node& node, std::uint32_t client) const;
  [[nodiscard]] fabric::Receiving of_server(const Node& node, std::uint32_t server) const;

  EchoSettings settings_;
  std::uint32_t client_buffers_ = 0, server_buffers_ = 0;  // number of receive buffers of each worker
  std::map<fabric::NodeId, Node> nodes_;
  std::atomic<std::uint64_t> answered_ = 0, timeouts_ = 0, reconnects_ = 0;
};

}  // namespace loch::micro
