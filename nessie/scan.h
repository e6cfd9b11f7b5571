// Reading whole shares of the index, as repairs do.
#pragma once

#include <vector>

#include "nessie/lane.h"

namespace loch::nessie {

struct Finding {
  cuckoo::Place place;
  Word word = 0;
};

// Every word of one share of the index that names an entry (tags included), by READs of many at a time.
// False: the share cannot be read, lies nowhere, or was never laid out.
[[nodiscard]] coro::Task<bool> scan_index(Lane* lane, std::uint32_t share, std::vector<Finding>* found);

}  // namespace loch::nessie
