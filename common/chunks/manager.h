// Gives out the blocks of one node, chunk after chunk.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/chunks/plan.h"
#include "common/chunks/wire.h"

namespace loch::chunks {

class Manager {
 public:
  struct Counts {
    std::uint64_t given = 0, repeated = 0, stale = 0, full = 0, malformed = 0;
  };
  explicit Manager(const ChunkPlan& plan);
  // The chunk for this request: the next one, or for a repeated request the one that it got before. None: the
  // request is older than the client's last, whose answer the client has, or no client sends it.
  [[nodiscard]] std::optional<Chunk> allocate(const Ask& ask);
  // Blocks that nobody has yet.
  [[nodiscard]] std::uint64_t left() const { return end_ - next_; }
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  struct Last {
    std::uint32_t number = 0;
    Chunk chunk;
  };
  std::uint32_t chunk_;
  Flaw flaw_;
  std::uint64_t next_, end_;
  std::vector<Last> last_;  // by client
  Counts counts_;
};

}  // namespace loch::chunks
