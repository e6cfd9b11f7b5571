// What an operation of Nessie works with. A Lane is one window slot of a client worker, or the worker's
// background work or its repairs: buffers, connections, the worker's own entries, and nothing of any
// operation. An Access is what one attempt of an operation takes along: the lane, whom its requests count
// for, and since when it runs.
//
// Every operation and every step of one is a coroutine of its own that says what it takes and returns:
// operations.h has the three that a client calls, and each header names the section of the paper that it is.
// A lane runs one operation at a time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/coro/task.h"
#include "common/fabric/fabric.h"
#include "nessie/store.h"

namespace loch::nessie {

// How one attempt of an operation ended.
enum class Attempt : std::uint8_t {
  ok,
  not_found,
  exists,      // INSERT: some slot names a committed entry of the key
  conflict,    // a concurrent operation: back off, start over
  again,       // a MIGRATE made room: start over at once
  expired,     // older than E
  no_entry,    // no free DTE: back off until one has expired
  table_full,  // MIGRATE found no way within its depth
  link_error,  // a node cannot be reached; nothing was changed, or it was taken back
  ambiguous,   // a CAS ended in an error and its node cannot be reached to ask (H17)
};

// Keys that one PUT may move, and one more (nessie.migrate-depth is at most 16).
constexpr std::uint32_t most_moves = 17;

// Entries that the operation under way on a lane has in hand. Whether a word of the index names one is for
// the operation to say: the search for lost entries leaves them alone (doubts.h).
struct InHand {
  bool is_writing = false;                   // the next two are of a PUT or DELETE that is under way
  std::optional<EntryId> fresh;              // allocated, and in no slot
  EntryId linked;                            // an entry whose word is, or may be, in a slot
  std::array<EntryId, most_moves> copies{};  // of the MIGRATEs under way
  std::uint32_t moves = 0;                   // number of `copies` in use
  [[nodiscard]] bool has(const EntryId& id) const;
};

struct Lane {
  // Lane `number` of the node's (Settings::lanes). All that it refers to outlives it.
  Lane(NessieStore& store, fabric::Worker& worker, std::uint32_t number);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Offset in NodeState::words of one of the lane's words.
  [[nodiscard]] std::uint64_t word_at(std::uint32_t word) const { return words_base + 8ULL * word; }
  [[nodiscard]] bool has(Flaw flaw) const { return settings.rules.flaw == flaw; }
  // The next request may well go to this slot's node.
  void expect(const cuckoo::Place& place) const { __builtin_prefetch(&own.shares[place.node]); }

  NessieStore& store;
  const Settings& settings;
  NodeState& node;
  WorkerState& own;
  fabric::Worker& worker;
  std::uint64_t landing_base;  // of the lane's DTE in NodeState::landing
  std::uint64_t words_base;    // of its words in NodeState::words
  // The cache entry that holds the last GET's value, if it came from the cache; released by the next
  // operation.
  kv::WordCache::Pin pinned;
  InHand in_hand;
  std::vector<std::byte> key;  // room for one, for who copies it out of an entry and uses it before awaiting
};

// The context of one attempt, passed by value. The lane outlives every attempt.
struct Access {
  Lane& lane;
  fabric::OpStats* stats = nullptr;  // whom requests count for; null: nobody
  Nanos started = 0;                 // now() when the attempt began
  bool marks_at_once = false;        // a repair's: entries are marked at once, whatever nessie.stamping says

  [[nodiscard]] const Settings& settings() const { return lane.settings; }
  [[nodiscard]] NodeState& node() const { return lane.node; }
  [[nodiscard]] WorkerState& own() const { return lane.own; }
  [[nodiscard]] fabric::Worker& worker() const { return lane.worker; }
  // Older than E: what the attempt has read may be another entry's by now (2017, 4.3.1).
  [[nodiscard]] bool is_over_age() const {
    return settings().rules.checks_time && worker().now() - started >= settings().expiry;
  }
  void count_local() const {
    if (stats != nullptr) ++stats->local_accesses;
  }
};

// May the slot's word name an entry of the key?
[[nodiscard]] inline bool holds_filter(const Settings& settings, Word word, cuckoo::KeyHash& hash) {
  return !settings.format.is_empty(word) && settings.format.filter(word) == hash.filter(settings.filter_bits);
}

}  // namespace loch::nessie
