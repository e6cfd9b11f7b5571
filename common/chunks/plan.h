// Allocation of the nodes' memory to clients in chunks. A client worker begins with no block of any node. It
// requests a chunk, a run of blocks, from a node's management worker by a small message (ALLOC), takes blocks
// from the chunk one by one, and requests the next chunk before it has used up what it has. A management
// worker does nothing but answer ALLOCs, so that a node of memory needs only a weak CPU.
//
//   request   | client u32 | number u32 |
//   reply     | first block u64 | blocks u32 | number u32 |     blocks 0: the node has none left
//
// A client numbers its requests to each node. It repeats a request under the same number until it is
// answered, and a manager answers a repeated number with the same chunk again (Manager). A chunk is never
// given back: it stays its client's, and is lost when the client dies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/kv/protocol.h"
#include "common/rpc/message_channel.h"

namespace loch::chunks {

// A run of consecutive blocks of one node.
struct Chunk {
  std::uint64_t first = 0;
  std::uint32_t count = 0;  // 0: no block
  friend bool operator==(const Chunk&, const Chunk&) = default;
};

// A known-bad variant of the manager, for mutants that the tests have to find.
enum class Flaw : std::uint8_t {
  none,
  repeated_is_free,  // a chunk whose request is repeated is given to the next client as well
};

// How the blocks of the nodes that hold data are given out.
struct ChunkPlan {
  std::uint64_t first = 0, blocks = 0;  // blocks given out by each node: `first` to `first` + `blocks` - 1
  std::uint32_t chunk = 1;              // blocks in a chunk
  Nanos cpu = 0;  // CPU time of an ALLOC, in addition to the hardware profile's cost of any request
  std::uint32_t serving_nodes = 1, server_nodes = 0, client_workers = 1, clients = 1;
  rpc::MessageShape messages;
  Flaw flaw = Flaw::none;

  // The number of free blocks of a node below which a client requests another chunk from the node.
  [[nodiscard]] std::uint32_t ahead() const { return (chunk + 1) / 2; }
  [[nodiscard]] bool serves(fabric::NodeId node) const { return node < serving_nodes; }
  [[nodiscard]] std::uint32_t client_number(fabric::NodeId node, std::uint32_t worker) const {
    return (node - server_nodes) * client_workers + worker;
  }
};

// Adds the options PROTOCOL.allocation, PROTOCOL.chunk-blocks, PROTOCOL.alloc-cpu and PROTOCOL.alloc-timeout
// to `specs`.
void add_options(std::vector<kv::OptionSpec>& specs, const std::string& protocol);
// Number of server workers of a node that the options require in addition to the protocol's own: 1, the
// management worker, if clients get their blocks in chunks; otherwise 0.
[[nodiscard]] std::uint32_t managers(const kv::Options& options);
// Whether the options place the protocol's data on nodes that drive no load, so that the deployment needs
// such nodes (PROTOCOL.placement remote).
[[nodiscard]] bool needs_memory_nodes(const kv::Options& options);
// Refuses a CPU time of ALLOCs where no client makes any. The size of a chunk is not refused: experiments
// compare systems with and without chunks along it.
[[nodiscard]] Result<> check_unused(const std::string& protocol, const kv::Options& options);
// Refuses what check_unused() refuses, and any other number of server workers than managers(); for a protocol
// without server workers of its own.
[[nodiscard]] Result<> check_servers(const std::string& protocol, const kv::DeployConfig& config,
                                     const kv::Options& options);
// The plan by which each node gives out `blocks` blocks, of which the first has number `first`; none if the
// options choose no chunks.
[[nodiscard]] std::optional<ChunkPlan> plan_chunks(const std::string& protocol,
                                                   const kv::DeployConfig& config, const kv::Options& options,
                                                   std::uint64_t first, std::uint64_t blocks);

}  // namespace loch::chunks
