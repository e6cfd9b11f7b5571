// Explores every interleaving of a scenario: depth first over the moves of Run, visiting each state once.
// Sleep sets avoid making independent moves in more than one order. The trace of a violation is then
// shortened by a breadth-first search.
//
// Backtracking restores the run's saved memory (Rewinder), or repeats the moves from the beginning where
// memory cannot be saved.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/explore/plan.h"
#include "app/explore/run.h"
#include "common/check/linearizable.h"

namespace loch::explore {

struct Limits {
  std::uint64_t states = 10'000'000;
  Nanos time = 0;            // limit in ns of real time; 0: none
  bool reduces = true;       // true: sleep sets skip other orders of independent moves
  bool saves = true;         // true: backtrack by restoring saved memory; false: by repeating the moves
  bool shortens = true;      // true: look for the shortest trace of a violation
  bool keeps_going = false;  // true: continue after a violation, to count all states and outcomes
};

struct Violation {
  std::vector<Move> moves;
  std::vector<std::string> reasons;  // the violated properties, one line each
  // The contradictory operations, if the history is not linearizable.
  std::vector<check::Operation> sub_history;
  bool is_shortest = false;  // true: no shorter sequence of moves shows any violation
};

enum class Ending : std::uint8_t { complete, found, bound, interrupted };

struct Exploration {
  Ending ending = Ending::complete;
  std::uint64_t states = 0, transitions = 0;
  // Number of returns to an earlier state, and of the moves repeated for these returns.
  std::uint64_t returns = 0, repeated = 0;
  std::uint64_t ends = 0;   // number of states in which all clients have ended
  std::uint32_t depth = 0;  // largest number of moves on a path
  double seconds = 0;
  // For each complete run: a hash of the operations' answers and of which operations had returned before
  // which others began.
  std::set<Hash> outcomes;
  std::optional<Violation> violation;
  std::uint64_t shortening_states = 0;
  double shortening_seconds = 0;
};

// Counters that another thread may read during the exploration.
struct Count {
  std::atomic<std::uint64_t> states{0}, transitions{0};
  std::atomic<std::uint32_t> depth{0};
  std::atomic<bool> is_shortening{false};
};

// Explores the plan, and judges every execution by the consistency model in `judging`. `stop` (may be null)
// is polled, and ends the exploration by returning true.
[[nodiscard]] Exploration explore(const Plan& plan, const check::CheckOptions& judging, const Limits& limits,
                                  Count& count, bool (*stop)());

// The violation's moves as numbered lines.
[[nodiscard]] std::vector<std::string> trace_of(const Plan& plan, const std::vector<Move>& moves);

}  // namespace loch::explore
