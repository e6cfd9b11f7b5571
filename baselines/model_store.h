// A simulated stand-in for memcached and Redis: real requests of their text protocols and really stored
// values, on simulated cores, over a model of the kernel's TCP (kernel_path.h). The bytes are RC SENDs of the
// simulated fabric; what the kernel adds is charged to cores or waited for.
//
// A server is a table that the server workers of its node share; a server worker models one of the server's
// threads, and each client connection belongs to one thread, as in memcached.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "baselines/kernel_path.h"
#include "baselines/settings.h"
#include "baselines/text.h"
#include "common/rpc/message_channel.h"

namespace loch::baselines {

class ModelStore final : public kv::Store {
 public:
  // `only_echoes`: servers answer every PUT without parsing it, as in the published microbenchmark.
  explicit ModelStore(Settings settings, bool only_echoes = false);
  ~ModelStore() override;

  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) override;
  [[nodiscard]] Result<> connect(fabric::Fabric& fabric) override;
  [[nodiscard]] Result<> preload(fabric::Fabric& fabric, const kv::Dataset& data) override;
  [[nodiscard]] coro::Task<void> serve(fabric::Worker& worker, std::uint32_t index) override;
  [[nodiscard]] std::unique_ptr<kv::Client> client(fabric::Worker& worker, std::uint32_t slot) override;
  [[nodiscard]] std::map<std::string, double> counters() const override;
  [[nodiscard]] std::string transport() const override;

 private:
  class Client;
  struct Item {
    std::string kept;  // first bytes of the value; all of them unless the simulation stores values in part
    std::uint32_t size = 0;
  };
  using Table = std::unordered_map<std::string, Item>;
  struct Server {
    Table table;
    std::map<std::uint32_t, rpc::ServerMemory> memories;  // by server worker
    Table behind;  // known-bad variant write-behind: PUTs that were answered and are not stored yet
    // numbers of requests; of each node its own, because threads of a simulation run different nodes
    std::uint64_t served = 0, unintelligible = 0, duplicates = 0;
  };

  // Executes the request, writes its reply, and returns the reply's length in bytes.
  [[nodiscard]] std::uint32_t execute(Table& table, const ParsedRequest& request, const std::byte* message,
                                      std::byte* reply);
  [[nodiscard]] std::uint32_t answer(Server& server, const ParsedRequest& request, const std::byte* message,
                                     std::byte* reply);
  // CPU time in ns of a server's work between receiving a request and sending its reply.
  [[nodiscard]] Nanos work_cpu(const fabric::CpuCosts& costs, const Table& table,
                               const ParsedRequest& request) const;
  [[nodiscard]] std::string_view kept_text(const std::byte* message, std::uint32_t length) const;

  Settings settings_;
  bool only_echoes_;
  const KernelPath& path_;
  rpc::MessageShape shape_;
  Links links_;
  std::vector<rpc::MessageRegions> regions_;  // indexed by node
  std::vector<Server> servers_;               // indexed by serving node
  std::mutex clients_mutex_;
  std::map<std::uint32_t, std::unique_ptr<rpc::MessageClient>> clients_;  // keyed by node and client worker
};

}  // namespace loch::baselines
