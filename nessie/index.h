// READ and CAS of index words, which is all that operations do to the index (2017, 4.1.2), and what follows
// an error.
#pragma once

#include "common/onesided/get.h"
#include "nessie/lane.h"

namespace loch::nessie {

using onesided::WordRead;

// READs the slot's word; tried again once over a new connection. Not ok: the node cannot be reached, the
// share lies nowhere, or its memory was never laid out. A word that names lost memory is never returned: the
// slot is emptied first, so that all agree on when the key went (A4).
[[nodiscard]] coro::Task<WordRead> read_index(Access access, cuckoo::Place place);

struct Swap {
  enum class Outcome : std::uint8_t { swapped, lost, unknown };
  Outcome outcome = Outcome::lost;
  Word seen = 0;  // what the slot held, if lost
  [[nodiscard]] bool done() const { return outcome == Outcome::swapped; }
};

// What reading the slot again proves about a CAS that ended in an error (H17, A1), when it no longer holds
// `expected`.
enum class Proof : std::uint8_t {
  none,            // others may write `desired` too: proves nothing
  desired_stays,   // this operation alone writes `desired`, and nobody changes it: there or not, it is known
  desired_unique,  // this operation alone writes `desired`, but others may have changed it since
  expected_ours,   // `expected` is this operation's own, and nobody else changes it: the CAS took place
};

// CAS of the slot from `expected` to `desired`. One that ended in an error is settled by what the slot holds
// afterwards, as far as `proof` goes, and repeated if it did not take place; `unknown` is what is left.
[[nodiscard]] coro::Task<Swap> swap_index(Access access, cuckoo::Place place, Word expected, Word desired,
                                          Proof proof);

// Takes an entry out of the index: the same CAS, or what the known-bad variant unlock-by-write makes of it.
[[nodiscard]] coro::Task<Swap> take_back(Access access, cuckoo::Place place, Word own, Word to, Proof proof);

// The word that an own one had replaced is back in its slot. If it was declared lost meanwhile, nobody need
// ever meet it again: the one who puts it back empties it.
[[nodiscard]] coro::Task<void> bury_restored(Access access, cuckoo::Place place, Word word);

}  // namespace loch::nessie
