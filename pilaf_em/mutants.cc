#include "pilaf_em/module.h"
#include "pilaf_em/settings.h"

namespace loch::pilaf {

bool apply_mutant(std::string_view name, Rules& rules) {
  if (name == "no-extent-crc")
    rules.checks_extent = false;
  else if (name == "no-key-compare")
    rules.compares_keys = false;
  else if (name == "moves-first-to-last")
    rules.moves_backwards = rules.brackets_moves = false;
  else if (name == "growth-without-reset")
    rules.closes_tables = false;
  else if (name == "reply-before-apply")
    rules.replies_late = false;
  else
    return false;
  return true;
}

// These seeds are what `loch fuzz --mutants` and `--holes` print; common/cli/mutants_test.cc finds each
// again.
std::uint64_t hole_seed(std::string_view protocol, std::string_view hole) {
  if (protocol == "pilaf-vo") return hole == "P3" ? 2 : 0;
  return hole == "P1" ? 30 : hole == "P2" ? 21 : hole == "P3" ? 1 : 0;
}

std::map<std::string, kv::Mutant> mutants(std::string_view protocol) {
  std::map<std::string, kv::Mutant> all = {
      {"reply-before-apply", {"a PUT is answered, then applied", protocol == "pilaf" ? 16U : 22U}},
  };
  if (protocol != "pilaf") return all;
  all.insert({
      {"no-extent-crc", {"a GET trusts what it READs of an extent: torn and newer bytes", 2}},
      {"no-key-compare", {"a GET returns whatever is in the key's first bucket", 1}},
      {"moves-first-to-last",
       {"moves are applied from the first one on: a moved key is nowhere for a while", 235}},
      {"growth-without-reset", {"the old table is not closed when the table grows", 27}},
  });
  return all;
}

}  // namespace loch::pilaf
