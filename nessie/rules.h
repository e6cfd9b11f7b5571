// The rules that distinguish the variants of Nessie's index protocol: one field for each decision that the
// published texts leave open or get wrong. The operations read these fields; `./loch explore` runs a few
// operations with given rules through every interleaving. This file includes nothing but the standard
// library. H1 … H17 are the holes (known faults) listed in docs/protocols/nessie.md; "2017" is Cassell et
// al., IEEE TPDS 2017, "2015" is technical report CS-2015-09.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

namespace loch::nessie {

// How a PUT that gives up after its own CAS rolls the CAS back (known fault H3 of docs/protocols/nessie.md:
// the paper does not say how).
enum class Rollback : std::uint8_t {
  none,      // no rollback: a pending entry stays in the index for ever (2015 report)
  restore,   // changes the slot by CAS back to the exact word that the PUT had replaced
  to_empty,  // changes the slot by CAS to EMPTY, which loses the value that the PUT had replaced
};

// Which candidate slots a PUT reads again after its own CAS.
enum class Verify : std::uint8_t {
  none,  // reads no index slot again (known-bad variant)
  // reads all candidate slots but the last again, in reverse order, even the one that the PUT's CAS changed
  // (the 2017 paper and the 2015 report)
  reverse_pass,
  every_other,  // reads all candidate slots again except the one that the PUT's CAS changed
};

// How an entry is committed, that is, becomes visible to GETs.
enum class Commit : std::uint8_t {
  flip,  // a local store sets the valid byte of the data table entry (DTE)
  cas,   // a CAS clears the pending bit of the index word (ITE); it fails if the slot's word has changed
};

enum class Deletion : std::uint8_t {
  tombstone,   // a DELETE is a PUT of a tombstone and then CAS(tombstone -> EMPTY), as in the 2017 text
  single_cas,  // a DELETE is a single CAS(committed word -> EMPTY)
  // a DELETE changes every slot that holds the key to EMPTY by CAS, last candidate first, without
  // verification (2015 report)
  clear_all,
};

// What an EMPTY word contains. If all EMPTY words are alike, readers miss that a slot was filled and emptied
// (known fault H2 of docs/protocols/nessie.md).
enum class EmptyWord : std::uint8_t {
  plain,   // all EMPTY words are one constant, so that readers miss that a slot was filled and emptied again
  unique,  // each EMPTY word names the entry that its slot held last
};

// Known-bad variants with one wrong step, for the checker to find (apply_mutant). Each breaks a rule, check
// or margin that docs/protocols/nessie.md names and that a reader might consider unnecessary.
enum class Flaw : std::uint8_t {
  none,
  // flaw: a PUT takes a slot that is reserved for an unfinished MIGRATE (move of a key)
  reserved_slot_is_free,
  margin_ignored,            // flaw: entries are reused without allowing for skew between the nodes' clocks
  stamps_before_commit,      // flaw: a PUT marks the replaced entry for reuse before the PUT is verified
  rollback_stamps_restored,  // flaw: a rollback puts an entry back and nevertheless marks it for reuse
  tombstone_unverified,      // flaw: a DELETE does not read the other slots after its CAS
  link_unknown_is_free,  // flaw: an entry is reused at once if the CAS that should link it ended in an error
  commit_unknown_is_conflict,  // flaw: a commit's CAS that ended in an error counts as not executed
  // flaw: a one-CAS update that ended in an error counts as not executed if the index slot holds a different
  // word
  update_error_proves,
  // flaw: an unfinished MIGRATE (move of a key) is completed whatever its source slot holds
  move_settles_forward,
  // flaw: an unfinished MIGRATE (move of a key) is rolled back whatever its source slot holds
  move_settles_back,
  keys_not_renewed,  // flaw: a restarted node is addressed with its old region keys
  suspicion_frees,   // flaw: an entry that may still be in the index is reused unchecked after the expiry
  // flaw: an entry counts as in no index slot although a pending entry names it as previous version, so that
  // a rollback would link it again
  doubt_ignores_previous,
  lost_words_stay,     // flaw: a word that names lost memory is read as EMPTY, but its slot is not emptied
  no_new_incarnation,  // flaw: a declaration of loss does not change the incarnation of the node's memory
  // flaw: a node is declared lost although a node that may have a newer member table (nodes' incarnations)
  // cannot be asked
  declares_by_some,
  // flaw: a slot stays reserved for a dead client's MIGRATE (move of a key) although no slot names the entry
  // that the MIGRATE copied
  scrub_keeps_tags,
  scrub_by_change,    // flaw: a dead client's MIGRATE is completed if its source slot has changed in any way
  scrub_takes_nodes,  // flaw: scrub also repairs entries of living workers on the dead client's node
  insert_in_two_steps,  // flaw: an INSERT is made of a GET and then, if that finds nothing, a PUT
  // flaw: the CAS that links an entry of a memory node does not wait for the entry's WRITE
  link_overtakes_write,
  leak_scan_stamps,  // flaw: the leak scan marks entries for reuse itself instead of asking their owner
};

struct Rules {
  // ---- what the index word contains
  EmptyWord empty = EmptyWord::unique;
  bool has_generation = true;   // the index word contains the entry's reuse count
  bool has_incarnation = true;  // the index word contains the incarnation of the entry's memory
  // 2015 report: whether the index word contains a version, incremented with every update of the word
  bool has_version = false;

