// PUT (Nessie, 2017, 4.2.2), INSERT (a PUT that changes nothing if the key is present) and DELETE by
// tombstone (a PUT of an entry without a value, whose slot is emptied at the end; 4.2.4). Steps: choose a
// slot (choose.h), write a pending entry and link it by a CAS of the slot (link.h), check that no other
// operation interfered (verify.h), then commit the entry or roll the CAS back (finish.h). A Writing carries
// the operation's state from step to step.
#pragma once

#include <array>

#include "nessie/lane.h"
#include "nessie/verify.h"

namespace loch::nessie {

// One PUT, INSERT or DELETE by tombstone, over all its attempts. The entry that it writes is in
// Lane::in_hand.
struct Writing {
  kv::Key key;
  kv::ValueView value;
  EntryKind kind = EntryKind::put;
  bool only_if_absent = false;  // true: an INSERT, which writes nothing if the key has a committed entry
  cuckoo::KeyHash hash;
  bool is_written = false;  // whether the entry in Lane::in_hand contains key and value already
  // The members from here on belong to the current attempt. `seen` has the word last read from each of the
  // key's candidate slots.
  SeenWords seen{};
  std::uint32_t rank = no_rank;  // rank of the chosen slot among the key's candidates
  bool is_update = false;        // whether the chosen index slot holds the key already
  // whether a MIGRATE (move of a key) freed the chosen slot after this attempt had read all candidate slots
  bool all_were_read = false;
  Word own = 0;                    // index word of the entry that this operation linked
  Word replaced = 0;               // word of the slot before the operation's CAS
  bool removed_any = false;        // whether a committed entry of the key was replaced or removed
  bool removed_duplicate = false;  // whether a duplicate of the key was removed, which no rollback restores
  // entries that the operation has replaced or removed; it marks them for reuse when it ends
  std::array<EntryId, cuckoo::max_functions + 1> staged{};
  std::uint32_t staged_count = 0;

  // Resets the members that belong to one attempt.
  void start_over() {
    rank = no_rank;
    is_update = all_were_read = removed_any = removed_duplicate = false;
    staged_count = 0;
  }
  void stage(const EntryId& entry) {
    if (staged_count < staged.size()) staged[staged_count++] = entry;
  }
  void unstage(const EntryId& entry) {
    std::uint32_t kept = 0;
    for (std::uint32_t i = 0; i < staged_count; ++i) {
      if (staged[i] != entry) staged[kept++] = staged[i];
    }
    staged_count = kept;
  }
  // Whether this is an update by a single CAS, which links an entry that is valid already.
  [[nodiscard]] bool is_fast(const Rules& rules) const {
    return rules.fast_update && is_update && kind == EntryKind::put;
  }
};

// Makes one attempt of the operation. An entry that was allocated but not linked stays in Lane::in_hand for
// the next attempt.
[[nodiscard]] coro::Task<Attempt> write_once(Access access, Writing* w);

}  // namespace loch::nessie
