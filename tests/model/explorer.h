// Every interleaving of a scenario's steps, breadth first, so that the first trace of each kind that
// is found is a shortest one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/model/machine.h"

namespace loch::model {

struct Limits {
  Aborts aborts = Aborts::have_no_effect;
  bool stop_at_violation = false;
  std::uint64_t states = 60'000'000;  // then the result says cut_off
};

// What may be wrong at the end, and the shortest way there.
struct Finding {
  std::uint64_t times = 0;
  std::string trace;
};

struct Exploration {
  std::uint64_t states = 0;
  bool cut_off = false;
  Finding violation;            // an answer that no linearization explains
  Finding stuck_get;            // the fresh client at the end cannot read K
  Finding stuck_put;            // … or write it
  Finding duplicate;            // two committed entries of a key at rest
  Finding leak;                 // an entry that nothing links and nobody recycles
  Finding recycled_but_linked;  // an entry that a slot still links is up for reuse
};

[[nodiscard]] Exploration explore(const Rules& rules, const Scenario& scenario, const Limits& limits);

}  // namespace loch::model
