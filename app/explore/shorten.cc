// Searches breadth first: every state is reached by a shortest path first, so the first violation found is a
// shortest.
#include "app/explore/shorten.h"

#include <algorithm>
#include <chrono>

#include "app/explore/judge.h"
#include "app/explore/rewinder.h"
#include "app/explore/visited.h"

namespace loch::explore {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double longest_s = 60;

class Shortening {
 public:
  Shortening(const Plan& plan, const check::CheckOptions& judging, std::uint64_t states, double seconds,
             bool (*stop)())
      : judge_(judging), states_(states), seconds_(seconds), stop_(stop), run_(plan, &idle_alarms_, true) {}

  // Looks for a violation with fewer than `depth` moves; nullopt if there is none, or if the search gave up.
  std::optional<Violation> search(std::size_t depth);
  [[nodiscard]] bool gave_up() const { return gave_up_; }
  [[nodiscard]] std::uint64_t states() const { return visited_.size(); }
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(Clock::now() - started_).count();
  }

 private:
  struct Node {
    std::uint32_t parent = 0;
    Move move;
  };
  [[nodiscard]] std::vector<Move> path_to(std::uint32_t node) const;
  // A state at the present depth of the breadth-first search, whose moves are tried next.
  struct Front {
    std::uint32_t node = 0;
    std::vector<Hash> chains;
  };
  bool expand(const Front& from, std::vector<Front>& into);
  bool step(const Move& move, std::uint32_t from, std::vector<Front>& into);
  bool judge(Judgement judgement, std::uint32_t from, const Move& move);

  Judge judge_;
  std::uint64_t states_;
  double seconds_;
  bool (*stop_)();
  Clock::time_point started_ = Clock::now();
  Visited visited_;
  HashSet idle_alarms_;
  std::vector<Node> nodes_;
  std::optional<Violation> found_;
  Rewinder run_;
  bool gave_up_ = false;
};

std::vector<Move> Shortening::path_to(std::uint32_t node) const {
  std::vector<Move> path;
  for (; node != 0; node = nodes_[node].parent) path.push_back(nodes_[node].move);
  std::ranges::reverse(path);
  return path;
}

bool Shortening::judge(Judgement judgement, std::uint32_t from, const Move& move) {
  if (judgement.reasons.empty()) return false;
  found_ = Violation{.moves = path_to(from),
                     .reasons = std::move(judgement.reasons),
                     .sub_history = std::move(judgement.sub_history),
                     .is_shortest = true};
  found_->moves.push_back(move);
  return true;
}

// Makes one move from the state `from`; returns true if it shows a violation.
bool Shortening::step(const Move& move, std::uint32_t from, std::vector<Front>& into) {
  Run& run = run_.run();
  const bool is_alarm = move.kind == Kind::alarm;
  const Hash alarm = is_alarm ? run.alarm_key(move) : Hash{};
  if (is_alarm && idle_alarms_.contains(alarm)) return false;
  const Footprint print = run_.apply(move);
  if (print.is_idle) {
    idle_alarms_.insert(alarm);
    return false;
  }
  if (print.ends && judge(judge_.history(run), from, move)) return true;
  if (visited_.find_or_insert(run.id(), 0)) return false;
  if (run.is_over()) return judge(judge_.end(run, run_.end()), from, move);
  if (run.moves().empty()) return judge({{run.stuck()}, {}}, from, move);
  nodes_.push_back({from, move});
  into.push_back({static_cast<std::uint32_t>(nodes_.size() - 1), run.chains()});
  return false;
}

bool Shortening::expand(const Front& from, std::vector<Front>& into) {
  const std::vector<Move> path = path_to(from.node);
  run_.repeat(path, from.chains);
  const std::vector<Move> moves = run_.run().moves();
  const Arena::Saved here = moves.size() > 1 ? run_.save() : Arena::Saved{};
  for (std::size_t i = 0; i < moves.size(); ++i) {
    if (i != 0 && run_.saves())
      run_.restore(here);
    else if (i != 0)
      run_.repeat(path, from.chains);
    if (step(moves[i], from.node, into)) return true;
  }
  return false;
}

std::optional<Violation> Shortening::search(std::size_t depth) {
  nodes_.push_back({});
  std::vector<Front> level;
  visited_.find_or_insert(run_.run().id(), 0);
  level.push_back({0, run_.run().chains()});
  for (std::size_t at = 0; at + 1 < depth && !level.empty(); ++at) {
    std::vector<Front> next;
    for (const Front& each : level) {
      if (expand(each, next)) return found_;
      gave_up_ = visited_.size() >= states_ || seconds() > seconds_ || (stop_ != nullptr && stop_());
      if (gave_up_) return std::nullopt;
    }
    level = std::move(next);
  }
  return std::nullopt;
}

}  // namespace

void shorten(const Plan& plan, const check::CheckOptions& judging, const Limits& limits, bool (*stop)(),
             Exploration& out) {
  const double seconds = limits.time > 0 ? std::max(5.0, static_cast<double>(limits.time) / 1e9) : longest_s;
  Shortening shortening(plan, judging, limits.states, seconds, stop);
  std::optional<Violation> shorter = shortening.search(out.violation->moves.size());
  if (shorter)
    out.violation = std::move(shorter);
  else
    out.violation->is_shortest = !shortening.gave_up();
  out.shortening_states = shortening.states();
  out.shortening_seconds = shortening.seconds();
}

}  // namespace loch::explore
