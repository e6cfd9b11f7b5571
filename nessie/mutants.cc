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
