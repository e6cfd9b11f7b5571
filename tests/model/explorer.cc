#include "tests/model/explorer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "tests/model/state_store.h"

namespace loch::model {
namespace {

constexpr std::uint8_t crash_step = 0x80;  // in the list of steps: client | crash_step

class Explorer {
 public:
  Explorer(const Rules& rules, const Scenario& scenario, const Limits& limits)
      : machine_(rules, scenario, limits.aborts),
        limits_(limits),
        store_(machine_.clients(), machine_.entries()) {}

  Exploration run() {
    push(machine_.initial(), 0, nobody);
    for (at_ = 0; at_ < store_.size() && !stopped_; ++at_) {
      if (store_.size() > limits_.states) {
        result_.cut_off = true;
        break;
      }
      store_.load(at_, &here_);
      bool over = true;
      for (int c = 0; c < machine_.real_clients(); ++c) over = over && !runs(c);
      for (int c = 0; c < machine_.clients() && !stopped_; ++c) {
        if (runs(c) && (c < machine_.real_clients() || over)) take_step(c);
      }
      try_crashes();
      if (over) look_at_rest();
    }
    result_.states = store_.size();
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool runs(int c) const {
    return !machine_.finished(here_.state, c) && (here_.state.crashed >> c & 1) == 0;
  }

  void push(const World& world, std::uint32_t parent, std::uint8_t step) {
    if (store_.insert(world)) came_from_.push_back({parent, step});
  }

  void take_step(int c) {
    next_ = here_;
    const StepResult step = machine_.step(&next_, c, nullptr);
    const auto label = static_cast<std::uint8_t>(c);
    if (step.violated) {
      found(&result_.violation, label);
      stopped_ = limits_.stop_at_violation;
      return;
    }
    if (step.stuck_get) found(&result_.stuck_get, label);
    if (step.stuck_put) found(&result_.stuck_put, label);
    push(next_, at_, label);
  }

  void try_crashes() {
    if (here_.state.crashed != 0) return;
    for (int c = 0; c < machine_.real_clients(); ++c) {
      const bool may = (machine_.scenario().may_crash >> c & 1) != 0;
      if (!may || !runs(c) || here_.state.clients[c].begun == 0) continue;
      next_ = here_;
      next_.state.crashed = static_cast<std::uint8_t>(1U << c);
      push(next_, at_, static_cast<std::uint8_t>(c | crash_step));
    }
  }

  // All have finished, and the fresh client has not begun.
  void look_at_rest() {
    const State& state = here_.state;
    const bool probed = machine_.clients() > machine_.real_clients();
    if (probed) {
      const ClientState& fresh = state.clients[machine_.real_clients()];
      if (fresh.op != 0 || fresh.begun != 0) return;
    }
    std::array<int, key_count> committed{};
    std::array<bool, entry_max> linked{};
    bool reused = false;
    for (const Word word : state.slots) {
      if (word.empty()) continue;
      const Entry& entry = state.entries[static_cast<std::size_t>(word.id())];
      linked[static_cast<std::size_t>(word.id())] = true;
      if (machine_.visible(state, word)) ++committed[entry.key];
      reused = reused || entry.recycled != 0;
    }
    if (reused) found(&result_.recycled_but_linked, nobody);
    if (std::ranges::any_of(committed, [](int n) { return n > 1; })) found(&result_.duplicate, nobody);
    if (state.crashed == 0 && leaks(linked)) found(&result_.leak, nobody);
  }

  [[nodiscard]] bool leaks(const std::array<bool, entry_max>& linked) const {
    const auto lost = [&](int id) {
      return !linked[static_cast<std::size_t>(id)] &&
             here_.state.entries[static_cast<std::size_t>(id)].recycled == 0;
    };
    for (int id = 0; id < static_cast<int>(machine_.scenario().initial.size()); ++id) {
      if (lost(id)) return true;
    }
    for (int c = 0; c < machine_.real_clients(); ++c) {
      const auto [first, last] = machine_.entries_of(here_.state, c);
      for (int id = first; id < last; ++id) {
        if (lost(id)) return true;
      }
    }
    return false;
  }

  void found(Finding* finding, std::uint8_t last_step) {
    if (finding->times++ == 0) finding->trace = trace(last_step);
  }

  // Takes the steps that lead here once more, writing them down.
  [[nodiscard]] std::string trace(std::uint8_t last_step) {
    std::vector<std::uint8_t> steps;
    if (last_step != nobody) steps.push_back(last_step);
    for (std::uint32_t i = at_; i != 0; i = came_from_[i].parent) steps.push_back(came_from_[i].step);
    std::ranges::reverse(steps);
    World world = machine_.initial();
    std::string out;
    int number = 1;
    for (const std::uint8_t step : steps) {
      const int c = step & 0x7F;
      std::string text;
      if ((step & crash_step) != 0) {
        world.state.crashed = static_cast<std::uint8_t>(1U << c);
        text = "crashes";
      } else {
        (void)machine_.step(&world, c, &text);
      }
      const std::string who = c < machine_.real_clients() ? fmt::format("C{}", c) : "at rest";
      out += fmt::format("  {:2}. {}: {}\n", number++, who, text);
    }
    return out;
  }

  struct CameFrom {
    std::uint32_t parent;
    std::uint8_t step;
  };

  Machine machine_;
  Limits limits_;
  StateStore store_;
  std::vector<CameFrom> came_from_;
  std::uint32_t at_ = 0;
  World here_;
  World next_;
  bool stopped_ = false;
  Exploration result_;
};

}  // namespace

Exploration explore(const Rules& rules, const Scenario& scenario, const Limits& limits) {
  return Explorer(rules, scenario, limits).run();
}

}  // namespace loch::model
