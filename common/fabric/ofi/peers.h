// What the processes of a run tell each other before the run starts: each node's regions, with their keys,
// and the addresses of its workers' endpoints. The format is JSON; the parser checks every field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/fabric.h"

namespace loch::fabric::ofi {

struct RegionRecord {
  enum Rights : std::uint32_t { can_read = 1, can_write = 2, can_atomic = 4 };
  std::string name;
  std::uint64_t address = 0;  // remote address of the first byte: virtual, or 0 if the provider takes offsets
  std::uint64_t bytes = 0;
  std::uint64_t key = 0;   // libfabric's key of the memory (fi_mr_key)
  std::uint32_t rkey = 0;  // the fabric's own rkey, which a request has to name
  std::uint32_t rights = 0;
  bool operator==(const RegionRecord&) const = default;
};

struct WorkerRecord {
  std::uint16_t index = 0;
  std::string address;  // address of the worker's endpoint in the provider's format; arbitrary bytes
  bool operator==(const WorkerRecord&) const = default;
};

struct NodeRecord {
  NodeId node = 0;
  std::string host;
  std::string provider;
  std::vector<RegionRecord> regions;  // indexed by region id
  std::vector<WorkerRecord> workers;
  bool operator==(const NodeRecord&) const = default;
};

[[nodiscard]] std::string to_text(const NodeRecord& node);
[[nodiscard]] Result<NodeRecord> parse_node(std::string_view text, std::uint32_t nodes);

// What a requester has to know of a node, its own included; set by Fabric::exchange().
struct Peer {
  NodeRecord record;
  // fi_addr_t of each worker's endpoint, by worker index; FI_ADDR_UNSPEC where no worker has the index
  std::vector<std::uint64_t> workers;
  // The endpoint at which one-sided requests to the node arrive: the endpoint of the node's first worker.
  // FI_ADDR_UNSPEC: the node has no endpoint, or was lost before Fabric::exchange().
  std::uint64_t responder = ~std::uint64_t{0};
};

}  // namespace loch::fabric::ofi
