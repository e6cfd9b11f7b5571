// Reads whole shares of the index (the parts of the nodes), for repairs.
#pragma once

#include <vector>

#include "nessie/lane.h"

namespace loch::nessie {

struct Finding {
  cuckoo::Place place;
  Word word = 0;
};

// Appends every word of one share of the index that names an entry (occupied, or EMPTY with a tag that names
// the copy made by a MIGRATE), with its slot; each READ transfers many words. Returns false if the share
// cannot be read, lies on no node, or was never initialised.
[[nodiscard]] coro::Task<bool> scan_index(Lane* lane, std::uint32_t share, std::vector<Finding>* found);

}  // namespace loch::nessie
