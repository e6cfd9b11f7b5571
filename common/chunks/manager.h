// The manager of one node's blocks of memory, which gives them to clients in chunks (runs of blocks).
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
  // request is older than the client's last one, which the client sends only after it has the older one's
  // answer; or no client sends such a request.
  [[nodiscard]] std::optional<Chunk> allocate(const Ask& ask);
  // Number of blocks that no client has been given yet.
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
