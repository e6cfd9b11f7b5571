#include "tests/model/scenarios.h"

#include "common/base/check.h"

namespace loch::model {
namespace {

using Programs = std::vector<std::vector<Op>>;

constexpr Key K = key_k;
constexpr Key X = key_x;
constexpr Key Y = key_y;
constexpr Key Z = key_z;

Scenario make(int hash_functions, std::string name, Programs programs, std::vector<Placed> initial) {
  Scenario scenario;
  scenario.name = std::move(name);
  scenario.hash_functions = hash_functions;
  scenario.clients = std::move(programs);
  scenario.initial = std::move(initial);
  place_candidates(&scenario);
  return scenario;
}

Scenario crashing(Scenario scenario) {
  scenario.may_crash = 1;
  return scenario;
}

void add_two_way(std::vector<Scenario>* all) {
  const std::vector<Op> reads = {get(K), get(K)};
  const auto add = [&](std::string name, Programs programs, std::vector<Placed> initial) {
    all->push_back(make(2, std::move(name), std::move(programs), std::move(initial)));
  };
  add("S1", {{put(K, 11)}, {put(K, 12)}, {get(K)}}, {{1, K, 1}});
  add("S2", {{put(K, 11)}, {remove(X), put(K, 12)}, reads}, {{0, X, 2}, {1, K, 1}});
  add("S3", {{put(K, 11)}, {remove(X), put(K, 12)}, reads}, {{0, X, 2}});
  add("S4", {{put(K, 11)}, {remove(K)}, reads}, {{1, K, 1}});
  add("S5", {{put(K, 11)}, {remove(K)}, reads}, {{0, K, 1}});
  add("S6", {{get(K)}, {migrate(1, 0), migrate(0, 1)}}, {{1, K, 1}});
  add("S7", {reads, {migrate(1, 0)}, {migrate(0, 1)}}, {{1, K, 1}});
  add("S8", {{put(K, 11)}, {migrate(1, 0)}, reads}, {{1, K, 1}});
  add("S9", {{put(K, 11)}, {migrate(0, 1)}, reads}, {{0, K, 1}});
  add("S10", {{remove(K)}, {migrate(0, 1)}, reads}, {{0, K, 1}});
  add("S11", {{remove(K)}, {migrate(1, 0)}, reads}, {{1, K, 1}});
  add("S12", {{put(K, 11), put(K, 12)}, {migrate(1, 0), migrate(0, 1)}, {get(K)}}, {{1, K, 1}});
  add("S13", {{put(K, 11), remove(K)}, {put(K, 12)}, reads}, {});
}

void add_crashes(std::vector<Scenario>* all) {
  const auto add = [&](std::string name, Op dies, std::vector<Placed> initial) {
    all->push_back(crashing(make(2, std::move(name), {{dies}, {get(K)}}, std::move(initial))));
  };
  add("C1", put(K, 11), {{1, K, 1}});
  add("C2", put(K, 11), {{0, K, 1}});
  add("C3", migrate(1, 0), {{1, K, 1}});
  add("C4", migrate(0, 1), {{0, K, 1}});
  add("C5", remove(K), {{1, K, 1}});
}

void add_three_way(std::vector<Scenario>* all) {
  const std::vector<Op> reads = {get(K), get(K)};
  const auto add = [&](std::string name, Programs programs, std::vector<Placed> initial) {
    all->push_back(make(3, std::move(name), std::move(programs), std::move(initial)));
  };
  add("T1", {{put(K, 11)}, {put(X, 21)}, {get(K)}}, {{1, X, 2}, {2, K, 1}});
  add("T2", {{remove(K)}, {put(X, 21)}, {get(K)}}, {{1, X, 2}, {2, K, 1}});
  add("T3", {{put(K, 11)}, {put(K, 12)}, reads}, {{1, X, 2}, {2, K, 1}});
  add("T4", {{put(K, 11)}, {migrate(2, 1)}, reads}, {{2, K, 1}});
  add("T5", {{put(K, 11)}, {migrate(1, 2)}, reads}, {{1, K, 1}});
  add("T6", {{remove(K)}, {migrate(1, 2)}, reads}, {{1, K, 1}});
  add("T7", {{remove(K)}, {migrate(2, 1)}, reads}, {{2, K, 1}});
  add("T8", {{put(K, 11), migrate(0, 2)}, {put(K, 12)}, {get(K)}}, {{1, K, 1}});
  add("T9", {{remove(X), put(K, 11)}, {put(K, 12)}, {get(K)}}, {{1, X, 2}});
  add("T10", {{migrate(1, 0)}, {migrate(1, 2)}, reads}, {{1, K, 1}});
  add("T11", {{remove(K), put(K, 11)}, {migrate(1, 2)}, reads}, {{1, K, 1}});
}

void add_full_buckets(std::vector<Scenario>* all) {
  all->push_back(
      make(2, "I1", {{put(K, 11)}, {remove(Y), put(K, 12)}, {get(K), get(K)}}, {{0, X, 2}, {1, Y, 3}}));
  Scenario i2 = make(3, "I2", {{put(K, 11), remove(Z), migrate(0, 1)}, {remove(Y), put(K, 12)}, {get(K)}},
                     {{0, X, 2}, {1, Z, 5}, {2, Y, 3}});
  i2.candidates[X] = {0, 3, 5};
  i2.candidates[Y] = {2, 4, 4};
  all->push_back(i2);
}

void add_leases(std::vector<Scenario>* all) {
  const auto add = [&](std::string name, Op slow, std::vector<Placed> initial) {
    all->push_back(make(2, std::move(name), {{slow}, {break_lease(K), put(K, 12)}, {get(K), get(K)}},
                        std::move(initial)));
  };
  add("L1", put(K, 11), {{0, K, 1}});
  add("L2", put(K, 11), {});
  add("L3", remove(K), {{0, K, 1}});
  all->push_back(crashing(make(2, "L4", {{put(K, 11)}, {break_lease(K), get(K)}, {get(K)}}, {{0, K, 1}})));
}

}  // namespace

void place_candidates(Scenario* scenario) {
  const bool two = scenario->hash_functions == 2;
  scenario->candidates[K] = two ? std::array<Slot, 3>{0, 1, 1} : std::array<Slot, 3>{0, 1, 2};
  scenario->candidates[X] = two ? std::array<Slot, 3>{0, 3, 3} : std::array<Slot, 3>{1, 3, 5};
  scenario->candidates[Y] = {1, 4, 4};
  scenario->candidates[Z] = {1, 4, 5};
}

const std::vector<Scenario>& all_scenarios() {
  static const std::vector<Scenario> scenarios = [] {
    std::vector<Scenario> all;
    add_two_way(&all);
    add_crashes(&all);
    add_three_way(&all);
    add_full_buckets(&all);
    add_leases(&all);
    return all;
  }();
  return scenarios;
}

const Scenario& scenario(const std::string& name) {
  for (const Scenario& s : all_scenarios()) {
    if (s.name == name) return s;
  }
  LOCH_CHECK(false, "no scenario is called {}", name);
}

}  // namespace loch::model
