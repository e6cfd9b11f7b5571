// A client worker's side of allocation in chunks (runs of blocks): requests chunks from nodes, ahead of need
// while the worker's background work runs, and lets operations that find no free block wait for one.
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

// Interface to the free blocks of a client worker, which its protocol keeps.
class Stock {
 public:
  virtual ~Stock() = default;
  [[nodiscard]] virtual std::size_t left(fabric::NodeId node) const = 0;
  virtual void add(fabric::NodeId node, Chunk chunk) = 0;
};

enum class Supply : std::uint8_t {
  ready,        // the worker has a free block of the node, until the next co_await
  full,         // neither the worker nor the node has a free block
  unreachable,  // the worker has no free block of the node, and the node does not answer
};

struct ClientCounts {
  std::uint64_t allocs = 0, alloc_ns = 0;  // answered ALLOC requests, and the sum of their durations
  std::uint64_t waits = 0, wait_ns = 0;  // operations that found no block, and how long they waited together
  std::uint64_t full = 0, unanswered = 0;  // ALLOCs that found the node full; ALLOCs without an answer
};

// Requests chunks for one worker; used by the worker's thread alone.
class Client {
 public:
  // `stock` has to outlive the client.
  Client(const ChunkPlan& plan, const rpc::MessageRegions& regions, fabric::Worker& worker, Stock& stock);
  Client(const Client&) = delete;

  // Waits until `stock` has a block of the node; the caller takes the block before its next co_await. `stats`
  // counts the work requests of an ALLOC that this call itself makes.
  [[nodiscard]] coro::Task<Supply> supply(fabric::NodeId node, fabric::OpStats* stats);
  // Runs the worker's background work; while it runs, chunks are requested ahead of need.
  [[nodiscard]] coro::Task<void> run_beside(coro::Task<void> background);
  [[nodiscard]] const ClientCounts& counts() const { return counts_; }

 private:
  class Turn;
  class Beside;
  // This worker's ALLOC requests to one node.
  struct Link {
    std::uint32_t number = 0;  // number of the last request that was answered
    bool is_asking = false;    // whether a request is under way
    bool is_full = false;      // whether the node has said that it has no block left
    std::uint32_t failures = 0;
    std::deque<Turn*> waiting;  // operations that wait until the request has ended
  };
  void keep_ahead(fabric::NodeId node);
  // Requests a chunk from the node. The caller has set the node's Link::is_asking.
  [[nodiscard]] coro::Task<void> ask(fabric::NodeId node, fabric::OpStats* stats);

  const ChunkPlan& plan_;
  fabric::Worker& worker_;
  Stock& stock_;
  rpc::MessageClient channel_;
  coro::Scope* beside_ = nullptr;  // scope for requests ahead of need; null: no background work runs
  std::vector<Link> links_;        // by node
  ClientCounts counts_;
};

}  // namespace loch::chunks
