// Decides which chunk (run of blocks) answers a client's ALLOC request.
#include "common/chunks/manager.h"

#include <algorithm>

#include "common/base/probe.h"

namespace loch::chunks {

Manager::Manager(const ChunkPlan& plan)
    : chunk_(plan.chunk),
      flaw_(plan.flaw),
      next_(plan.first),
      end_(plan.first + plan.blocks),
      last_(plan.clients) {}

std::optional<Chunk> Manager::allocate(const Ask& ask) {
  if (ask.client >= last_.size() || ask.number == 0) {
    ++counts_.malformed;
    return std::nullopt;
  }
  Last& last = last_[ask.client];
  if (ask.number < last.number) {
    LOCH_PROBE("chunks.request-stale");
    ++counts_.stale;
    return std::nullopt;
  }
  if (ask.number == last.number) {
    LOCH_PROBE("chunks.request-repeated");
    ++counts_.repeated;
    if (flaw_ == Flaw::repeated_is_free && last.chunk.count != 0) next_ = last.chunk.first;
    return last.chunk;
  }
  const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(chunk_, left()));
  last = {ask.number, {next_, count}};
  next_ += count;
  ++(count == 0 ? counts_.full : counts_.given);
  if (count == 0) LOCH_PROBE("chunks.node-full");
  return last.chunk;
}

}  // namespace loch::chunks
