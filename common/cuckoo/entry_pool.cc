// Allocates free entries of a table, among them those that were retired (clients might still read them) until
// a time that has passed.
#include "common/cuckoo/entry_pool.h"

namespace loch::cuckoo {

std::optional<std::uint32_t> EntryPool::allocate(Nanos now) {
  if (!free_.empty()) {
    const std::uint32_t entry = free_.back();
    free_.pop_back();
    return entry;
  }
  // Reuse the entry that was retired first, so that every entry remains unused as long as possible.
  if (!retired_.empty() && retired_.front().until < now) {
    const std::uint32_t entry = retired_.front().entry;
    retired_.pop_front();
    return entry;
  }
  if (fresh_ < entries_) return fresh_++;
  return std::nullopt;
}

}  // namespace loch::cuckoo
