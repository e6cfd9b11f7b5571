// What distinguishes the variants of Nessie's index protocol, one field per decision on which the
// published text is silent, wrong, or was fixed. The operations consult it; `./loch explore` runs them
// through every interleaving of a few. Nothing but the standard library is included here.
//
// H1 … H17 are the holes listed in docs/protocols.md; "2017" is Cassell et al., IEEE TPDS 2017, "2015"
// is technical report CS-2015-09.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

namespace loch::nessie {

// How a PUT that gives up after its own CAS rolls back (H3).
enum class Rollback : std::uint8_t {
  none,      // leaves it: a pending entry for ever (2015)
  restore,   // CAS back to the exact word that it replaced
  to_empty,  // CAS to EMPTY: loses the value that it had replaced
};

// Which slots a PUT reads again after its own CAS.
enum class Verify : std::uint8_t {
  none,          // mutant
  reverse_pass,  // slots N-2 … 0, its own included; N-1 was read or swapped last (2017, 2015)
  every_other,   // the N-1 others (H7: all are read after the CAS)
};

// How an entry becomes visible.
enum class Commit : std::uint8_t {
  flip,  // the valid byte of the DTE, a local store
  cas,   // the pending bit of the ITE, by CAS: may fail, hence safe with leases (H9)
};

enum class Deletion : std::uint8_t {
  tombstone,   // a PUT that ends with CAS(tombstone -> EMPTY) (2017)
  single_cas,  // CAS(committed word -> EMPTY), one step
  clear_all,   // ranks N-1 … 0, each match CASed to EMPTY, no verification (2015, H10d)
};

// What EMPTY words look like (H2).
enum class EmptyWord : std::uint8_t {
  plain,   // one constant: ABA on EMPTY
  unique,  // keeps the identity of the last occupant
};

// A single step done wrong on purpose, for the checker to find (apply_mutant). Each is a rule, guard, margin
// or settlement that docs/protocols.md names and that a reader might think could be left out.
enum class Flaw : std::uint8_t {
  none,
  reserved_slot_is_free,       // an insert takes the slot that an unfinished MIGRATE has emptied (H12)
  margin_ignored,              // reuse allows for no skew of clocks
  stamps_before_commit,        // the replaced entry is stamped before the PUT is verified
  rollback_stamps_restored,    // a rollback marks the entry that it has put back
  tombstone_unverified,        // a DELETE does not read the other slots after its CAS
  link_unknown_is_free,        // an entry whose link ended in an error is used again at once
  commit_unknown_is_conflict,  // a commit that ended in an error counts as not done
  update_error_proves,     // a one-CAS update that ended in an error counts as not executed if the slot holds
                           // another word
  move_settles_forward,    // an unfinished MIGRATE is completed whatever its source holds
  move_settles_back,       // … or taken back
  keys_not_renewed,        // a node that restarted is addressed with its old keys
  suspicion_frees,         // a suspected entry is free after E, without a look at the index
  doubt_ignores_previous,  // that look forgets that a pending entry may give it back
  lost_words_stay,         // a word that names lost memory reads as EMPTY but is not emptied (A4)
  no_new_incarnation,      // a declaration leaves the incarnation as it was (A4)
  declares_by_some,        // a declaration goes on although somebody who may know more cannot be asked
  scrub_keeps_tags,        // a slot stays reserved for a dead client's copy that was lost with its target
  scrub_by_change,         // a dead client's MIGRATE is completed if its source has changed (H12)
  scrub_takes_nodes,       // scrub repairs what living workers of the dead one's node hold (A6)
  insert_in_two_steps,     // an INSERT is a GET and then, if that found nothing, a PUT
  leak_scan_stamps,        // the leak scan marks what it finds instead of asking the owner (H15)
};

struct Rules {
  // ---- the index word
  EmptyWord empty = EmptyWord::unique;
  bool has_generation = true;   // GEN: a DTE's reuse count in the word (H16)
  bool has_incarnation = true;  // INC: which incarnation of its node's memory a word names (A4)
  bool has_version = false;     // 2015: +1 with every update of the ITE

  // ---- GET
  bool get_verifies = true;   // reverse pass before NOT_FOUND
  bool get_continues = true;  // a pending entry without a previous version does not end the scan
  bool use_previous = true;   // previous versions (2017, 4.3.2)