  // ---- GET
  bool get_verifies = true;  // true: a GET reads its candidate slots again before it returns NOT_FOUND
  // true: a GET continues its scan after a pending entry without a previous version
  bool get_continues = true;
  // true: a GET follows a pending entry to its previous version (Nessie, 2017, 4.3.2)
  bool use_previous = true;

  // ---- PUT
  bool full_scan = true;  // true: a PUT first reads all candidate slots, and takes one that holds the key
  bool removes_duplicates = false;  // true: a PUT empties the slots of other entries of its key by CAS
  // mutant: a PUT empties the old entry's slot before it links the new entry
  bool removes_before_commit = false;
  bool aborts_on_pending = true;  // a PUT's attempt ends at a pending entry of its key (Nessie, 2017, 4.3.2)
  Verify verify = Verify::every_other;
  Rollback rollback = Rollback::restore;
  Commit commit = Commit::flip;
  // true: a PUT updates a key by one CAS, to the word of an entry that is valid already
  bool fast_update = false;
  bool links_before_write = false;  // mutant: the CAS that links an entry overtakes the CPU's stores to it

  // ---- DELETE
  Deletion deletion = Deletion::tombstone;
  bool delete_must_win = true;  // whether a DELETE whose last CAS fails ends in a conflict
  // whether a DELETE of an absent key returns a verified NOT_FOUND and writes no tombstone
  bool delete_checks_first = true;

  // ---- MIGRATE
  // whether a MIGRATE leaves in its source slot an EMPTY word that names its copy; the repair of a dead
  // client (scrub) needs that word
  bool migrate_tags = true;
  // whether a PUT reads all candidate slots again after its MIGRATE (move of a key)
  bool migrate_rescans = true;
  // mutant: the copy that a MIGRATE (move of a key) makes names the source entry as its previous version
  bool migrate_keeps_previous = false;

  // ---- reuse of data table entries (DTEs)
  // true: an entry (DTE) is reused strictly after its deadline and the clock margin
  bool honours_expiry = true;
  // whether the mark that frees an entry is ignored if it names an earlier use of the entry
  bool stamps_name_incarnation = true;

  // ---- failing requests

  // mutant: after a CAS that ended in an error, finding the word that it wanted to write in the slot counts
  // as proof that the CAS took place, even if others may write that word
  bool desired_proves = false;
  bool settles_later = true;  // whether a CAS of unknown outcome is resolved later, when its node is back
  // mutant: an entry whose memory was lost is treated as an entry of another key
  bool misses_lost_memory = false;
  bool checks_time = true;  // whether an operation older than the expiry period gives up

  Flaw flaw = Flaw::none;

