// micro-echo by WRITE: requests and replies are written into memory that the peer polls; Nessie 2015 (figure
// 1) compares READs with this pattern.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "baselines/micro/echo_settings.h"
#include "common/rpc/write_channel.h"

namespace loch::micro {

class WriteEchoStore final : public kv::Store {
 public:
  explicit WriteEchoStore(const EchoSettings& settings);
  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) override;
  [[nodiscard]] Result<> connect(fabric::Fabric& fabric) override;
  [[nodiscard]] Result<> preload(fabric::Fabric& /*fabric*/, const kv::Dataset& /*data*/) override {
    return {};
  }
  [[nodiscard]] coro::Task<void> serve(fabric::Worker& worker, std::uint32_t index) override;
  [[nodiscard]] std::unique_ptr<kv::Client> client(fabric::Worker& worker, std::uint32_t slot) override;
  [[nodiscard]] std::map<std::string, double> counters() const override;

 private:
  friend class WriteEchoClient;
  EchoSettings settings_;
  rpc::WriteChannel channel_;
  std::atomic<std::uint64_t> answered_ = 0, repeated_ = 0, retries_ = 0, timeouts_ = 0;
};

}  // namespace loch::micro
