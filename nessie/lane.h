// The resources of Nessie's operations. A Lane belongs to one window slot of a client worker (place for one
// outstanding operation), to the worker's background work or to its repairs. It holds buffers, connections
// and the worker's own entries, and no state of any operation. An Access is the context of one attempt of an
// operation: the lane, the statistics in which its requests are counted, and its start time.
//
// Every operation and every step of an operation is a coroutine with explicit parameters and results:
// operations.h has those that a client calls, and each header names the paper's section that it implements. A
// lane runs one operation at a time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/coro/task.h"
#include "common/fabric/fabric.h"
#include "nessie/store.h"

namespace loch::nessie {

// The result of one attempt of an operation.
enum class Attempt : std::uint8_t {
  ok,
  not_found,
  exists,      // INSERT: some index slot names a committed entry of the key
  conflict,    // a concurrent operation interfered: back off, then start over
  again,       // a MIGRATE (move of a key) has freed a slot: start over at once
  expired,     // the attempt took longer than the expiry period
  no_entry,    // no data table entry is free: back off until one has expired
  table_full,  // a MIGRATE (move of a key) found no free slot within its depth limit
  link_error,  // a node cannot be reached; nothing was changed, or the change is rolled back
  ambiguous,   // a CAS ended in an error and its node cannot be reached to learn the outcome
};

// Largest number of keys that one PUT may move (16, the upper limit of nessie.migrate-depth), plus one.
constexpr std::uint32_t most_moves = 17;

// Entries that the operation under way in a lane (resources of one outstanding operation) uses. The search
// for lost entries (doubts.h) leaves them alone, because only the operation knows whether an index word names
// them.
struct InHand {
  bool is_writing = false;  // whether a PUT or DELETE is under way, so that `fresh` and `linked` are valid
  std::optional<EntryId> fresh;              // an allocated entry that is in no index slot
  EntryId linked;                            // an entry whose word is, or may be, in an index slot
  std::array<EntryId, most_moves> copies{};  // entries into which MIGRATEs (moves of keys) under way copy
  std::uint32_t moves = 0;                   // number of `copies` in use
  [[nodiscard]] bool has(const EntryId& id) const;
};

struct Lane {
  // Makes the lane (resources of one outstanding operation) with this number, which is below
  // Settings::lanes_with_repairs, on the worker's node. `store` and `worker` must outlive the lane.
  Lane(NessieStore& store, fabric::Worker& worker, std::uint32_t number);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Byte offset in NodeState::words of this lane's own 8-byte word number `word` (each outstanding operation
  // has a lane).
  [[nodiscard]] std::uint64_t word_at(std::uint32_t word) const { return words_base + 8ULL * word; }
  // The buffer of this worker's repairs, of Settings::scan_bytes bytes; only the lane for repairs uses it.
  [[nodiscard]] fabric::LocalSlice scan_buffer() const {
    return {node.scan, worker.index() * settings.scan_bytes()};
  }
  [[nodiscard]] bool has(Flaw flaw) const { return settings.rules.flaw == flaw; }
  // Prefetches into the CPU cache the element of `own.shares` that tells on which node the index slot lies,
  // because the next request probably goes to this slot.
  void expect(const cuckoo::Place& place) const { __builtin_prefetch(&own.shares[place.node]); }

  NessieStore& store;
  const Settings& settings;
  NodeState& node;
  WorkerState& own;
  fabric::Worker& worker;
  fabric::Region* landing;     // region of the lane's buffer for READs of entries
  std::uint64_t landing_base;  // byte offset in that region of the buffer
  std::uint64_t words_base;    // byte offset in NodeState::words of the lane's buffer for READs of words
  // The cache entry that holds the value of the last GET, if the value came from the cache; released by
  // the next operation.
  kv::WordCache::Pin pinned;
  InHand in_hand;
  // Buffer into which a key is copied from an entry; its content is valid until the next co_await.
  std::vector<std::byte> key;
};

// The context of one attempt of an operation, passed by value. The lane (resources of one outstanding
// operation) outlives every attempt.
struct Access {
  Lane& lane;
  fabric::OpStats* stats = nullptr;  // statistics in which requests are counted; null: none
  Nanos started = 0;                 // now() when the attempt began
  // true for repairs: marks that entries left the index are written at once, whatever nessie.stamping says
  bool marks_at_once = false;

  [[nodiscard]] const Settings& settings() const { return lane.settings; }
  [[nodiscard]] NodeState& node() const { return lane.node; }
  [[nodiscard]] WorkerState& own() const { return lane.own; }
  [[nodiscard]] fabric::Worker& worker() const { return lane.worker; }
  // Whether the attempt is older than the expiry period, so that entries that it has read may have been
  // reused (Nessie, 2017, 4.3.1).
  [[nodiscard]] bool is_over_age() const {
    return settings().rules.checks_time && worker().now() - started >= settings().expiry;
  }
  void count_local() const {
    if (stats != nullptr) ++stats->local_accesses;
  }
};

// Whether the index slot's word may name an entry of the key: it is occupied and its filter bits match.
[[nodiscard]] inline bool holds_filter(const Settings& settings, Word word, cuckoo::KeyHash& hash) {
  return !settings.format.is_empty(word) && settings.format.filter(word) == hash.filter(settings.filter_bits);
}

}  // namespace loch::nessie
