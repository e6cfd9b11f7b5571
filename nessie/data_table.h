// The DTEs of one node that one worker owns: allocation, and reuse after expiry (2017, 4.2.5 and
// 4.3.1). Each worker of a node owns every W-th entry, so that no lock is needed: only the owner
// allocates an entry and finds that it may be reused; anyone may stamp it. A stamp names the incarnation
// of the entry that left the index: one that arrives late, or again, is dropped (A2).
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
    std::uint32_t first = 0;  // entries first, first + step, … below `entries` are this owner's
    std::uint32_t step = 1;
    std::uint32_t entries = 0;    // of the whole node
    std::uint32_t preloaded = 0;  // of the whole node, from entry 0 on: in use from the start
  };
  struct Counts {
    std::uint64_t allocated = 0, recycled = 0, scanned = 0, exhausted = 0, stamps_dropped = 0;
  };

  // The rules that matter: honours_expiry, stamps_name_incarnation. `incarnation`: of the node's memory.
  DataTable(fabric::Region& region, const EntryLayout& layout, const WordFormat& format, const Share& share,
            Nanos margin, const Rules& rules, std::uint32_t incarnation);

  // A free entry in its next incarnation, not yet written, or nothing: every entry is in use or
  // waits for its expiry, and the caller backs off. Scans for expired ones when the free list is
  // empty; `node_now` is the node's clock.
  [[nodiscard]] std::optional<EntryId> allocate(Nanos node_now);
  // Brings the entry that allocate() would give, as things stand, into the cache, to be written.
  void prefetch_next() const;
  // Gives back an entry that no index word ever named: free at once, and the same incarnation comes again,
  // so that an attempt that leads to nothing uses up no generation.
  void release(const EntryId& id);
  // Looks at up to `most` entries, from where the last scan stopped, and frees those whose deadline
  // lies strictly before node_now - margin. Returns how many were freed.
  std::uint32_t scan(Nanos node_now, std::uint32_t most);

  // An entry that may have left the index without a stamp, or of which somebody suspects it: whether any word
  // still names it is for its owner to find out (doubts.cc). Nothing when there is none.
  [[nodiscard]] std::optional<EntryId> take_doubt();
  void doubt(std::uint32_t index) { doubts_.push_back(index); }
  // The node's memory is a new incarnation since it was declared lost; nothing of the old one is left.
  void begin_incarnation(std::uint32_t incarnation) { incarnation_ = incarnation; }
  [[nodiscard]] bool has_doubts() const { return !doubts_.empty(); }
  // The identity (incarnation, generation) that the entry has now.
  [[nodiscard]] EntryId current(std::uint32_t index) const;
  // Entries that may be allocated at once.
  [[nodiscard]] const std::vector<std::uint32_t>& free_entries() const { return free_; }
  // Whether the entry was ever allocated (or preloaded), and is of this owner.
  [[nodiscard]] bool was_used(std::uint32_t index) const {
    return owns(index) && (index - share_.first) / share_.step < fresh_;
  }
  [[nodiscard]] bool owns(std::uint32_t index) const {
    return index < share_.entries && index % share_.step == share_.first % share_.step;
  }

  // Entries looked at since the last call: CPU time is charged by it.
  [[nodiscard]] std::uint64_t take_scanned();
  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] std::uint32_t owned() const { return owned_; }
  // Whether a scan may find expired entries; before next_scan_ none can have expired.
  [[nodiscard]] bool is_scan_due(Nanos node_now) const { return node_now >= next_scan_; }
  void no_scan_before(Nanos node_time) { next_scan_ = std::max(next_scan_, node_time); }
  // Few entries are left that need no scan: the background should look for expired ones.
  [[nodiscard]] bool is_short() const { return owned_ - fresh_ + free_.size() < owned_ / 8 + 1; }

  // Offset of an entry in the node's data region.
  [[nodiscard]] std::uint64_t offset(std::uint32_t index) const { return index * layout_.stride(); }

 private:
  [[nodiscard]] std::byte* word_at(std::uint32_t index, std::uint32_t within) const {
    return region_.at(offset(index) + within);
  }
  [[nodiscard]] EntryId take(std::uint32_t index);
  void put_back(std::uint32_t index);
  // What to do about a stamp other than "live".
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
  std::uint32_t fresh_ = 0;        // the next of the owned entries that was never used; counts up to owned_
  std::uint32_t cursor_ = 0;       // scan position
  std::uint32_t since_found_ = 0;  // entries scanned since one was freed
  Nanos earliest_ = 0;             // earliest deadline seen since that scan
  Nanos next_scan_ = 0;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> doubts_;
  Counts counts_;
  std::uint64_t uncharged_ = 0;
};

}  // namespace loch::nessie
