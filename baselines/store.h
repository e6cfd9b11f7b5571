// The store of a real system: its servers, loading over sockets, and the clients of every worker.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "baselines/memcached_client.h"
#include "baselines/redis_client.h"
#include "baselines/servers.h"
#include "baselines/settings.h"

namespace loch::baselines {

class RealStore final : public kv::Store {
 public:
  explicit RealStore(Settings settings);
  ~RealStore() override;

  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) override;
  [[nodiscard]] Result<> connect(fabric::Fabric& fabric) override;
  [[nodiscard]] Result<> preload(fabric::Fabric& fabric, const kv::Dataset& data) override;
  [[nodiscard]] coro::Task<void> serve(fabric::Worker& worker, std::uint32_t index) override;
  [[nodiscard]] std::unique_ptr<kv::Client> client(fabric::Worker& worker, std::uint32_t slot) override;
  [[nodiscard]] bool has_background() const override { return true; }
  [[nodiscard]] coro::Task<void> background(fabric::Worker& worker, const bool* done) override;
  [[nodiscard]] std::map<std::string, double> counters() const override;
  [[nodiscard]] std::string transport() const override;

 private:
  struct WorkerState;
  // A server that this process started. During the run, only the first server worker of the server's node
  // uses `running`.
  struct Own {
    std::uint32_t index = 0;
    RunningServer running;
    bool is_lost = false;
  };
  [[nodiscard]] Result<> collect_addresses(fabric::Fabric& fabric);
  [[nodiscard]] WorkerState& state_of(fabric::Worker& worker);
  void look_after(fabric::NodeId node);

  Settings settings_;
  std::vector<Address> addresses_;  // indexed by server
  std::unique_ptr<ServerFolder> folder_;
  std::vector<std::unique_ptr<Own>> own_;
  ConnectionCounts counts_;
  std::atomic<std::uint64_t> lost_servers_ = 0;
  std::mutex mutex_;  // guards workers_; each element's content is used by one thread only
  std::map<std::pair<fabric::NodeId, std::uint16_t>, std::unique_ptr<WorkerState>> workers_;
  // CPU time in seconds that the servers started by this process had used at the end of the preload.
  double cpu_before_s_ = 0;
};

}  // namespace loch::baselines
