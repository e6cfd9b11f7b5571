#include "common/base/check.h"
#include "tests/model/rules.h"

namespace loch::model {
namespace {

template <typename Change>
Rules derived(const Rules& base, std::string name, Change change) {
  Rules rules = base;
  rules.name = std::move(name);
  change(&rules);
  return rules;
}

nessie::Rules with_options(bool fast, bool by_cas) {
  nessie::Rules code = nessie::hardened();
  code.commit = by_cas ? nessie::Commit::cas : nessie::Commit::flip;
  code.fast_update = fast;
  code.deletion = fast ? nessie::Deletion::single_cas : nessie::Deletion::tombstone;
  return code;
}

// The table's reading where the code's differs: a full bucket aborts, a DELETE of nothing says ok, a
// PUT reads the header of every match, and gives up at a slot that a MIGRATE holds.
void as_in_table(Rules* rules) {
  rules->when_full = WhenFull::abort;
  rules->delete_tells_absence = false;
  rules->minds_later_matches = true;
  rules->skips_reserved = false;
}

std::vector<Rules> make_variants() {
  const Rules published_2017 = from_code("published-2017", nessie::published_2017());
  const Rules published_2015 = from_code("published-2015", nessie::published_2015());
  const Rules j17 = derived(published_2017, "J17", as_in_table);
  const Rules t15 = derived(published_2015, "T15", as_in_table);
  const Rules fix_a = derived(j17, "FIX-A", [](Rules* r) {
    r->scan_all_first = true;
    r->verify = Verify::every_other;
    r->get_goes_on = true;
    r->delete_loses_quietly = false;
  });
  const Rules fix_b = derived(fix_a, "FIX-B", [](Rules* r) { r->unique_empty = true; });
  const auto by_cas = [](Rules* r) { r->commit_by_cas = true; };
  const auto tagged = [](Rules* r) { r->tagged_migrate = true; };
  const Rules fix_c = derived(fix_b, "FIX-C", [](Rules* r) {
    r->update_by_cas = true;
    r->delete_by = DeleteBy::single_cas;
  });
  const Rules fix_d = derived(fix_c, "FIX-D", by_cas);
  return {
      from_code("hardened", with_options(false, false)),
      from_code("hardened-cas", with_options(false, true)),
      from_code("hardened-fast", with_options(true, false)),
      from_code("hardened-fast-cas", with_options(true, true)),
      published_2017,
      published_2015,
      j17,
      derived(j17, "J17-no-cleanup", [](Rules* r) { r->rollback = Rollback::none; }),
      derived(j17, "J17-cleanup-to-empty", [](Rules* r) { r->rollback = Rollback::clear; }),
      derived(j17, "J17-skip-pending", [](Rules* r) { r->pending_duplicate = Duplicate::skip; }),
      derived(j17, "J17-abort-on-pending", [](Rules* r) { r->pending_duplicate = Duplicate::abort; }),
      derived(j17, "J17-verify-all", [](Rules* r) { r->verify_omits_last = false; }),
      derived(j17, "J17-copy-has-previous", [](Rules* r) { r->copy_has_previous = true; }),
      derived(j17, "J17-delete-checks", [](Rules* r) { r->delete_loses_quietly = false; }),
      derived(j17, "J17-unique-empty", [](Rules* r) { r->unique_empty = true; }),
      derived(j17, "J17-unique-empty-abort",
              [](Rules* r) {
                r->unique_empty = true;
                r->committed_duplicate = r->pending_duplicate = Duplicate::abort;
                r->delete_loses_quietly = false;
              }),
      t15,
      derived(t15, "T15-restore", [](Rules* r) { r->rollback = Rollback::restore; }),
      fix_a,
      fix_b,
      derived(fix_b, "FIX-B-cas", by_cas),
      fix_c,
      fix_d,
      derived(fix_b, "LOOSE", [](Rules* r) { r->verify_keys_only = true; }),
      derived(fix_b, "TAG-B", tagged),
      derived(derived(fix_b, "TAG-B-cas", tagged), "TAG-B-cas", by_cas),
      derived(fix_c, "TAG-C", tagged),
      derived(fix_d, "TAG-D", tagged),
  };
}

}  // namespace

Rules from_code(std::string name, const nessie::Rules& code) {
  Rules r;
  r.name = std::move(name);
  r.scan_all_first = code.full_scan;
  r.unlinks_first = code.removes_before_commit;
  r.committed_duplicate = r.pending_duplicate =
      code.removes_duplicates ? Duplicate::remove : Duplicate::abort;
  switch (code.rollback) {
    case nessie::Rollback::none:
      r.rollback = Rollback::none;
      break;
    case nessie::Rollback::restore:
      r.rollback = Rollback::restore;
      break;
    case nessie::Rollback::to_empty:
      r.rollback = Rollback::clear;
      break;
  }
  r.abort_on_pending = code.aborts_on_pending;
  r.read_previous = code.use_previous;
  r.get_goes_on = code.get_continues;
  r.unique_empty = code.empty == nessie::EmptyWord::unique || code.has_version;
  r.get_verifies = code.get_verifies;
  switch (code.verify) {
    case nessie::Verify::none:
      r.verify = Verify::none;
      break;
    case nessie::Verify::reverse_pass:
      r.verify = Verify::reverse_pass;
      break;
    case nessie::Verify::every_other:
      r.verify = Verify::every_other;
      break;
  }
  r.commit_by_cas = code.commit == nessie::Commit::cas;
  r.delete_loses_quietly = !code.delete_must_win;
  switch (code.deletion) {
    case nessie::Deletion::tombstone:
      r.delete_by = DeleteBy::tombstone;
      break;
    case nessie::Deletion::single_cas:
      r.delete_by = DeleteBy::single_cas;
      break;
    case nessie::Deletion::clear_all:
      r.delete_by = DeleteBy::clear_each;
      break;
  }
  r.absent_delete_verifies = code.delete_checks_first;
  r.delete_tells_absence = true;
  r.minds_later_matches = false;
  r.skips_reserved = true;
  r.update_by_cas = code.fast_update;
  r.copy_has_previous = code.migrate_keeps_previous;
  r.tagged_migrate = code.migrate_tags;
  r.when_full = code.migrate_rescans ? WhenFull::migrate_rescan : WhenFull::migrate_verify_short;
  return r;
}

const std::vector<Rules>& all_variants() {
  static const std::vector<Rules> variants = make_variants();
  return variants;
}

const Rules& variant(const std::string& name) {
  for (const Rules& rules : all_variants()) {
    if (rules.name == name) return rules;
  }
  LOCH_CHECK(false, "no variant is called {}", name);
}

}  // namespace loch::model
