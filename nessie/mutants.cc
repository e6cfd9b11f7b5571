// The known-bad variants of Nessie: what each breaks, and the fuzzer's seeds that find it.
#include "nessie/mutants.h"

namespace loch::nessie {

// `loch fuzz --mutants` prints the seeds in this table; app/fuzz/mutants_test.cc runs each of them.
std::map<std::string, kv::Mutant> mutants() {
  return {
      {"no-reverse-pass", {"single-read version check: neither GET nor PUT reads the slots again", 15}},
      {"empty-not-unique", {"EMPTY is one constant: ABA on empty slots (H2)", 19}},
      {"destructive-put", {"a PUT removes other entries of its key before it commits (H1)", 28}},
      {"remove-before-commit", {"a PUT empties the old entry's slot, then inserts", 2}},
      {"rollback-to-empty", {"an aborted PUT empties its slot instead of restoring it (H3)", 2}},
      {"reuse-before-expiry", {"a stamped DTE is reused at once", 8}},
      {"no-time-check", {"operations do not end after the expiry period", 1558}},
      {"no-generation", {"no reuse count in the word, early reuse: ABA on occupied slots (H16)", 2}},
      {"cpu-cas-on-index", {"the own node's index words are swapped by the CPU (H18)", 1}},
      {"unlock-by-write", {"a slot is cleared or restored by WRITE instead of CAS", 1}},
      {"migrate-copies-prev", {"a MIGRATE's copy names its source as previous version (H6)", 69}},
      {"link-before-write", {"missing fence: the CAS overtakes the stores to the DTE (H20)", 8}},
      {"get-does-not-verify", {"a GET answers not found without reading the slots again", 15}},
      {"put-does-not-verify", {"a PUT commits without reading the other slots after its CAS", 62}},
      {"verify-skips-last-slot",
       {"a PUT's second look leaves out the last slot, also after a MIGRATE (H7)", 102}},
      {"pending-is-no-obstacle", {"a PUT replaces an entry of its key that is still pending", 1}},
      {"no-rollback", {"a PUT that gives up leaves its entry in the index (H3)", 2}},
      {"delete-need-not-win",
       {"a DELETE whose last CAS fails says ok (H10)", 0, "nothing within 1800 seeds"}},
      {"pending-hides-committed",
       {"a GET ends at a pending entry without a previous version (H12)", 0, "nothing within 1700 seeds"}},
      {"reserved-slot-is-free",
       {"an insert takes the slot that an unfinished MIGRATE has emptied (H12)", 569}},
      {"margin-ignored", {"reuse allows for no skew of the nodes' clocks", 0, "nothing within 1800 seeds"}},
      {"stamps-before-commit", {"what a PUT replaces is marked before the PUT is verified", 2}},
      {"rollback-stamps-restored", {"a rollback marks the entry that it has put back", 59}},
      {"tombstone-unverified",
       {"a DELETE does not read the other slots after its CAS", 0, "nothing within 1100 seeds"}},
      {"link-unknown-is-free", {"an entry whose link ended in an error is used again at once", 11}},
      {"commit-unknown-is-conflict", {"a commit that ended in an error counts as not done (H17)", 11}},
      {"update-error-proves",
       {"another word after a one-CAS update's error: it counts as not done (H17)", 236}},
      {"move-settles-forward", {"an unfinished MIGRATE is completed whatever its source holds (A3)", 346}},
      {"move-settles-back", {"an unfinished MIGRATE is taken back whatever its source holds (A3)", 569}},
      {"keys-not-renewed", {"a node that restarted is addressed with the keys of its lost regions", 2}},
      {"suspicion-frees", {"a suspected entry is free after E, without a look at the index", 866}},
      {"doubt-ignores-previous",
       {"that look forgets the pending entry that may give it back", 0, "explore_suite_test"}},
      {"lost-words-stay", {"a word that names lost memory reads as EMPTY but is not emptied (A4)", 2}},
      {"no-new-incarnation", {"a declaration of loss leaves the node's incarnation as it was (A4)", 2}},
      {"declares-by-some",
       {"a declaration goes on although somebody who may know more cannot be asked (A4)", 0,
        "nessie_recovery_test; once in some 50,000 seeds"}},
      {"scrub-by-change",
       {"a dead client's MIGRATE is completed if its source has changed (H12)", 0, "explore_suite_test"}},
      {"scrub-keeps-tags",
       {"a slot stays reserved for a dead client's copy that was lost with its target (A4)", 0,
        "nessie_recovery_test; once in some 30,000 seeds"}},
      {"scrub-takes-nodes",
       {"scrub repairs what living workers of the dead one's node hold (A6)", 0, "nessie_repairs_test"}},
      {"insert-in-two-steps", {"an INSERT is a GET and then, if that finds nothing, a PUT", 10}},
      {"link-overtakes-write",
       {"the CAS that links an entry of a memory node does not wait for its WRITE (H20)", 0,
        "fuzz --set nessie.placement=remote"}},
      {"leak-scan-stamps", {"the leak scan marks what it finds instead of asking its owner (H15)", 467}},
      {"desired-word-proves", {"after an error the wanted word in the slot counts as one's own (A1)", 11}},
      {"stamp-names-no-incarnation",
       {"a stamp marks whatever lies there when it executes (A2)", 0, "nessie_recovery_test"}},
      {"forgets-unknown", {"what stays unknown after an error is never settled (A3)", 11}},
      {"lost-memory-is-a-miss", {"an entry whose memory is gone counts as another key's (A4)", 177}},
      {"tail-poll-without-order",
       {"a DTE counts as here when its last byte is, in whatever order it came (H19)", 53}},
  };
}

const std::map<std::string, std::uint64_t>& hole_seeds() {
  static const std::map<std::string, std::uint64_t> seeds = {{"H1", 2}, {"H2", 153}};
  return seeds;
}

}  // namespace loch::nessie
