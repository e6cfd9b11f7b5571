// The two messages of an ALLOC, by which a client requests a chunk (run of blocks) from a node.
#pragma once

#include <cstdint>

namespace loch::chunks {

struct Ask {
  std::uint32_t client = 0;  // number of the client worker in the cluster
  std::uint32_t number = 0;  // number of the request among the client's requests to this node, from 1
};

struct Answer {
  std::uint64_t first = 0;
  std::uint32_t count = 0;
  std::uint32_t number = 0;  // number of the request that is answered
};
static_assert(sizeof(Ask) == 8 && sizeof(Answer) == 16);

}  // namespace loch::chunks
