// The choices that make one variant of the Nessie index protocol differ from another: what the 2017
// text says, what it leaves open, and the mends. docs/protocols.md names the holes (H1 … H17).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nessie/rules.h"

namespace loch::model {

// What to do with another entry of the same key, found after the own one was linked.
enum class Duplicate : std::uint8_t { remove, abort, skip };
// How an abort undoes the own link.
enum class Rollback : std::uint8_t { none, restore, clear };
enum class DeleteBy : std::uint8_t {
  tombstone,   // 2017: as a PUT of nothing, then a CAS to EMPTY
  single_cas,  // the mend: one CAS of the committed word to EMPTY
  clear_each,  // 2015: from the last rank to the first, a CAS to EMPTY of every match
};
// What a PUT that finds every candidate occupied does.
enum class WhenFull : std::uint8_t {
  abort,
  migrate_verify_short,  // 2017: makes room, links, verifies all but the last rank
  migrate_verify_all,    // makes room, links, verifies every other slot
  migrate_rescan,        // makes room, starts over
};

// What a PUT reads again after its own CAS.
enum class Verify : std::uint8_t { none, reverse_pass, every_other };

struct Rules {
  std::string name;
  bool scan_all_first = false;      // reads every candidate before it chooses, prefers the key's own
  bool minds_later_matches = true;  // … and reads the headers of later matches too, once it has found one
  bool skips_reserved = false;      // a slot that a MIGRATE holds: takes the next EMPTY one (else aborts)
  bool unlinks_first = false;       // empties the old entry before it links the new one
  Duplicate committed_duplicate = Duplicate::remove;
  Duplicate pending_duplicate = Duplicate::remove;
  Rollback rollback = Rollback::restore;
  bool abort_on_pending = true;  // a pending entry of the key, met while choosing, ends the attempt
  bool read_previous = true;     // GET of a pending entry answers with its previous version
  bool get_goes_on = false;      // GET goes on past a pending entry that has none
  bool unique_empty = false;     // an EMPTY word keeps the identity of what it emptied
  bool get_verifies = true;
  Verify verify = Verify::reverse_pass;
  bool verify_omits_last = true;     // a reverse pass leaves out the last rank (2N-1 READs)
  bool verify_keys_only = false;     // the reverse pass only minds words that are entries of the key
  bool commit_by_cas = false;        // pending is a bit of the word, not of the entry
  bool delete_loses_quietly = true;  // DELETE's last CAS failing still answers ok
  DeleteBy delete_by = DeleteBy::tombstone;
  bool delete_tells_absence =
      false;  // DELETE that removed nothing says not_found, and ok is judged as "removed"
  bool absent_delete_verifies = false;  // DELETE of an absent key: verified not_found, nothing written
  bool update_by_cas = false;           // an update is one CAS to an entry that is already committed
  bool copy_has_previous = false;       // MIGRATE's copy points back at its source
  bool tagged_migrate = false;          // MIGRATE empties its source with the identity of the copy
  WhenFull when_full = WhenFull::abort;
};

// The rules that the protocol's code runs by, as far as they show in the index. What reuse, clocks and
// memory ordering add (has_generation, honours_expiry, checks_time, cpu_on_index, unlocks_by_write,
// links_before_write, polls_tail_unordered) is not in this model.
[[nodiscard]] Rules from_code(std::string name, const nessie::Rules& code);

// The code's variants (hardened…, published-…), and every one that the table of README.md has
// (J17…, T15…, FIX-…, TAG-…, LOOSE; there a PUT to a full bucket just aborts).
[[nodiscard]] const std::vector<Rules>& all_variants();
// The one of that name; aborts when there is none.
[[nodiscard]] const Rules& variant(const std::string& name);

}  // namespace loch::model
