// A client worker's side of allocation in chunks: asks nodes for chunks, ahead of need where the worker's
// background work runs, and lets operations wait that find no block.
#pragma once

#include <coroutine>
#include <cstdint>
#include <deque>
#include <vector>

#include "common/chunks/plan.h"
#include "common/coro/scope.h"
#include "common/coro/task.h"
#include "common/fabric/fabric.h"

namespace loch::chunks {

// The free blocks of a client worker, which its protocol keeps.
class Stock {
 public:
  virtual ~Stock() = default;
  [[nodiscard]] virtual std::size_t left(fabric::NodeId node) const = 0;
  virtual void add(fabric::NodeId node, Chunk chunk) = 0;
};

enum class Supply : std::uint8_t {
  ready,        // the stock has a block, until the next co_await
  full,         // it has none, and neither has the node
  unreachable,  // it has none, and the node does not answer
};

struct ClientCounts {
  std::uint64_t allocs = 0, alloc_ns = 0;  // requests that were answered, and how long that took together
  std::uint64_t waits = 0, wait_ns = 0;  // operations that found no block, and how long they waited together
  std::uint64_t full = 0, unanswered = 0;  // requests for which the node had no block, and without an answer
};

// Used by its worker's thread alone.
class Client {
 public:
  // `stock` outlives the client.
  Client(const ChunkPlan& plan, const rpc::MessageRegions& regions, fabric::Worker& worker, Stock& stock);
  Client(const Client&) = delete;

  // Waits until the stock has a block of the node, for an operation that takes one at once. `stats` gets what
  // the operation itself asks for.
  [[nodiscard]] coro::Task<Supply> supply(fabric::NodeId node, fabric::OpStats* stats);
  // Runs the worker's background work, beside which chunks are asked for ahead of need.
  [[nodiscard]] coro::Task<void> run_beside(coro::Task<void> background);
  [[nodiscard]] const ClientCounts& counts() const { return counts_; }

 private:
  class Turn;
  class Beside;
  // What this worker has asked of a node.
  struct Link {
    std::uint32_t number = 0;  // of the last request that was answered
    bool is_asking = false;    // whether a request is under way
    bool is_full = false;      // whether the node has said that it has no block left
    std::uint32_t failures = 0;
    std::deque<Turn*> waiting;  // operations that wait until the request has ended
  };
  void keep_ahead(fabric::NodeId node);
  // Asks the node for a chunk; its Link::is_asking is set.
  [[nodiscard]] coro::Task<void> ask(fabric::NodeId node, fabric::OpStats* stats);

  const ChunkPlan& plan_;
  fabric::Worker& worker_;
  Stock& stock_;
  rpc::MessageClient channel_;
  coro::Scope* beside_ = nullptr;  // of the background work; null: it does not run
  std::vector<Link> links_;        // by node
  ClientCounts counts_;
};

}  // namespace loch::chunks
