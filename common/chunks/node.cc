// Answers clients' ALLOC requests (for a chunk of blocks) one after another, and sums up a node's counters.
#include "common/chunks/node.h"

#include <cstring>

namespace loch::chunks {

ChunkNode::ChunkNode(const ChunkPlan& plan, fabric::NodeId node, rpc::MessageRegions regions)
    : plan_(plan), regions_(regions), clients_(plan.client_workers) {
  if (plan.serves(node)) manager_ = std::make_unique<Manager>(plan);
}

Result<std::unique_ptr<ChunkNode>> ChunkNode::make(fabric::Fabric& fabric, fabric::NodeId node,
                                                   const ChunkPlan* plan) {
  if (plan == nullptr) return std::unique_ptr<ChunkNode>();
  LOCH_ASSIGN(const rpc::MessageRegions regions, rpc::register_messages(fabric, node, plan->messages));
  return std::unique_ptr<ChunkNode>(new ChunkNode(*plan, node, regions));
}

coro::Task<void> ChunkNode::manage(ChunkNode* self, fabric::Worker* worker) {
  rpc::MessageServer channel(self->plan_.messages, self->regions_, *worker, 0, self->memory_);
  for (;;) {
    const rpc::Incoming request = co_await channel.next();
    if (request.outcome != rpc::Incoming::Outcome::request) break;
    co_await worker->compute(worker->costs().operation() + self->plan_.cpu);
    Ask ask;
    if (request.length == sizeof ask) std::memcpy(&ask, request.data, sizeof ask);
    const std::optional<Chunk> chunk = self->manager_->allocate(ask);
    if (!chunk) {
      channel.drop(request);
      continue;
    }
    std::byte* const out = co_await channel.reply_buffer();
    const Answer answer{chunk->first, chunk->count, ask.number};
    std::memcpy(out, &answer, sizeof answer);
    channel.reply(request, sizeof answer);
  }
  co_await channel.close();
}

Client& ChunkNode::client(fabric::Worker& worker, Stock& stock) {
  std::unique_ptr<Client>& own = clients_.at(worker.index());
  if (own == nullptr) own = std::make_unique<Client>(plan_, regions_, worker, stock);
  return *own;
}

void ChunkNode::count(std::map<std::string, double>& all) const {
  ClientCounts sum;
  for (const auto& each : clients_) {
    if (each == nullptr) continue;
    const ClientCounts& own = each->counts();
    sum.allocs += own.allocs;
    sum.alloc_ns += own.alloc_ns;
    sum.waits += own.waits;
    sum.wait_ns += own.wait_ns;
    sum.full += own.full;
    sum.unanswered += own.unanswered;
  }
  const Manager::Counts given = manager_ == nullptr ? Manager::Counts{} : manager_->counts();
  const auto add = [&](const char* name, std::uint64_t count) { all[name] += static_cast<double>(count); };
  add("allocs", sum.allocs);
  add("alloc_ns", sum.alloc_ns);
  add("allocs_full", sum.full);
  add("allocs_unanswered", sum.unanswered);
  add("chunk_waits", sum.waits);
  add("chunk_wait_ns", sum.wait_ns);
  add("chunks_given", given.given);
  add("allocs_repeated", given.repeated);
  add("blocks_not_given", manager_ == nullptr ? 0 : manager_->left());
}

}  // namespace loch::chunks
