#include "nessie/mutants.h"

namespace loch::nessie {

// The seeds are what `loch fuzz --mutants` prints; common/cli/mutants_test.cc finds each again.
std::map<std::string, kv::Mutant> mutants() {
  return {
      {"no-reverse-pass", {"single-read version check: neither GET nor PUT reads the slots again", 3}},
      {"empty-not-unique", {"EMPTY is one constant: ABA on empty slots (H2)", 54}},
      {"destructive-put", {"a PUT removes other entries of its key before it commits (H1)", 1}},
      {"remove-before-commit", {"a PUT empties the old entry's slot, then inserts", 1}},
      {"rollback-to-empty", {"an aborted PUT empties its slot instead of restoring it (H3)", 1}},
      {"reuse-before-expiry", {"a stamped DTE is reused at once", 9}},
      {"no-time-check", {"operations do not end after the expiry period", 360}},
      {"no-generation", {"no reuse count in the word, early reuse: ABA on occupied slots (H16)", 1}},
      {"cpu-cas-on-index", {"the own node's index words are swapped by the CPU (H18)", 15}},
      {"unlock-by-write", {"a slot is cleared or restored by WRITE instead of CAS", 1}},
      {"migrate-copies-prev", {"a MIGRATE's copy names its source as previous version (H6)", 34}},
      {"link-before-write", {"missing fence: the CAS overtakes the stores to the DTE (H20)", 4}},
      {"get-does-not-verify", {"a GET answers not found without reading the slots again", 0}},
      {"put-does-not-verify", {"a PUT commits without reading the other slots after its CAS", 0}},
      {"verify-skips-last-slot",
       {"a PUT's second look leaves out the last slot, also after a MIGRATE (H7)", 0}},
      {"pending-is-no-obstacle", {"a PUT replaces an entry of its key that is still pending", 0}},
      {"no-rollback", {"a PUT that gives up leaves its entry in the index (H3)", 0}},
      {"delete-need-not-win", {"a DELETE whose last CAS fails says ok (H10)", 0}},
      {"pending-hides-committed", {"a GET ends at a pending entry without a previous version (H12)", 0}},
      {"reserved-slot-is-free", {"an insert takes the slot that an unfinished MIGRATE has emptied (H12)", 0}},
      {"margin-ignored", {"reuse allows for no skew of the nodes' clocks", 0}},
      {"stamps-before-commit", {"what a PUT replaces is marked before the PUT is verified", 0}},
      {"rollback-stamps-restored", {"a rollback marks the entry that it has put back", 0}},
      {"tombstone-unverified", {"a DELETE does not read the other slots after its CAS", 0}},
      {"link-unknown-is-free", {"an entry whose link ended in an error is used again at once", 0}},
      {"commit-unknown-is-conflict", {"a commit that ended in an error counts as not done (H17)", 0}},
      {"update-error-proves",
       {"another word after a one-CAS update's error: it counts as not done (H17)", 0}},
      {"move-settles-forward", {"an unfinished MIGRATE is completed whatever its source holds (A3)", 0}},
      {"move-settles-back", {"an unfinished MIGRATE is taken back whatever its source holds (A3)", 0}},
      {"keys-not-renewed", {"a node that restarted is addressed with the keys of its lost regions", 0}},
      {"suspicion-frees", {"a suspected entry is free after E, without a look at the index", 0}},
      {"doubt-ignores-previous", {"that look forgets the pending entry that may give it back", 0}},
      {"lost-words-stay", {"a word that names lost memory reads as EMPTY but is not emptied (A4)", 0}},
      {"no-new-incarnation", {"a declaration of loss leaves the node's incarnation as it was (A4)", 0}},
      {"scrub-by-change", {"a dead client's MIGRATE is completed if its source has changed (H12)", 0}},
      {"scrub-takes-nodes", {"scrub repairs what living workers of the dead one's node hold (A6)", 0}},
      {"leak-scan-stamps", {"the leak scan marks what it finds instead of asking its owner (H15)", 0}},
      {"desired-word-proves", {"after an error the wanted word in the slot counts as one's own (A1)", 0}},
      {"stamp-names-no-incarnation", {"a stamp marks whatever lies there when it executes (A2)", 0}},
      {"forgets-unknown", {"what stays unknown after an error is never settled (A3)", 0}},
      {"lost-memory-is-a-miss", {"an entry whose memory is gone counts as another key's (A4)", 0}},
      {"tail-poll-without-order",
       {"a DTE counts as here when its last byte is, in whatever order it came (H19)", 7}},
  };
}

const std::map<std::string, std::uint64_t>& hole_seeds() {
  static const std::map<std::string, std::uint64_t> seeds = {{"H1", 16}, {"H2", 19}};
  return seeds;
}

}  // namespace loch::nessie
