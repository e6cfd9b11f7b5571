// The free entries of a table that one worker owns. An entry that clients may still be reading is retired: it
// may be reused strictly after a given time.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "common/base/units.h"

namespace loch::cuckoo {

class EntryPool {
 public:
  // A pool of entries 0 … entries-1, of which the first `used` are in use.
  EntryPool(std::uint32_t entries, std::uint32_t used) : entries_(entries), fresh_(used) {}

  // Allocates an entry at time `now`; returns none if all entries are in use or retired (not to be reused
  // yet).
  [[nodiscard]] std::optional<std::uint32_t> allocate(Nanos now);
  // Makes an entry free at once; for an entry that no client can have seen.
  void release(std::uint32_t entry) { free_.push_back(entry); }
  // Makes an entry free after the time `until` (same clock as `now` of allocate()), and not before any
  // entry that was retired earlier.
  void retire(std::uint32_t entry, Nanos until) { retired_.push_back({entry, until}); }

  [[nodiscard]] std::uint64_t retired() const { return retired_.size(); }
  [[nodiscard]] std::uint64_t free() const { return free_.size() + (entries_ - fresh_); }

 private:
  struct Retired {
    std::uint32_t entry;
    Nanos until;
  };
  std::uint32_t entries_;
  std::uint32_t fresh_;  // index of the next entry that was never used
  std::vector<std::uint32_t> free_;
  std::deque<Retired> retired_;
};

}  // namespace loch::cuckoo
