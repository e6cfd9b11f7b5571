// Data table entries (Nessie, 2017, 4.1.1): fetches an entry from this node's data table or by a READ into a
// buffer of the client, and writes entries of this node.
#pragma once

#include <optional>

#include "nessie/arrival.h"
#include "nessie/lane.h"

namespace loch::nessie {

// How much of an entry a READ transfers: the header (key and words) or all of it. An entry in local memory is
// always available as a whole.
enum class Extent : std::uint8_t { header, full };

// The result of fetching a data table entry (DTE), which lies in local memory or in the client's buffer for
// READ data.
struct Fetched {
  // False if the entry's node cannot be reached, its memory was lost, or the entry is no longer the one
  // that the word named.
  bool ok = false;
  Attempt why = Attempt::link_error;  // how the attempt ends if `ok` is false: expired or link_error
  bool is_gone = false;               // the entry's node was declared lost
  bool is_replaced = false;           // true: the entry was reused since the index word was written
  bool is_key = false;                // true: the entry has the wanted key (set by fetch_for only)
  bool is_local = false;
  bool is_unsettled = false;  // the READ failed, and settle_entry() has to follow (set by EntryRequest only)
  onesided::Ended ended;      // how the READ failed, if it is unsettled
  Extent extent = Extent::header;
  EntryMeta meta;
  Word prev = 0;
  fabric::Region* region = nullptr;  // region that holds the fetched bytes until the lane's next fetch
  std::uint64_t offset = 0;
};

// Fetches the entry that the word names, whatever its key. A failed READ is repeated once over a new
// connection. An entry that was reused, or whose memory is lost, is an error and not a miss (lost nodes, case
// A4 in docs/protocols/nessie.md).
[[nodiscard]] coro::Task<Fetched> fetch(Access access, Word word, Extent extent);
// Fetches the entry as fetch() does, and compares its key with `key`.
[[nodiscard]] coro::Task<Fetched> fetch_for(Access access, Word word, Extent extent, kv::Key key);

// A READ of another node's entry into a buffer of the client, in the form in which onesided::try_again()
// repeats it after an error. An entry may span several cache lines; polling its last byte is correct only if
// bytes arrive in order (H19 in docs/protocols/nessie.md).
struct EntryReading : LaneReading {
  std::uint64_t offset = 0;
  std::uint32_t length = 0;

  [[nodiscard]] std::optional<fabric::WorkRequest> request() const;
  [[nodiscard]] std::optional<onesided::Landing> landing() const;
};

// Awaits one try to fetch an entry, without a coroutine of its own. If the READ failed (is_unsettled),
// settle_entry() has to follow; the two together do what fetch() does.
class EntryRequest {
 public:
  EntryRequest(Access access, Word word, Extent extent) : access_(access), word_(word) {
    found_.extent = extent;
  }
  EntryRequest(const EntryRequest&) = delete;
  bool await_ready();
  void await_suspend(std::coroutine_handle<> waiter) { transfer_->await_suspend(waiter); }
  [[nodiscard]] Fetched await_resume();

 private:
  Access access_;
  Word word_;
  Fetched found_;
  std::optional<onesided::Transfer> transfer_;
};
[[nodiscard]] coro::Task<Fetched> settle_entry(Access access, Word word, Fetched found);
// Sets `is_key` of an entry that was fetched.
void compare_key(Access access, kv::Key key, Fetched* found);

// Whether the header read from memory, with the meta word `stored`, belongs to the entry that the index word
// names.
[[nodiscard]] inline bool is_of(const WordFormat& format, const EntryMeta& meta, Word stored,
                                const EntryId& id) {
  if (!WordFormat::is_stored(stored)) return false;
  const bool is_same_incarnation = !format.has_incarnation() || meta.incarnation == id.incarnation;
  return is_same_incarnation && (!format.has_generation() || meta.generation == id.generation);
}

// Whether the operation that linked the entry has committed it (Nessie, 2017, 4.3.2; H9 in
// docs/protocols/nessie.md).
[[nodiscard]] inline bool is_committed(const Settings& settings, Word word, const EntryMeta& meta) {
  return settings.rules.commit == Commit::cas ? !settings.format.is_pending(word) : meta.is_valid;
}

// Writes an entry of this node that no index slot names yet: first key, previous version and value, the meta
// word last. A CAS that is posted later then finds the whole entry in memory (known fault H20 in
// docs/protocols/nessie.md is a CAS that overtakes these stores). An entry of a memory node is written to the
// lane's staging buffer, and place_entry() (remote.h) has to follow.
void write_entry(Lane& lane, const EntryId& id, EntryMeta meta, Word prev, kv::Key key, kv::ValueView value);
// Replaces the meta word of an entry of this node; the store is visible to all clients before the call
// returns (stores before CASes, H20 in docs/protocols/nessie.md).
void set_meta(Lane& lane, const EntryId& id, const EntryMeta& meta);

// Charges CPU time for the entries that the worker's data table has scanned since the last call of this
// function.
[[nodiscard]] coro::Task<void> charge_scan(Lane* lane);

}  // namespace loch::nessie
