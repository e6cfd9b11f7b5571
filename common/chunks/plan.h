// Memory of nodes that clients get in chunks. A client worker begins with no block of any node. It asks a
// node's management worker for a chunk, a run of blocks, by a small request (ALLOC), takes blocks from the
// chunk one by one, and asks for the next chunk before it has used up what it has. A management worker
// answers ALLOC and nothing else, so that a node of memory needs no more than a weak CPU.
//
//   request   | client u32 | number u32 |
//   reply     | first block u64 | blocks u32 | number u32 |     blocks 0: the node has none left
//
// A client numbers its requests to each node; it repeats a request under its number until it is answered, and
// a manager answers a repeated number with the chunk that it gave (Manager). A chunk is never given back: it
// belongs to its client, and nobody's after the client has died.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/kv/protocol.h"
#include "common/rpc/message_channel.h"

namespace loch::chunks {

// A run of blocks of one node.
struct Chunk {
  std::uint64_t first = 0;
  std::uint32_t count = 0;  // 0: no block
  friend bool operator==(const Chunk&, const Chunk&) = default;
};

// A known-bad variant, for mutants that the tests have to find.
enum class Flaw : std::uint8_t {
  none,
  repeated_is_free,  // a chunk whose request is repeated is given to the next client as well
};

// How the blocks of the nodes that hold data are given out.
struct ChunkPlan {
  std::uint64_t first = 0, blocks = 0;  // of each node: blocks `first` to `first` + `blocks` - 1
  std::uint32_t chunk = 1;              // blocks in a chunk
  Nanos cpu = 0;                        // CPU time of an ALLOC beside what the profile says of a request
  std::uint32_t serving_nodes = 1, server_nodes = 0, client_workers = 1, clients = 1;
  rpc::MessageShape messages;
  Flaw flaw = Flaw::none;

  // A client asks for another chunk when fewer free blocks of a node than this are left to it.
  [[nodiscard]] std::uint32_t ahead() const { return (chunk + 1) / 2; }
  [[nodiscard]] bool serves(fabric::NodeId node) const { return node < serving_nodes; }
  [[nodiscard]] std::uint32_t client_number(fabric::NodeId node, std::uint32_t worker) const {
    return (node - server_nodes) * client_workers + worker;
  }
};

// The options PROTOCOL.allocation, PROTOCOL.chunk-blocks, PROTOCOL.alloc-cpu and PROTOCOL.alloc-timeout,
// which are added to `specs`.
void add_options(std::vector<kv::OptionSpec>& specs, const std::string& protocol);
// The number of server workers of a node that the options ask for beside those of the protocol: 1, its
// management worker, where clients get chunks.
[[nodiscard]] std::uint32_t managers(const kv::Options& options);
// Refuses any other number of server workers than managers(), for a protocol that has none of its own.
[[nodiscard]] Result<> check_servers(const std::string& protocol, const kv::DeployConfig& config,
                                     const kv::Options& options);
// How `blocks` blocks of each node, of which the first has number `first`, are given out; none: no chunks.
[[nodiscard]] std::optional<ChunkPlan> plan_chunks(const std::string& protocol,
                                                   const kv::DeployConfig& config, const kv::Options& options,
                                                   std::uint64_t first, std::uint64_t blocks);

}  // namespace loch::chunks
