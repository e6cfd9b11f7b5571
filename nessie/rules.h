// What distinguishes the variants of Nessie's index protocol, one field per decision on which the
// published text is silent, wrong, or was mended. The operations (get.cc, put.cc, remove.cc,
// migrate.cc) and the explicit-state model in tests/model/ consult the same struct, so that what is
// explored is what runs. Nothing but the standard library is included here.
//
// H1 … H17 are the holes listed in docs/protocols.md; "2017" is Cassell et al., IEEE TPDS 2017, "2015"
// is technical report CS-2015-09.
#pragma once

#include <cstdint>
#include <string_view>

namespace loch::nessie {

// What a PUT that must give up after its own CAS does with its entry (H3).
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
  bool removes_before_commit = false;  // mutant: empties the old entry before its own is in
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

// The mends of the 2017 text that can be had one by one: what each hole alone costs, and which of them
// a finding comes from.
struct Mends {
  bool h1 =
      false;  // and H4, H5, H7's second half: all slots are scanned first, nobody else's entry is touched
  bool h2 = false;       // EMPTY words are unique
  bool h7 = false;       // a PUT starts over after its MIGRATE
  bool h10 = false;      // a DELETE whose last CAS fails is a conflict
  bool h16 = false;      // the word has a generation
  bool pending = false;  // a GET goes on past a pending entry without a previous version
  [[nodiscard]] constexpr bool any() const { return h1 || h2 || h7 || h10 || h16 || pending; }
};

constexpr void apply_mends(const Mends& mends, Rules& rules) {
  if (mends.h1) {
    rules.full_scan = true;
    rules.removes_duplicates = false;
    rules.verify = Verify::every_other;
    rules.delete_checks_first = true;  // possible with the scan alone
  }
  if (mends.h2) rules.empty = EmptyWord::unique;
  if (mends.h7) rules.migrate_rescans = true;
  if (mends.h10) rules.delete_must_win = true;
  if (mends.h16) rules.has_generation = true;
  if (mends.pending) rules.get_continues = true;
}

// With every mend; the model finds nothing.
[[nodiscard]] constexpr Rules hardened() { return Rules{}; }

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
    return false;
  }
  return true;
}

}  // namespace loch::nessie
