// The data table entries (DTEs) of a node that one worker owns: allocation, and reuse after expiry (Nessie,
// 2017, 4.2.5 and 4.3.1). Each entry of a node has one worker as its owner, so that no lock is needed: only
// the owner allocates an entry and decides that it may be reused, while any client may stamp it, that is,
// mark that it has left the index. A stamp names the incarnation of the entry that left the index; a stamp
// that arrives late or twice is dropped (case A2 in docs/protocols/nessie.md).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/units.h"
#include "common/fabric/region.h"
#include "nessie/layout.h"
#include "nessie/rules.h"

namespace loch::nessie {

class DataTable {
 public:
  struct Share {
    // this owner has the entries first, first + step, first + 2 step, … of the node, up to `entries`
    std::uint32_t first = 0;
    std::uint32_t step = 1;
    std::uint32_t entries = 0;    // number of entries of the whole node
    std::uint32_t preloaded = 0;  // entries 0 to preloaded - 1 of the node are in use from the start
  };
  struct Counts {
    std::uint64_t allocated = 0, recycled = 0, scanned = 0, exhausted = 0, stamps_dropped = 0;
  };

  // `margin` is the allowed clock skew, `incarnation` the current incarnation of the node's memory.
  DataTable(fabric::Region& region, const EntryLayout& layout, const WordFormat& format, const Share& share,
            Nanos margin, const Rules& rules, std::uint32_t incarnation);

  // Allocates a free entry and returns its identity with the next generation; the caller writes the entry.
  // Scans for expired entries only if no free or never used entry is left; `node_now` is the node's clock.
  // Returns none if every entry is in use or waits for its expiry; the caller then backs off.
  [[nodiscard]] std::optional<EntryId> allocate(Nanos node_now);
  // Prefetches the entry that allocate() would return next into the CPU cache, since it will be written.
  void prefetch_next() const;
  // Frees an allocated entry that no index word ever named. The entry may be allocated again at once, with
  // the same generation, so that failed attempts use up no generation numbers.
  void release(const EntryId& id);
  // Examines up to `most` entries, continuing where the last scan stopped, and frees those whose deadline
  // lies strictly before node_now - margin. Returns the number freed.
  std::uint32_t scan(Nanos node_now, std::uint32_t most);

  // Removes and returns an entry in doubt: one that has left the index without a stamp (the mark that it
  // left), or may have. The owner finds out whether an index word names the entry (doubts.cc). Returns none
  // if no entry is in doubt.
  [[nodiscard]] std::optional<EntryId> take_doubt();
  void doubt(std::uint32_t index) { doubts_.push_back(index); }
  // Sets the incarnation of the node's memory after the node was declared lost and lost all its entries.
  void begin_incarnation(std::uint32_t incarnation) { incarnation_ = incarnation; }
  [[nodiscard]] bool has_doubts() const { return !doubts_.empty(); }
  // The entry's current identity (incarnation of the memory, and generation).
  [[nodiscard]] EntryId current(std::uint32_t index) const;
  // The free list: entries that may be allocated at once.
  [[nodiscard]] const std::vector<std::uint32_t>& free_entries() const { return free_; }
  // Whether the entry belongs to this owner and was ever allocated or preloaded.
  [[nodiscard]] bool was_used(std::uint32_t index) const {
    return owns(index) && (index - share_.first) / share_.step < fresh_;
  }
  [[nodiscard]] bool owns(std::uint32_t index) const {
    return index < share_.entries && index % share_.step == share_.first % share_.step;
  }

  // Returns the number of entries scanned since the last call of this function; the caller charges CPU time
  // for them.
  [[nodiscard]] std::uint64_t take_scanned();
  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] std::uint32_t owned() const { return owned_; }
  // Whether a scan may find expired entries: no entry expires before next_scan_.
  [[nodiscard]] bool is_scan_due(Nanos node_now) const { return node_now >= next_scan_; }
  void no_scan_before(Nanos node_time) { next_scan_ = std::max(next_scan_, node_time); }
  // Whether less than about an eighth of the entries can be allocated without a scan, so that the background
  // work should scan for expired entries.
  [[nodiscard]] bool is_short() const {
    return owned_ > 0 && owned_ - fresh_ + free_.size() < owned_ / 8 + 1;
  }

  // Byte offset of an entry in the node's data region.
  [[nodiscard]] std::uint64_t offset(std::uint32_t index) const { return index * layout_.stride(); }

 private:
  [[nodiscard]] std::byte* word_at(std::uint32_t index, std::uint32_t within) const {
    return region_.at(offset(index) + within);
  }
  [[nodiscard]] EntryId take(std::uint32_t index);
  void put_back(std::uint32_t index);
  // What a scan does with an entry whose stamp (mark with a deadline) says that it has left the index: frees
  // it, waits for its expiry, drops the stamp, or puts the entry in doubt, so that its owner examines whether
  // an index word names it.
  enum class Verdict : std::uint8_t { free_now, wait, dropped, doubted };
  [[nodiscard]] Verdict judge(std::uint32_t index, const Stamp& stamp, Nanos node_now) const;

  fabric::Region& region_;
  const EntryLayout& layout_;
  const WordFormat& format_;
  Share share_;
  Nanos margin_;
  bool honours_expiry_;
  bool names_incarnation_;
  bool frees_suspects_;
  std::uint32_t incarnation_;
  std::uint32_t owned_ = 0;
  std::uint32_t fresh_ = 0;        // number of owned entries that have ever been used
  std::uint32_t cursor_ = 0;       // position at which the next scan begins
  std::uint32_t since_found_ = 0;  // entries scanned since the last one that was freed
  Nanos earliest_ = 0;             // earliest deadline that scans have seen since they last freed an entry
  Nanos next_scan_ = 0;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> doubts_;
  Counts counts_;
  std::uint64_t uncharged_ = 0;
};

}  // namespace loch::nessie
