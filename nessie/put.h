// PUT (2017, 4.2.2), INSERT, which is a PUT that ends where the key is found, and DELETE by tombstone, which
// is a PUT of nothing that ends by emptying its slot (4.2.4): choose a slot (choose.h), write a pending
// entry, swap it in (link.h), make sure that nobody interfered (verify.h), then commit or take it back
// (finish.h). Each step takes the Writing, which says what is known so far.
#pragma once

#include <array>

#include "nessie/lane.h"
#include "nessie/verify.h"

namespace loch::nessie {

// One PUT or DELETE, over all its attempts. The entry that it writes is Lane::in_hand.
struct Writing {
  kv::Key key;
  kv::ValueView value;
  EntryKind kind = EntryKind::put;
  bool only_if_absent = false;  // INSERT: a committed entry of the key ends it
  cuckoo::KeyHash hash;
  bool is_written = false;  // the entry in hand holds key and value already
  // The members from here on belong to one attempt.
  SeenWords seen{};
  std::uint32_t rank = no_rank;    // of the slot that was chosen
  bool is_update = false;          // that slot holds the key
  bool all_were_read = false;      // an inline MIGRATE came after the scan of all slots (H7)
  Word own = 0;                    // the word that was linked
  Word replaced = 0;               // the slot's word before the PUT's CAS
  bool removed_any = false;        // some committed entry of the key gave way
  bool removed_duplicate = false;  // a duplicate that no rollback restores (H1)
  std::array<EntryId, cuckoo::max_functions + 1> staged{};  // entries that gave way: to be marked at the end
  std::uint32_t staged_count = 0;

  // One attempt ends, the next begins.
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
  // An existing key, by one CAS to an entry that is valid already.
  [[nodiscard]] bool is_fast(const Rules& rules) const {
    return rules.fast_update && is_update && kind == EntryKind::put;
  }
};

// One attempt. An entry that it allocated and did not link stays in hand for the next.
[[nodiscard]] coro::Task<Attempt> write_once(Access access, Writing* w);

}  // namespace loch::nessie