  // ---- mutants of how memory is accessed
  bool cpu_on_index = false;  // true: a worker swaps index words of its own node by the CPU, not by the NIC
  bool unlocks_by_write = false;  // true: an index slot is emptied or restored by WRITE instead of CAS
  // true: a READ counts as complete when its last byte has arrived, even if earlier bytes have not
  bool polls_tail_unordered = false;

  friend bool operator==(const Rules&, const Rules&) = default;
};

// The rules of the 2017 paper, reconstructed from its text, with its holes (known faults).
[[nodiscard]] constexpr Rules published_2017() {
  Rules rules;
  rules.empty = EmptyWord::plain;
  rules.has_generation = false;
  rules.has_incarnation = false;
  rules.get_continues = false;
  rules.full_scan = false;
  rules.removes_duplicates = true;
  rules.verify = Verify::reverse_pass;
  rules.delete_must_win = false;
  rules.delete_checks_first = false;
  rules.migrate_tags = false;
  rules.migrate_rescans = false;
  return rules;
}

// The rules of the 2015 report: versions in the word, no abort on pending entries, no previous versions.
[[nodiscard]] constexpr Rules published_2015() {
  Rules rules = published_2017();
  rules.has_version = true;
  rules.use_previous = false;
  rules.aborts_on_pending = false;
  rules.rollback = Rollback::none;
  rules.deletion = Deletion::clear_all;
  rules.migrate_rescans = true;  // the report says: "the PUT that incurred the MIGRATE is re-attempted"
  return rules;
}

// Fixes of the faults in the 2017 paper's text; each can be switched on separately, to measure what each hole
// (known fault) alone costs and to attribute a finding to a hole.
struct Fixes {
  // true: fixes the known faults H1, H4 and H5 (a PUT that aborts has removed another entry) and part of H7:
  // makes a PUT read all slots first, change no entry of other operations, and read all other slots again
  // after its CAS
  bool h1 = false;
  bool h2 = false;  // fixes known fault H2 (a reused EMPTY word hides a change): makes EMPTY words unique
  // fixes known fault H7 (two entries of one key after a MIGRATE, which moves a key): makes a PUT start over
  // after its MIGRATE
  bool h7 = false;
  // fixes known fault H10 (an aborted DELETE takes effect): makes a DELETE whose last CAS fails end in a
  // conflict
  bool h10 = false;
  // fixes known fault H16 (a late CAS succeeds on a reused entry): adds a generation to the index word
  bool h16 = false;
  // true: fixes part of known fault H12 (a dead client's pending entry blocks the key): makes a GET continue
  // after a pending entry that has no previous version
  bool pending = false;
  [[nodiscard]] constexpr bool any() const { return h1 || h2 || h7 || h10 || h16 || pending; }
};

constexpr void apply_fixes(const Fixes& fixes, Rules& rules) {
  if (fixes.h1) {
    rules.full_scan = true;
    rules.removes_duplicates = false;
    rules.verify = Verify::every_other;
    // a DELETE can tell that the key is absent, because it has read all slots
    rules.delete_checks_first = true;
  }
  if (fixes.h2) rules.empty = EmptyWord::unique;
  if (fixes.h7) rules.migrate_rescans = true;
  if (fixes.h10) rules.delete_must_win = true;
  if (fixes.h16) rules.has_generation = true;
  if (fixes.pending) rules.get_continues = true;
}

// The rules of the default variant, with every fix.
[[nodiscard]] constexpr Rules hardened() { return Rules{}; }

constexpr std::pair<std::string_view, Flaw> flaws[] = {
    {"insert-in-two-steps", Flaw::insert_in_two_steps},
    {"reserved-slot-is-free", Flaw::reserved_slot_is_free},
    {"margin-ignored", Flaw::margin_ignored},
    {"stamps-before-commit", Flaw::stamps_before_commit},
    {"rollback-stamps-restored", Flaw::rollback_stamps_restored},
    {"tombstone-unverified", Flaw::tombstone_unverified},
    {"link-unknown-is-free", Flaw::link_unknown_is_free},
    {"commit-unknown-is-conflict", Flaw::commit_unknown_is_conflict},
    {"update-error-proves", Flaw::update_error_proves},
    {"move-settles-forward", Flaw::move_settles_forward},
    {"move-settles-back", Flaw::move_settles_back},
    {"keys-not-renewed", Flaw::keys_not_renewed},
    {"suspicion-frees", Flaw::suspicion_frees},
    {"doubt-ignores-previous", Flaw::doubt_ignores_previous},
    {"lost-words-stay", Flaw::lost_words_stay},
    {"no-new-incarnation", Flaw::no_new_incarnation},
    {"declares-by-some", Flaw::declares_by_some},
    {"scrub-by-change", Flaw::scrub_by_change},
    {"scrub-keeps-tags", Flaw::scrub_keeps_tags},
    {"scrub-takes-nodes", Flaw::scrub_takes_nodes},
    {"leak-scan-stamps", Flaw::leak_scan_stamps},
    {"link-overtakes-write", Flaw::link_overtakes_write},
};

// Changes `rules` to those of a known-bad variant, which the checker must find. Returns false for an
// unknown name.
[[nodiscard]] constexpr bool apply_mutant(std::string_view name, Rules& rules) {
  if (name == "no-reverse-pass") {
    rules.get_verifies = false;
    rules.verify = Verify::none;
  } else if (name == "empty-not-unique") {
    rules.empty = EmptyWord::plain;
    rules.migrate_tags = false;
  } else if (name == "destructive-put") {
    rules.full_scan = false;
    rules.removes_duplicates = true;
    rules.delete_checks_first = false;  // without the full scan it is unknown whether the key is present
  } else if (name == "remove-before-commit") {
    rules.removes_before_commit = true;
  } else if (name == "rollback-to-empty") {
    rules.rollback = Rollback::to_empty;
  } else if (name == "reuse-before-expiry") {
    rules.honours_expiry = false;
  } else if (name == "no-time-check") {
    rules.checks_time = false;
  } else if (name == "no-generation") {
    rules.has_generation = rules.has_incarnation = false;
    rules.honours_expiry = false;
  } else if (name == "cpu-cas-on-index") {
    rules.cpu_on_index = true;
  } else if (name == "unlock-by-write") {
    rules.unlocks_by_write = true;
    rules.deletion = Deletion::single_cas;
  } else if (name == "migrate-copies-prev") {
    rules.migrate_keeps_previous = true;
  } else if (name == "link-before-write") {
    rules.links_before_write = true;
  } else if (name == "tail-poll-without-order") {
    rules.polls_tail_unordered = true;
  } else if (name == "get-does-not-verify") {
    rules.get_verifies = false;
  } else if (name == "put-does-not-verify") {
    rules.verify = Verify::none;
  } else if (name == "verify-skips-last-slot") {
    rules.verify = Verify::reverse_pass;
    rules.migrate_rescans = false;
  } else if (name == "pending-is-no-obstacle") {
    rules.aborts_on_pending = false;
  } else if (name == "no-rollback") {
    rules.rollback = Rollback::none;
  } else if (name == "delete-need-not-win") {
    rules.delete_must_win = false;
  } else if (name == "pending-hides-committed") {
    rules.get_continues = false;
  } else if (name == "desired-word-proves") {
    rules.desired_proves = true;
    rules.deletion = Deletion::single_cas;
  } else if (name == "stamp-names-no-incarnation") {
    rules.stamps_name_incarnation = false;
  } else if (name == "forgets-unknown") {
    rules.settles_later = false;
  } else if (name == "lost-memory-is-a-miss") {
    rules.misses_lost_memory = true;
  } else {
    for (const auto& [flaw_name, flaw] : flaws) {
      if (name == flaw_name) rules.flaw = flaw;
    }
    // The flaw update_error_proves needs an update by a single CAS, commit_unknown_is_conflict a commit by
    // CAS.
    if (rules.flaw == Flaw::update_error_proves) rules.fast_update = true;
    if (rules.flaw == Flaw::commit_unknown_is_conflict) rules.commit = Commit::cas;
    return rules.flaw != Flaw::none;
  }
  return true;
}

}  // namespace loch::nessie
