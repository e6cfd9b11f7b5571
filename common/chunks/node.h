// A node's part in allocation in chunks (runs of blocks that clients request): its message buffers, the
// Manager that gives out its blocks if it holds data, and a chunks::Client for each of its client workers.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/chunks/client.h"
#include "common/chunks/manager.h"

namespace loch::chunks {

class ChunkNode {
 public:
  // Registers the node's message buffers; called before Fabric::exchange. Returns null if `plan` is null.
  [[nodiscard]] static Result<std::unique_ptr<ChunkNode>> make(fabric::Fabric& fabric, fabric::NodeId node,
                                                               const ChunkPlan* plan);
  // The main coroutine of the node's management worker, which answers ALLOC requests. `self` outlives it.
  [[nodiscard]] static coro::Task<void> manage(ChunkNode* self, fabric::Worker* worker);
  // The chunks::Client of this client worker, which the first call makes.
  [[nodiscard]] Client& client(fabric::Worker& worker, Stock& stock);
  // Adds the node's counters to `all`.
  void count(std::map<std::string, double>& all) const;

 private:
  ChunkNode(const ChunkPlan& plan, fabric::NodeId node, rpc::MessageRegions regions);

  const ChunkPlan& plan_;
  rpc::MessageRegions regions_;
  rpc::ServerMemory memory_;                      // of the management worker
  std::unique_ptr<Manager> manager_;              // null: the node holds no data
  std::vector<std::unique_ptr<Client>> clients_;  // by worker
};

}  // namespace loch::chunks
