// Allocates free entries, and reuses retired entries once their retirement has ended.
#include "common/cuckoo/entry_pool.h"

namespace loch::cuckoo {

std::optional<std::uint32_t> EntryPool::allocate(Nanos now) {
  if (!free_.empty()) {
    const std::uint32_t entry = free_.back();
    free_.pop_back();
    return entry;
  }
  // Reuse the entry that was retired first, so that every entry stays retired as long as possible.
  if (!retired_.empty() && retired_.front().until < now) {
    const std::uint32_t entry = retired_.front().entry;
    retired_.pop_front();
    return entry;
  }
  if (fresh_ < entries_) return fresh_++;
  return std::nullopt;
}

}  // namespace loch::cuckoo
