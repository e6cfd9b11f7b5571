// The fabrics on which conformance and litmus tests run, and a small cluster on one of them.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/fabric/fabric.h"

namespace loch::fabric {

struct Backend {
  std::string name;
  std::function<Result<std::unique_ptr<Fabric>>(std::uint32_t nodes, std::uint64_t seed)> make;
};

// Every fabric of this build that needs no device, plain and under decorators (which count requests or inject
// faults). With LOCH_TEST_VERBS in the environment, only verbs on this machine's RDMA device, which
// LOCH_TEST_DEVICE may name as --device does; with LOCH_TEST_OFI=PROVIDER[,PROVIDER…], only ofi on these
// providers.
[[nodiscard]] const std::vector<Backend>& backends();
[[nodiscard]] std::string backend_name(const testing::TestParamInfo<Backend>& info);

constexpr Nanos second = 1'000'000'000;
constexpr Nanos millisecond = 1'000'000;
constexpr std::uint32_t ud_lanes = 3;  // number of UD queue pairs of a client worker
constexpr std::uint64_t memory_bytes = 256 * 1024;

// A cluster whose nodes each have a region "memory" with all rights, a region "readable" that can only be
// READ, a client worker (index 0) and, if asked for, a server worker (index 1).
struct Cluster {
  explicit Cluster(const Backend& backend, std::uint32_t nodes = 2, bool with_servers = false,
                   std::uint64_t seed = 1);
  // Runs the started coroutines; every worker's main coroutine has to end by itself.
  void run(RunEnd expected = RunEnd::finished);
  void start(NodeId node, coro::Task<void> main) { fabric->start(*clients[node], std::move(main)); }
  void start_server(NodeId node, coro::Task<void> main) { fabric->start(*servers[node], std::move(main)); }
  [[nodiscard]] LocalSlice at(NodeId node, std::uint64_t offset) const { return {memory[node], offset}; }
  void fill(NodeId node, std::uint64_t offset, std::uint64_t bytes, unsigned first) const;
  [[nodiscard]] std::uint64_t word(NodeId node, std::uint64_t offset) const;
  void set_word(NodeId node, std::uint64_t offset, std::uint64_t value) const;
  // Whether the bytes are those that fill() writes with this `first`.
  [[nodiscard]] bool holds(NodeId node, std::uint64_t offset, std::uint64_t bytes, unsigned first) const;

  std::unique_ptr<Fabric> fabric;
  std::vector<Worker*> clients, servers;  // indexed by node
  std::vector<Region*> memory, readable_memory;
  std::vector<RemoteRegion> remote, readable;
};

class FabricTest : public testing::TestWithParam<Backend> {};

}  // namespace loch::fabric
