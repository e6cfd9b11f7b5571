// Keeps account of the entries of memory nodes that a client worker owns.
#include "nessie/holdings.h"

#include "common/base/check.h"

namespace loch::nessie {

std::size_t Holdings::left(fabric::NodeId node) const {
  return of_node_[node].free.size() + of_node_[node].unused_count;
}

void Holdings::add(fabric::NodeId node, chunks::Chunk chunk) {
  if (chunk.count == 0) return;
  OfNode& own = of_node_.at(node);
  own.unused.push_back(chunk);
  own.granted.push_back(chunk);
  own.unused_count += chunk.count;
}

std::optional<EntryId> Holdings::take(fabric::NodeId node) {
  OfNode& own = of_node_.at(node);
  if (!own.free.empty()) {
    const Free next = own.free.back();
    own.free.pop_back();
    ++counts_.allocated;
    return EntryId{node, next.index, next.generation};
  }
  if (own.unused.empty()) return std::nullopt;
  chunks::Chunk& run = own.unused.front();
  const EntryId id{node, static_cast<std::uint32_t>(run.first), format_.next_generation(0)};
  ++run.first;
  if (--run.count == 0) own.unused.pop_front();
  --own.unused_count;
  ++counts_.allocated;
  return id;
}

void Holdings::give_back(const EntryId& id) {
  of_node_.at(id.node).free.push_back({id.index, id.generation});
}

void Holdings::retire(const EntryId& id, Nanos free_at) { retired_.push_back({id, free_at}); }

void Holdings::reclaim(Nanos now) {
  while (!retired_.empty() && retired_.front().free_at < now) {
    const EntryId id = retired_.front().id;
    retired_.pop_front();
    of_node_.at(id.node).free.push_back({id.index, format_.next_generation(id.generation)});
    ++counts_.recycled;
  }
}

std::vector<std::uint32_t> Holdings::owned(fabric::NodeId node) const {
  std::vector<std::uint32_t> all;
  for (const Free& each : of_node_.at(node).free) all.push_back(each.index);
  for (const chunks::Chunk& run : of_node_[node].unused) {
    for (std::uint32_t i = 0; i < run.count; ++i) all.push_back(static_cast<std::uint32_t>(run.first) + i);
  }
  for (const Retired& each : retired_) {
    if (each.id.node == node) all.push_back(each.id.index);
  }
  return all;
}

}  // namespace loch::nessie
