// The known-bad variants of Pilaf, and the fuzzer's seeds that find its holes (known faults).
#include <map>

#include "pilaf_em/module.h"
#include "pilaf_em/settings.h"

namespace loch::pilaf {

bool apply_mutant(std::string_view name, Rules& rules, rpc::MessageFlaws& flaws) {
  struct Switch {
    bool* which;
    bool to;
  };
  const std::map<std::string_view, Switch> switches = {
      {"no-extent-crc", {&rules.checks_extent, false}},
      {"no-key-compare", {&rules.compares_keys, false}},
      {"moves-first-to-last", {&rules.moves_backwards, false}},
      {"moves-not-bracketed", {&rules.brackets_moves, false}},
      {"growth-without-reset", {&rules.closes_tables, false}},
      {"reply-before-apply", {&rules.replies_late, false}},
      {"no-bucket-guard", {&rules.checks_guard, false}},
      {"no-poison", {&rules.poisons, false}},
      {"odd-version-confirms", {&rules.awaits_even, false}},
      {"reply-epoch-ignored", {&rules.follows_epoch, false}},
      {"keys-not-renewed", {&rules.renews_keys, false}},
      {"lost-server-serves", {&rules.serves_lost, true}},
      {"insert-in-two-steps", {&rules.inserts_in_two_steps, true}},
      {"timeout-is-no-effect", {&rules.timeouts_are_none, true}},
      {"no-duplicate-detection", {&rules.drops_duplicates, false}},
      {"old-life-executed", {&flaws.ignores_server_incarnation, true}},
      {"client-life-ignored", {&flaws.ignores_client_incarnation, true}},
      {"any-reply-accepted", {&flaws.takes_any_number, true}},
      {"refused-is-unsent", {&flaws.refused_is_unsent, true}},
  };
  const auto found = switches.find(name);
  if (found == switches.end()) return false;
  *found->second.which = found->second.to;
  // This variant also keeps the version in the root (the table's descriptor) an even number during moves: an
  // odd version would make a GET look again for a key that is in no bucket for a while, and so hide the
  // variant's fault.
  if (name == "moves-first-to-last") rules.brackets_moves = false;
  return true;
}

// The fuzzer seed that finds the hole, a known fault (printed by `loch fuzz --holes`, run by
// app/fuzz/mutants_test.cc).
std::uint64_t hole_seed(std::string_view protocol, std::string_view hole) {
  if (protocol == "pilaf-vo") return hole == "P3" ? 2 : 0;
  return hole == "P1" ? 60 : hole == "P2" ? 3 : hole == "P3" ? 1 : 0;
}

std::map<std::string, kv::Mutant> mutants(std::string_view protocol) {
  std::map<std::string, kv::Mutant> all = {
      {"reply-before-apply", {"a PUT is answered, then applied", protocol == "pilaf" ? 11U : 22U}},
      {"no-duplicate-detection",
       {"a repeated request is executed again (P3)", protocol == "pilaf" ? 1U : 2U}},
      {"any-reply-accepted", {"a late reply counts for the lane's next request", 1}},
      {"insert-in-two-steps",
       {"an INSERT is a GET and then, if that finds nothing, a PUT", protocol == "pilaf" ? 28U : 17U}},
      {"timeout-is-no-effect", {"a PUT or DELETE without an answer says that it did nothing", 5}},
      {"lost-server-serves",
       {"a server that came back empty serves before it is declared lost", protocol == "pilaf" ? 35U : 2U}},
      {"old-life-executed",
       {"a server executes what was meant for its node's former incarnation",
        protocol == "pilaf" ? 1390U : 34U}},
      {"client-life-ignored",
       {"a client that came back is taken for the one before it", protocol == "pilaf" ? 2U : 120U}},
      {"refused-is-unsent",
       {"what a former incarnation may have executed counts as never sent",
        protocol == "pilaf" ? 1390U : 34U}},
  };
  if (protocol != "pilaf") return all;
  all.insert({
      {"no-extent-crc", {"a GET trusts what it READs of an extent: torn and newer bytes", 2}},
      {"no-key-compare", {"a GET returns whatever is in the key's first bucket", 1}},
      {"moves-first-to-last",
       {"moves are applied from the first one on: a moved key is nowhere for a while", 13}},
      {"growth-without-reset", {"the old table is not closed when the table grows", 22}},
      {"moves-not-bracketed",
       {"the version stays even while entries are moved (P1)", 0, "explore_suite_test"}},
      {"odd-version-confirms",
       {"a miss counts as confirmed though entries were being moved (P1)", 0, "explore_suite_test"}},
      {"no-bucket-guard",
       {"a bucket counts as whole whatever its guard says", 0,
        "nothing within 100 seeds; equivalent: a torn bucket has an extent's checksum that does not fit"}},
      {"no-poison",
       {"an extent that is freed keeps its checksum", 0,
        "nothing within 200 seeds; equivalent for a history; shard_test sees it"}},
      {"reply-epoch-ignored",
       {"a reply of another epoch changes nothing", 0,
        "nothing within 100 seeds; equivalent: a GET that READs a closed bucket asks the root itself, only "
        "later"}},
      {"keys-not-renewed", {"a node that restarted is addressed with the keys of its lost regions", 2}},
  });
  return all;
}

}  // namespace loch::pilaf
