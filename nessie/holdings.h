// The data table entries (DTEs) of memory nodes that one client worker owns (nessie.placement remote). An
// entry that an index word names has no owner. The worker whose CAS takes the word out of its slot owns the
// entry from then on, and reuses it after the expiry period; so nothing has to be stamped (marked for its
// owner), and no entry of another node is scanned. Entries that were never used come from the preload or in
// chunks (runs of entries that a memory node's management worker gives out; common/chunks).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "common/chunks/client.h"
#include "nessie/word.h"

namespace loch::nessie {

class Holdings final : public chunks::Stock {
 public:
  struct Counts {
    std::uint64_t allocated = 0, recycled = 0, exhausted = 0, given_up = 0;
  };

  // `writer` is the number by which the entries that this worker writes name it; `nodes`: the number of
  // memory nodes. `format` has to outlive the object.
  Holdings(const WordFormat& format, std::uint32_t nodes, std::uint16_t writer)
      : format_(format), writer_(writer), of_node_(nodes) {}

  [[nodiscard]] std::size_t left(fabric::NodeId node) const override;
  // Adds a run of entries that were never used.
  void add(fabric::NodeId node, chunks::Chunk chunk) override;

  // Takes a free entry of the node, whose next use gets the next generation; none: no entry is free.
  [[nodiscard]] std::optional<EntryId> take(fabric::NodeId node);
  // Returns an entry that take() gave and that no index word ever named. It may be taken again at once, with
  // the same generation.
  void give_back(const EntryId& id);
  // Makes the worker the owner of an entry that its CAS took out of the index; it may be taken again after
  // `free_at`.
  void retire(const EntryId& id, Nanos free_at);
  // To be called if it is unknown whether this worker took the entry out of the index: the entry stays out of
  // use, because another worker may own it.
  void give_up() { ++counts_.given_up; }
  // Frees the retired entries whose time has come.
  void reclaim(Nanos now);
  void count_exhausted() { ++counts_.exhausted; }

  [[nodiscard]] std::uint16_t writer() const { return writer_; }
  [[nodiscard]] const Counts& counts() const { return counts_; }

  // For the audit: the runs that this worker ever got of the node, and the entries of the node that it owns.
  [[nodiscard]] const std::vector<chunks::Chunk>& granted(fabric::NodeId node) const {
    return of_node_[node].granted;
  }
  [[nodiscard]] std::vector<std::uint32_t> owned(fabric::NodeId node) const;

 private:
  // A free entry that was used before, and the generation that its next use gets.
  struct Free {
    std::uint32_t index = 0;
    std::uint32_t generation = 0;
  };
  struct OfNode {
    std::vector<Free> free;            // the entry that became free last is at the end, and is used first
    std::deque<chunks::Chunk> unused;  // entries that were never used
    std::uint64_t unused_count = 0;
    std::vector<chunks::Chunk> granted;
  };
  struct Retired {
    EntryId id;
    Nanos free_at = 0;
  };
  const WordFormat& format_;
  std::uint16_t writer_;
  std::vector<OfNode> of_node_;
  std::deque<Retired> retired_;  // in the order in which they left the index
  Counts counts_;
};

}  // namespace loch::nessie
