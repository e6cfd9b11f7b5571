// Every interleaving of a scenario: depth first over the moves of Run, each state once, with sleep sets, so
// that moves that touch nothing in common are made in one order. A violation's trace is then shortened
// breadth first.
//
// Going back means to put back the memory of the run as it was there (Rewinder), except while a trace is
// shortened: then the moves are made again.
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
  Nanos time = 0;            // real; 0: none
  bool reduces = true;       // sleep sets
  bool saves = true;         // rewinds by restoring saved memory; false: by repeating the moves
  bool shortens = true;      // looks for the shortest trace of a violation
  bool keeps_going = false;  // continues after a violation, to count all states and outcomes
};

struct Violation {
  std::vector<Move> moves;
  std::vector<std::string> reasons;           // the violated properties, one line each
  std::vector<check::Operation> sub_history;  // the operations that contradict each other, if they do
  bool is_shortest = false;                   // no shorter sequence of moves shows any violation
};

enum class Ending : std::uint8_t { complete, found, bound, interrupted };

struct Exploration {
  Ending ending = Ending::complete;
  std::uint64_t states = 0, transitions = 0;
  std::uint64_t returns = 0,
                repeated = 0;  // how often it went back, and the moves that it made again for that
  std::uint64_t ends = 0;      // states in which all clients have ended
  std::uint32_t depth = 0;     // longest sequence of moves
  double seconds = 0;
  std::set<Hash> outcomes;  // of complete runs: what clients were told, and which returned before which
  std::optional<Violation> violation;
  std::uint64_t shortening_states = 0;
  double shortening_seconds = 0;
};

// What another thread may read while it runs.
struct Count {
  std::atomic<std::uint64_t> states{0}, transitions{0};
  std::atomic<std::uint32_t> depth{0};
  std::atomic<bool> is_shortening{false};
};

// `judging`: model and rules of the protocol; the start of each key is known. `stop` is asked now and then.
[[nodiscard]] Exploration explore(const Plan& plan, const check::CheckOptions& judging, const Limits& limits,
                                  Count& count, bool (*stop)());

// The violation's moves as numbered lines.
[[nodiscard]] std::vector<std::string> trace_of(const Plan& plan, const std::vector<Move>& moves);

}  // namespace loch::explore