  // ---- PUT
  bool full_scan = true;               // reads all N slots first, prefers the one that holds the key (H1)
  bool removes_duplicates = false;     // after its own CAS, CASes other entries of the key to EMPTY (H1, H5)
  bool removes_before_commit = false;  // mutant: empties the old slot before its own word is linked
  bool aborts_on_pending = true;       // a pending entry of the key ends the attempt (2017, 4.3.2)
  Verify verify = Verify::every_other;
  Rollback rollback = Rollback::restore;
  Commit commit = Commit::flip;
  bool fast_update = false;         // an existing key: one CAS to a DTE that is valid already
  bool links_before_write = false;  // mutant: the CAS overtakes the DTE's stores (H20)

  // ---- DELETE
  Deletion deletion = Deletion::tombstone;
  bool delete_must_win = true;      // the last CAS failing is a conflict (H10a)
  bool delete_checks_first = true;  // an absent key: verified NOT_FOUND, no tombstone (H10c)

  // ---- MIGRATE
  bool migrate_tags = true;             // empties the source to EMPTY|copy, which scrub can decide by (H12)
  bool migrate_rescans = true;          // the PUT starts over after it (H7)
  bool migrate_keeps_previous = false;  // mutant: the copy's previous version is the source (H6)

  // ---- reuse of DTEs
  bool honours_expiry = true;           // a DTE is free only strictly past its stamp and the clock margin
  bool stamps_name_incarnation = true;  // a stamp of another incarnation of the DTE is dropped (A2)

  // ---- failing requests
  bool desired_proves =
      false;  // mutant: a slot that holds `desired` proves one's own CAS, whoever may write it (A1)
  bool settles_later = true;        // what stays unknown is settled when the node is back (A3)
  bool misses_lost_memory = false;  // mutant: an entry whose memory is gone counts as another key's (A4)
  bool checks_time = true;          // an operation older than E ends

  Flaw flaw = Flaw::none;

  // ---- memory-system mutants
  bool cpu_on_index = false;          // words of the own node are swapped by the CPU (H18)
  bool unlocks_by_write = false;      // a slot is cleared or restored by WRITE instead of CAS
  bool polls_tail_unordered = false;  // a DTE is complete when its last byte is there, in any order (H19)

  friend bool operator==(const Rules&, const Rules&) = default;
};

// The 2017 text as reconstructed, with its holes.
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

// The 2015 report: versions in the word, no abort on pending, no previous versions.
[[nodiscard]] constexpr Rules published_2015() {
  Rules rules = published_2017();
  rules.has_version = true;
  rules.use_previous = false;
  rules.aborts_on_pending = false;
  rules.rollback = Rollback::none;
  rules.deletion = Deletion::clear_all;
  rules.migrate_rescans = true;  // "the PUT that incurred the MIGRATE is re-attempted"
  return rules;
}

// The fixes of the 2017 text that can be had one by one: what each hole alone costs, and which of them
// a finding comes from.
struct Fixes {
  // With H4, H5 and half of H7: all slots are scanned first, other keys' entries are left alone.
  bool h1 = false;
  bool h2 = false;       // EMPTY words are unique
  bool h7 = false;       // a PUT starts over after its MIGRATE
  bool h10 = false;      // a DELETE whose last CAS fails is a conflict
  bool h16 = false;      // the word has a generation
  bool pending = false;  // a GET goes on past a pending entry without a previous version
  [[nodiscard]] constexpr bool any() const { return h1 || h2 || h7 || h10 || h16 || pending; }
};

constexpr void apply_fixes(const Fixes& fixes, Rules& rules) {
  if (fixes.h1) {
    rules.full_scan = true;
    rules.removes_duplicates = false;
    rules.verify = Verify::every_other;
    rules.delete_checks_first = true;  // possible with the scan alone
  }
  if (fixes.h2) rules.empty = EmptyWord::unique;
  if (fixes.h7) rules.migrate_rescans = true;
  if (fixes.h10) rules.delete_must_win = true;
  if (fixes.h16) rules.has_generation = true;
  if (fixes.pending) rules.get_continues = true;
}

// The default rules, with every fix.
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
};

// Known-bad variants of `rules`: what the checker must find. False when there is no such mutant.
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
    rules.delete_checks_first = false;  // whether the key is there is not known without the scan
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
    // These flaws exist only where DELETE or update takes one CAS.
    if (rules.flaw == Flaw::update_error_proves) rules.fast_update = true;
    if (rules.flaw == Flaw::commit_unknown_is_conflict) rules.commit = Commit::cas;
    return rules.flaw != Flaw::none;
  }
  return true;
}

}  // namespace loch::nessie
