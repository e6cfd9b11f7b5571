#include "tests/model/families.h"

#include <fmt/format.h>

#include "common/base/check.h"
#include "tests/model/scenarios.h"

namespace loch::model {
namespace {

using Program = std::vector<Op>;
using Visit = std::function<bool(const Scenario&)>;

constexpr Value first_value = 11;  // of the PUTs, counted up in the order of the programs

struct Family {
  int hash_functions = 3;
  int x_places = 0;  // at how many of its candidates X may lie at first
  unsigned may_crash = 0;
  After after = After::probe;
};

// K anywhere or nowhere, X likewise, never in the same slot.
bool visit_placements(const Family& family, const std::vector<Program>& programs, const Visit& visit) {
  Scenario scenario;
  scenario.hash_functions = family.hash_functions;
  scenario.clients = programs;
  scenario.may_crash = family.may_crash;
  scenario.after = family.after;
  place_candidates(&scenario);
  Value value = first_value;
  for (Program& program : scenario.clients) {
    for (Op& op : program) {
      if (op.type == OpType::put) op.value = value++;
    }
  }
  for (int k = -1; k < family.hash_functions; ++k) {
    for (int x = -1; x < family.x_places; ++x) {
      const auto at = [&](Key key, int rank) {
        return scenario.candidates[key][static_cast<std::size_t>(rank)];
      };
      if (k >= 0 && x >= 0 && at(key_k, k) == at(key_x, x)) continue;
      scenario.initial.clear();
      if (k >= 0) scenario.initial.push_back({at(key_k, k), key_k, 1});
      if (x >= 0) scenario.initial.push_back({at(key_x, x), key_x, 2});
      if (!visit(scenario)) return false;
    }
  }
  return true;
}

std::vector<Op> migrations(int hash_functions) {
  std::vector<Op> ops;
  for (int from = 0; from < hash_functions; ++from) {
    for (int to = 0; to < hash_functions; ++to) {
      if (from != to) ops.push_back(migrate(static_cast<Slot>(from), static_cast<Slot>(to)));
    }
  }
  return ops;
}

void append(std::vector<Op>* ops, const std::vector<Op>& more) {
  ops->insert(ops->end(), more.begin(), more.end());
}

std::vector<Program> singles(const std::vector<Op>& ops) {
  std::vector<Program> programs;
  programs.reserve(ops.size());
  for (const Op& op : ops) programs.push_back({op});
  return programs;
}

// Of one or two operations.
std::vector<Program> up_to_two(const std::vector<Op>& ops) {
  std::vector<Program> programs;
  for (const Op& a : ops) {
    programs.push_back({a});
    for (const Op& b : ops) programs.push_back({a, b});
  }
  return programs;
}

const Program reader = {get(key_k), get(key_k)};

void visit_main(int hash_functions, const Visit& visit) {
  const Family family{.hash_functions = hash_functions, .x_places = 2};
  std::vector<Op> ops = {put(key_k, 0), remove(key_k), put(key_x, 0), remove(key_x)};
  append(&ops, migrations(hash_functions));
  const Slot shared = hash_functions == 2 ? 0 : 1;  // where X collides with K
  append(&ops, {migrate(shared, 3), migrate(3, shared)});
  const std::vector<Program> first = up_to_two(ops);
  const std::vector<Program> second = hash_functions == 2 ? first : singles(ops);
  for (std::size_t i = 0; i < first.size(); ++i) {
    for (std::size_t j = hash_functions == 2 ? i : 0; j < second.size(); ++j) {
      if (!visit_placements(family, {first[i], second[j], reader}, visit)) return;
    }
  }
}

// 3w and its relatives: all triples of single operations on K and X; `prefix`, if any, is what the
// second client does first.
void visit_triples(const Family& family, bool ordered, const Program& prefix, const Visit& visit) {
  std::vector<Op> ops = {put(key_k, 0), remove(key_k), get(key_k)};
  append(&ops, migrations(3));
  append(&ops, {put(key_x, 0), remove(key_x), migrate(1, 3)});
  const bool second_from_first = family.may_crash == 0;  // else the first one is special
  for (std::size_t i = 0; i < ops.size(); ++i) {
    for (std::size_t j = second_from_first ? i : 0; j < ops.size(); ++j) {
      for (std::size_t k = ordered ? j : 0; k < ops.size(); ++k) {
        Program second = prefix;
        second.push_back(ops[j]);
        if (!visit_placements(family, {{ops[i]}, second, {ops[k]}}, visit)) return;
      }
    }
  }
}

void visit_two_operations(bool both, const Visit& visit) {
  const Family family{};
  std::vector<Op> ops = {put(key_k, 0), remove(key_k), get(key_k)};
  append(&ops, migrations(3));
  const std::vector<Program> one = singles(ops);
  const std::vector<Program> two = up_to_two(ops);
  for (std::size_t i = 0; i < two.size(); ++i) {
    if (both) {
      for (std::size_t j = i; j < two.size(); ++j) {
        if (!visit_placements(family, {two[i], two[j], reader}, visit)) return;
      }
      continue;
    }
    if (two[i].size() != 2) continue;
    for (std::size_t j = 0; j < one.size(); ++j) {
      for (std::size_t k = j; k < one.size(); ++k) {
        if (!visit_placements(family, {two[i], one[j], one[k]}, visit)) return;
      }
    }
  }
}

std::string spelled(const Scenario& scenario) {
  constexpr std::string_view keys = "KXYZ";
  std::string out = "  at first:";
  for (const Placed& placed : scenario.initial)
    out += fmt::format(" {}=v{} at s{}", keys[placed.key], placed.value, placed.slot);
  return out + "\n";
}

}  // namespace

const std::vector<std::string>& all_families() {
  static const std::vector<std::string> families = {"main2", "main3", "3w",    "21",     "22",
                                                    "crash", "brk",   "scrub", "scrubon"};
  return families;
}

void for_each_scenario(const std::string& family, const Visit& visit) {
  const Program no_prefix;
  if (family == "main2") {
    visit_main(2, visit);
  } else if (family == "main3") {
    visit_main(3, visit);
  } else if (family == "3w") {
    visit_triples({.x_places = 1}, true, no_prefix, visit);
  } else if (family == "21" || family == "22") {
    visit_two_operations(family == "22", visit);
  } else if (family == "crash") {
    visit_triples({.x_places = 1, .may_crash = 1}, true, no_prefix, visit);
  } else if (family == "scrub") {
    visit_triples({.x_places = 1, .may_crash = 1, .after = After::scrub}, true, no_prefix, visit);
  } else if (family == "brk") {
    visit_triples({.x_places = 1, .may_crash = 1}, false, {break_lease(key_k)}, visit);
  } else if (family == "scrubon") {
    visit_triples({.x_places = 1, .may_crash = 1, .after = After::scrub}, false, {scrub(key_k)}, visit);
  } else {
    LOCH_CHECK(false, "no family is called {}", family);
  }
}

Sweep sweep(const Rules& rules, const std::string& family, std::uint64_t stride, std::uint64_t first,
            const Limits& limits) {
  Sweep total;
  std::uint64_t number = 0;
  for_each_scenario(family, [&](const Scenario& scenario) {
    if (number++ % stride != first % stride) return true;
    const Exploration e = explore(rules, scenario, limits);
    ++total.scenarios;
    total.states += e.states;
    total.violating += e.violation.times > 0;
    total.stuck_get += e.stuck_get.times > 0;
    total.stuck_put += e.stuck_put.times > 0;
    total.duplicate += e.duplicate.times > 0;
    total.leak += e.leak.times > 0;
    total.recycled_but_linked += e.recycled_but_linked.times > 0;
    total.cut_off += e.cut_off;
    const std::string trace = e.violation.times > 0 ? spelled(scenario) + e.violation.trace : "";
    if (!trace.empty() && (total.shortest.empty() || trace.size() < total.shortest.size()))
      total.shortest = trace;
    return true;
  });
  return total;
}

}  // namespace loch::model
