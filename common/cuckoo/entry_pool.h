// The free entries of a table that one worker owns. An entry that others may still be reading is retired
// until a time, and free strictly after it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "common/base/units.h"

namespace loch::cuckoo {

class EntryPool {
 public:
  // Entries 0 … entries-1, the first `used` of them in use.
  EntryPool(std::uint32_t entries, std::uint32_t used) : entries_(entries), fresh_(used) {}

  // Allocates an entry; none if all are in use or retired.
  [[nodiscard]] std::optional<std::uint32_t> allocate(Nanos now);
  // Free at once: nobody else can know it.
  void release(std::uint32_t entry) { free_.push_back(entry); }
  // Free after `until`; by the same clock as `now`, and never before one that was retired earlier.
  void retire(std::uint32_t entry, Nanos until) { retired_.push_back({entry, until}); }

  [[nodiscard]] std::uint64_t retired() const { return retired_.size(); }
  [[nodiscard]] std::uint64_t free() const { return free_.size() + (entries_ - fresh_); }

 private:
  struct Retired {
    std::uint32_t entry;
    Nanos until;
  };
  std::uint32_t entries_;
  std::uint32_t fresh_;  // the next entry that was never used
  std::vector<std::uint32_t> free_;
  std::deque<Retired> retired_;
};

}  // namespace loch::cuckoo
