// Explores depth first, with a table of visited states and sleep sets.
#include "app/explore/explorer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "app/explore/judge.h"
#include "app/explore/rewinder.h"
#include "app/explore/shorten.h"
#include "app/explore/visited.h"

namespace loch::explore {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// An entry of a sleep set: a move that need not be made from this state, because the same moves in another
// order have been explored.
struct Sleeper {
  std::uint64_t bit = 0;
  Footprint print;
};

// A state on the path from the initial state to the search's present state.
struct Level {
  std::vector<Move> moves;
  std::size_t next = 0;
  std::vector<Sleeper> asleep;
  std::vector<Hash> chains;
  Arena::Saved saved;  // saved memory of the state; empty if it has only one move or memory cannot be saved
};

class Search {
 public:
  Search(const Plan& plan, const check::CheckOptions& judging, const Limits& limits, Count& count,
         bool (*stop)())
      : judge_(judging),
        limits_(limits),
        count_(count),
        stop_(stop),
        run_(plan, &idle_alarms_, limits.saves) {}

  Exploration run();

 private:
  void enter_start();
  void advance(const Move& move);
  void enter(const Footprint& print, const Move& move);
  void note(Judgement judgement);
  void bring_run_here();
  void push(std::vector<Move> moves, std::vector<Sleeper> asleep);
  [[nodiscard]] bool is_bounded();
  [[nodiscard]] static std::uint64_t mask_of(const std::vector<Sleeper>& asleep);

  Judge judge_;
  Limits limits_;
  Count& count_;
  bool (*stop_)();
  Clock::time_point started_ = Clock::now();
  Visited visited_;
  HashSet idle_alarms_;
  std::vector<Level> levels_;
  std::vector<Move> path_;
  Rewinder run_;
  bool is_here_ = true;  // whether the run `run_` is in the state at the end of path_
  Exploration out_;
};

std::uint64_t Search::mask_of(const std::vector<Sleeper>& asleep) {
  std::uint64_t mask = 0;
  for (const Sleeper& each : asleep) mask |= each.bit;
  return mask;
}

void Search::bring_run_here() {
  if (is_here_) return;
  is_here_ = true;
  ++out_.returns;
  const Level& level = levels_.back();
  if (run_.saves())
    run_.restore(level.saved);
  else
    run_.repeat(path_, level.chains);
}

void Search::push(std::vector<Move> moves, std::vector<Sleeper> asleep) {
  const std::uint64_t mask = mask_of(asleep);
  std::erase_if(moves, [&](const Move& each) { return (each.bit() & mask) != 0; });
  Level& level = levels_.emplace_back(std::move(moves), 0, std::move(asleep), run_.run().chains());
  if (level.moves.size() > 1) level.saved = run_.save();
}

void Search::note(Judgement judgement) {
  if (judgement.reasons.empty() || out_.violation) return;
  out_.violation = Violation{.moves = path_,
                             .reasons = std::move(judgement.reasons),
                             .sub_history = std::move(judgement.sub_history),
                             .is_shortest = false};
}

bool Search::is_bounded() {
  if (out_.violation && !limits_.keeps_going) return true;
  if (visited_.size() >= limits_.states) {
    out_.ending = Ending::bound;
    return true;
  }
  if ((out_.transitions & 0xFFU) != 0) return false;
  if (stop_ != nullptr && stop_()) out_.ending = Ending::interrupted;
  if (limits_.time > 0 && since(started_) * 1e9 >= static_cast<double>(limits_.time))
    out_.ending = Ending::bound;
  return out_.ending != Ending::complete;
}

void Search::enter_start() {
  visited_.find_or_insert(run_.run().id(), 0);
  push(run_.run().moves(), {});
}

// Adds the state that run_ reached by `move` to the path. Removes it again if the state has no moves left to
// explore: all of them were explored at earlier visits or are in the present sleep set.
void Search::enter(const Footprint& print, const Move& move) {
  Level& from = levels_.back();
  Run& run = run_.run();
  std::vector<Sleeper> asleep;
  if (limits_.reduces) {
    for (const Sleeper& each : from.asleep) {
      if (are_independent(each.print, print)) asleep.push_back(each);
    }
    if (move.bit() != 0) from.asleep.push_back({move.bit(), print});
  }
  path_.push_back(move);
  out_.depth = std::max(out_.depth, static_cast<std::uint32_t>(path_.size()));
  if (print.ends) note(judge_.history(run));
  const std::uint64_t mask = mask_of(asleep);
  const std::optional<std::uint64_t*> known = visited_.find_or_insert(run.id(), mask);
  std::vector<Move> moves;
  if (!known) {
    moves = run.moves();
    if (moves.empty()) {
      if (run.is_over()) {
        ++out_.ends;
        out_.outcomes.insert(run.history_id());
        note(judge_.end(run, run_.end()));
      } else {
        note({{run.stuck()}, {}});
      }
    }
  } else if (const std::uint64_t again = **known & ~mask; again != 0) {
    // The state was visited before. Explores only the moves that the sleep sets of all earlier visits
    // contained and the present one does not.
    **known &= mask;
    moves = run.moves();
    std::erase_if(moves, [&](const Move& each) { return (each.bit() & again) == 0; });
  }
  if (moves.empty()) {
    path_.pop_back();
    is_here_ = false;
    return;
  }
  push(std::move(moves), std::move(asleep));
}

void Search::advance(const Move& move) {
  bring_run_here();
  const bool is_alarm = move.kind == Kind::alarm;
  const Hash alarm = is_alarm ? run_.run().alarm_key(move) : Hash{};
  if (is_alarm && idle_alarms_.contains(alarm)) return;
  ++out_.transitions;
  const Footprint print = run_.apply(move);
  if (print.is_idle) {
    idle_alarms_.insert(alarm);
    is_here_ = false;
    return;
  }
  enter(print, move);
}

Exploration Search::run() {
  enter_start();
  while (!levels_.empty() && !is_bounded()) {
    Level& level = levels_.back();
    if (level.next == level.moves.size()) {
      levels_.pop_back();
      if (!path_.empty()) path_.pop_back();
      is_here_ = false;
      continue;
    }
    const Move move = level.moves[level.next++];
    advance(move);
    count_.states.store(visited_.size(), std::memory_order_relaxed);
    count_.transitions.store(out_.transitions, std::memory_order_relaxed);
    count_.depth.store(out_.depth, std::memory_order_relaxed);
  }
  out_.repeated = run_.repeated();
  out_.states = visited_.size();
  out_.seconds = since(started_);
  return std::move(out_);
}

}  // namespace

Exploration explore(const Plan& plan, const check::CheckOptions& judging, const Limits& limits, Count& count,
                    bool (*stop)()) {
  Exploration out;
  {
    // `search` is destroyed before shorten() begins, since only one arena can exist at a time.
    Search search(plan, judging, limits, count, stop);
    out = search.run();
  }
  if (!out.violation) return out;
  if (!limits.keeps_going) out.ending = Ending::found;
  if (!limits.shortens) return out;
  count.is_shortening = true;
  shorten(plan, judging, limits, stop, out);
  return out;
}

std::vector<std::string> trace_of(const Plan& plan, const std::vector<Move>& moves) {
  Run run(plan);
  run.set_hashing(false);
  std::vector<std::string> lines;
  for (const Move& move : moves) {
    std::string text;
    run.apply(move, &text);
    lines.push_back(fmt::format("{:>4}. {}", lines.size() + 1, text));
  }
  return lines;
}

}  // namespace loch::explore
