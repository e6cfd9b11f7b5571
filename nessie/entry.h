// Data table entries (2017, 4.1.1): looking at one where it is, in this node's data table or by a READ into
// the lane's landing buffer, and writing one's own.
#pragma once

#include "nessie/lane.h"

namespace loch::nessie {

// How much of an entry a READ brings: key and words alone, or all of it. A local one is always all there.
enum class Extent : std::uint8_t { header, full };

// A DTE, looked at where it is.
struct Fetched {
  // False: its node cannot be reached, or its memory is gone: what the word named is not there any more.
  bool ok = false;
  Attempt why = Attempt::link_error;  // how the attempt ends, if not ok: expired or link_error
  bool is_gone = false;               // the entry's node was declared lost
  bool is_replaced = false;           // the slot in the data table holds another incarnation
  bool is_key = false;                // the entry has the wanted key (set by fetch_for only)
  bool is_local = false;
  Extent extent = Extent::header;
  EntryMeta meta;
  Word prev = 0;
  fabric::Region* region = nullptr;  // region that holds the fetched bytes until the lane's next fetch
  std::uint64_t offset = 0;
};

// The entry that the word names, of whatever key. A READ that fails is tried again once over a new
// connection. An entry that is another one by now, or whose memory is gone, is an error and no miss (A4).
[[nodiscard]] coro::Task<Fetched> fetch(Access access, Word word, Extent extent);
// fetch(), and compares the entry's key with `key`.
[[nodiscard]] coro::Task<Fetched> fetch_for(Access access, Word word, Extent extent, kv::Key key);

// Has the operation that put the word into the index committed it (2017, 4.3.2; H9)?
[[nodiscard]] inline bool is_committed(const Settings& settings, Word word, const EntryMeta& meta) {
  return settings.rules.commit == Commit::cas ? !settings.format.is_pending(word) : meta.is_valid;
}

// Fills an entry of this node that is in no slot yet: key, previous version and value first, the meta word
// last (H20: a CAS that is posted later finds them in memory).
void write_entry(Lane& lane, const EntryId& id, EntryMeta meta, Word prev, kv::Key key, kv::ValueView value);
// Replaces the meta word of an entry of this node; visible everywhere before it returns (H20).
void set_meta(Lane& lane, const EntryId& id, const EntryMeta& meta);

// Charges the CPU time of the entries that the worker's table has looked at since this was last called.
[[nodiscard]] coro::Task<void> charge_scan(Lane* lane);

}  // namespace loch::nessie
