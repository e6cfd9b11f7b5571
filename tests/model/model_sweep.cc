// The full sweep of the index protocol's model, by hand:
//   model_sweep scenarios [VARIANT]       every scenario, one line each, with the shortest traces
//   model_sweep --full [FAMILY [VARIANT]] the table of README.md; minutes to an hour for all
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <string_view>

#include "tests/model/families.h"
#include "tests/model/scenarios.h"

namespace loch::model {
namespace {

int usage() {
  fmt::print(stderr,
             "usage: model_sweep scenarios [VARIANT] | model_sweep --full [FAMILY [VARIANT]]\nfamilies:");
  for (const std::string& family : all_families()) fmt::print(stderr, " {}", family);
  fmt::print(stderr, "\nvariants:");
  for (const Rules& rules : all_variants()) fmt::print(stderr, " {}", rules.name);
  fmt::print(stderr, "\n");
  return 2;
}

bool known(std::string_view family, std::string_view chosen_variant) {
  bool family_known = family.empty();
  for (const std::string& f : all_families()) family_known = family_known || f == family;
  bool variant_known = chosen_variant.empty();
  for (const Rules& rules : all_variants()) variant_known = variant_known || rules.name == chosen_variant;
  return family_known && variant_known;
}

void print_finding(std::string_view what, const Finding& finding) {
  if (finding.times > 0) fmt::print("   {} ({} times), shortest:\n{}", what, finding.times, finding.trace);
}

void run_scenarios(std::string_view only) {
  for (const Rules& rules : all_variants()) {
    if (!only.empty() && rules.name != only) continue;
    for (const Scenario& s : all_scenarios()) {
      Rules r = rules;
      if (s.name[0] == 'I' && r.when_full == WhenFull::abort) r.when_full = WhenFull::migrate_verify_short;
      const Exploration e = explore(r, s, {});
      fmt::print("{:22} {:4} {:8} states: {}\n", r.name, s.name, e.states,
                 e.violation.times > 0 ? "VIOLATION" : "ok");
      if (only.empty()) continue;
      print_finding("violation", e.violation);
      print_finding("stuck GET", e.stuck_get);
      print_finding("stuck PUT", e.stuck_put);
      print_finding("duplicate", e.duplicate);
      print_finding("leak", e.leak);
    }
  }
}

void run_full(std::string_view only_family, std::string_view only_variant) {
  fmt::print("{:22} {:8} {:>9} {:>10} {:>9} {:>9} {:>9} {:>5} {:>5} {:>6} {:>8}\n", "variant", "family",
             "scenarios", "states", "violating", "stuckGET", "stuckPUT", "dup", "leak", "reused", "seconds");
  for (const Rules& rules : all_variants()) {
    if (!only_variant.empty() && rules.name != only_variant) continue;
    for (const std::string& family : all_families()) {
      if (!only_family.empty() && family != only_family) continue;
      const auto begin = std::chrono::steady_clock::now();
      const Sweep s = sweep(rules, family);
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      fmt::print("{:22} {:8} {:9} {:10} {:9} {:9} {:9} {:5} {:5} {:6} {:8.1f}\n", rules.name, family,
                 s.scenarios, s.states, s.violating, s.stuck_get, s.stuck_put, s.duplicate, s.leak,
                 s.recycled_but_linked, seconds);
      if (s.cut_off > 0) fmt::print("  {} scenarios were cut off: not decided\n", s.cut_off);
      if (!only_variant.empty() && !s.shortest.empty())
        fmt::print("  the shortest violation:\n{}", s.shortest);
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace loch::model

int main(int argc, char** argv) {
  const auto argument = [&](int i) { return i < argc ? std::string_view(argv[i]) : std::string_view{}; };
  if (argument(1) == "scenarios" && argc <= 3 && loch::model::known("", argument(2))) {
    loch::model::run_scenarios(argument(2));
    return 0;
  }
  if (argument(1) == "--full" && argc <= 4 && loch::model::known(argument(2), argument(3))) {
    loch::model::run_full(argument(2), argument(3));
    return 0;
  }
  return loch::model::usage();
}
