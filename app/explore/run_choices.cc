// Computes the moves that are possible in a state: steps of workers, failures, torn requests, passing time.
#include "app/explore/run.h"

#include <algorithm>

namespace loch::explore {
namespace {

using fabric::WorkRequest;
using Alarms = fabric::step::StepFabric::Alarms;

// Bound on how many times in succession time may pass while all workers only poll.
constexpr std::uint32_t most_waits = 24;

}  // namespace

bool Run::is_over() const {
  return std::ranges::all_of(clients_, [](const auto& c) { return c->is_done || c->is_dead; });
}

bool Run::has_polled(std::uint8_t w) {
  return (chains_.back().low >> w & 1U) != 0 && looked_at(w) == shared_by(worker(w).node());
}

bool Run::is_background(std::uint8_t w) {
  const Client* client = client_of(w);
  return client != nullptr && !client->running;
}

// Whether the client may begin its next operation. A SCRUB (a repair of what dead clients left half-done) may
// begin only if a client has died, if no client can be killed any more, or if every client has ended or
// begins a SCRUB next.
bool Run::may_begin(const Client& client) const {
  const auto is_next_scrub = [&](const Client& each) {
    const auto& program = plan_.scenario.clients[each.number];
    return !each.running && each.next < program.size() && program[each.next].verb == Verb::scrub;
  };
  if (!is_next_scrub(client) || left_.kills == 0) return true;
  return std::ranges::any_of(clients_, [](const auto& each) { return each->is_dead; }) ||
         std::ranges::all_of(clients_,
                             [&](const auto& each) { return each->is_done || is_next_scrub(*each); });
}

bool Run::can_go_on(std::uint8_t w) {
  const Client* client = client_of(w);
  if (client != nullptr && client->is_dead) return false;
  if (fabric_->has_news(worker(w))) return true;
  const std::size_t posted = fabric_->posted(worker(w));
  for (std::size_t i = 0; i < posted; ++i) {
    if (fabric_->is_executable(worker(w), i)) return true;
  }
  return false;
}

bool Run::is_switch(const Move& move) {
  if (!left_.switches || !last_ || move.worker == *last_) return false;
  const bool is_fate =
      move.kind == Kind::kill || move.kind == Kind::kill_executed || move.kind == Kind::clock;
  return !is_fate && can_go_on(*last_);
}

void Run::add_worker_moves(std::uint8_t w, std::vector<Move>& into) {
  Client* client = client_of(w);
  if (client != nullptr && client->is_dead) return;
  if (client != nullptr && client->gate && may_begin(*client)) into.push_back({Kind::begin, w, 0});
  const std::size_t posted = fabric_->posted(worker(w));
  for (std::size_t i = 0; i < posted; ++i) {
    if (fabric_->is_executable(worker(w), i))
      into.push_back({Kind::request, w, static_cast<std::uint8_t>(i)});
  }
  if (fabric_->has_news(worker(w))) into.push_back({Kind::news, w, 0});
  add_alarms(w, into, false);
}

// Adds the worker's timers as possible moves. With `polled`, adds them only for a background worker that has
// polled since memory last changed; without it, only for all other workers.
void Run::add_alarms(std::uint8_t w, std::vector<Move>& into, bool polled) {
  const Client* client = client_of(w);
  if (client != nullptr && client->is_dead) return;
  if ((is_background(w) && has_polled(w)) != polled) return;
  const std::size_t timers = fabric_->timers(worker(w));
  for (std::size_t i = 0; i < timers; ++i) {
    const Move alarm{Kind::alarm, w, static_cast<std::uint8_t>(i)};
    if (idle_ == nullptr || !idle_->contains(alarm_key(alarm))) into.push_back(alarm);
  }
}

void Run::add_failures(std::uint8_t w, std::vector<Move>& into) {
  Client* client = client_of(w);
  if (client != nullptr && client->is_dead) return;
  const auto living = std::ranges::count_if(clients_, [](const auto& c) { return !c->is_dead; });
  const bool may_die = left_.kills > 0 && client != nullptr && client->running && living > 1;
  if (may_die) into.push_back({Kind::kill, w, 0});
  const std::size_t posted = fabric_->posted(worker(w));
  for (std::size_t i = 0; i < posted; ++i) {
    const WorkRequest& request = fabric_->request(worker(w), i);
    const auto at = static_cast<std::uint8_t>(i);
    const bool is_reliable = request.transport == fabric::Transport::rc;
    if (!fabric_->is_executable(worker(w), i) || (is_reliable && !worker(w).connected(request.peer)))
      continue;
    const bool has_effect = request.verb != fabric::Verb::read;
    if (may_die && has_effect) into.push_back({Kind::kill_executed, w, at});
    if (left_.fails > 0) {
      into.push_back({Kind::not_executed, w, at});
      if (is_reliable && has_effect) into.push_back({Kind::unheard, w, at});
    }
    if (left_.cuts == 0 || !is_reliable) continue;
    into.push_back({Kind::not_executed_cut, w, at});
    if (has_effect) into.push_back({Kind::unheard_cut, w, at});
  }
}

// Adds a move for every boundary between cache lines at which a posted READ or WRITE can be torn, with either
// half executed first. The arrival of a READ's data in the requester's buffer can be torn only if no
// coroutine awaits the completion, because the buffer may then be read before the completion.
void Run::add_tears(std::uint8_t w, std::vector<Move>& into) {
  const Client* client = client_of(w);
  if (left_.torn == 0 || (client != nullptr && client->is_dead)) return;
  const std::size_t posted = fabric_->posted(worker(w));
  for (std::size_t i = 0; i < posted; ++i) {
    const WorkRequest& request = fabric_->request(worker(w), i);
    const bool is_reliable = request.transport == fabric::Transport::rc;
    if (!fabric_->is_executable(worker(w), i) || (is_reliable && !worker(w).connected(request.peer)))
      continue;
    const bool is_watched = !request.is_signaled || request.sink == nullptr;
    for (const bool is_at_landing : {false, true}) {
      if (is_at_landing && !is_watched) continue;
      const std::uint32_t pieces = fabric_->pieces(worker(w), i, is_at_landing);
      for (std::uint32_t piece = 1; piece < pieces; ++piece) {
        for (const std::uint32_t is_upper_first : {0U, 1U}) {
          const std::uint32_t half = 4 * piece + 2 * is_upper_first + (is_at_landing ? 1 : 0);
          into.push_back({Kind::tear, w, static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(half)});
        }
      }
    }
  }
}

fabric::step::Tear Run::tear_of(const Move& move) {
  return fabric_->tear_at(worker(move.worker), move.request, (move.half & 1U) != 0, (move.half & 2U) != 0,
                          move.half >> 2U);
}

std::vector<Move> Run::moves() {
  std::vector<Move> all;
  if (is_over()) return all;
  const auto workers = static_cast<std::uint8_t>(workers_.size());
  for (std::uint8_t w = 0; w < workers; ++w) add_worker_moves(w, all);
  // While the scenario's preparing operations run (Scenario::prepared), no other operation may begin.
  if (is_preparing_) std::erase_if(all, [](const Move& each) { return each.kind == Kind::begin; });
  if (all.empty()) {
    for (std::uint8_t w = 0; w < workers; ++w) add_alarms(w, all, true);
  }
  const bool is_quiet = all.empty();
  for (std::uint8_t w = 0; w < workers; ++w) {
    const bool waits = fabric_->next_alarm(worker(w), Alarms::deadlines).at != fabric::forever;
    if (!waits || (!is_quiet && left_.late == 0)) continue;
    all.push_back({Kind::late, w, static_cast<std::uint8_t>(is_quiet ? 1 : 0)});
  }
  // If all workers only poll, time has to pass, because a poll changes nothing and is therefore no move.
  for (std::uint8_t w = 0; all.empty() && w < workers; ++w) {
    if (fabric_->timers(worker(w)) > 0 && waits_in_vain_ < most_waits) all.push_back({Kind::late, w, 2});
  }
  if (all.empty()) return all;
  for (std::uint8_t w = 0; w < workers; ++w) add_failures(w, all);
  for (std::uint8_t w = 0; w < workers; ++w) add_tears(w, all);
  if (left_.clocks > 0) all.push_back({Kind::clock, 0, 0});
  if (left_.switches && *left_.switches == 0)
    std::erase_if(all, [&](const Move& each) { return is_switch(each); });
  return all;
}

}  // namespace loch::explore
