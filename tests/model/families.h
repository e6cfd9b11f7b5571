// Families of scenarios: every choice of short programs and of where K and X lie at first.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/model/explorer.h"

namespace loch::model {

// main2    two writers of up to 2 operations each on K and X, a reader; two hash functions (21,024)
// main3    a writer of up to 2 operations, one of 1, a reader; three hash functions         (20,592)
// 3w       three clients of 1 operation                                                     (2,548)
// 21, 22   2 + 1 + 1 operations on K; 2 + 2 with a reader                          (14,580; 16,380)
// crash    3w, the first client may crash anywhere                                          (6,552)
// brk      crash or slowness, another client breaks the lease and goes on                  (12,096)
// scrub    crash, then a fenced repair at rest                                              (6,552)
// scrubon  crash, a fenced repair while others run                                         (12,096)
[[nodiscard]] const std::vector<std::string>& all_families();

// Calls `visit` with each scenario of the family, in a fixed order; stops when it returns false.
void for_each_scenario(const std::string& family, const std::function<bool(const Scenario&)>& visit);

struct Sweep {
  std::uint64_t scenarios = 0;
  std::uint64_t states = 0;
  // Scenarios in which it was found.
  std::uint64_t violating = 0;
  std::uint64_t stuck_get = 0;
  std::uint64_t stuck_put = 0;
  std::uint64_t duplicate = 0;
  std::uint64_t leak = 0;
  std::uint64_t recycled_but_linked = 0;
  std::uint64_t cut_off = 0;
  std::string shortest;  // the shortest trace of a violation, with its scenario
};

// Every `stride`-th scenario, beginning with number `first`.
[[nodiscard]] Sweep sweep(const Rules& rules, const std::string& family, std::uint64_t stride = 1,
                          std::uint64_t first = 0, const Limits& limits = {});

}  // namespace loch::model
