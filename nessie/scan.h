// Reads whole shares of the index (the parts of the nodes), and the headers of many entries, for repairs.
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

// The words of an entry's header behind its key, as one READ transferred them.
struct HeaderWords {
  Word prev = 0, stamp = 0, meta = 0;
};

// The largest number of headers that one call of read_headers() reads, at least 1.
[[nodiscard]] std::uint32_t headers_at_once(const Settings& settings);

// Reads the headers of the entries `first` to `first` + `count` - 1 of a node, and puts them into `headers`.
// All READs are outstanding at once. Where entries are small, one READ transfers many headers, with the
// values between. Such a READ is no more atomic than the READ of one header: each word is of an instant of
// its own. Repeats failed READs over a new connection. Returns false if the node cannot be read.
[[nodiscard]] coro::Task<bool> read_headers(Lane* lane, fabric::NodeId node, std::uint32_t first,
                                            std::uint32_t count, std::vector<HeaderWords>* headers);

}  // namespace loch::nessie
