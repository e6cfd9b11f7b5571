// Runs families of explorations and prints one line about each family.
#include "app/cli/explore_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "app/cli/interrupt.h"
#include "app/cli/progress.h"
#include "app/explore/family.h"

namespace loch::cli {
namespace {

struct Sum {
  std::uint64_t scenarios = 0, complete = 0, bounded = 0, found = 0, states = 0;
  double seconds = 0;
};

class FamilyRun {
 public:
  FamilyRun(const ExploreFlags& options, const kv::Registry& registry)
      : options_(options), registry_(registry) {}
  Result<int> run();

 private:
  Result<> visit(const std::string& text, const std::string& before);
  // The deployment for a scenario. It is cached by the scenario's number of operations, because the search
  // for colliding keys is repeated only if that number changes.
  Result<explore::Plan> plan_for(const ExploreOptions& each);
  void note(const ExploreOptions& each, const explore::Exploration& all);

  const ExploreFlags& options_;
  const kv::Registry& registry_;
  std::map<std::uint32_t, explore::Plan> plans_;
  Sum sum_;
  explore::Count count_;
};

Result<explore::Plan> FamilyRun::plan_for(const ExploreOptions& each) {
  LOCH_ASSIGN(explore::Scenario scenario, explore::parse_scenario(each.scenario, each.keys));
  if (!each.before.empty()) LOCH_TRY(explore::prepare(scenario, each.before));
  const std::uint32_t operations = scenario.operations();
  auto known = plans_.find(operations);
  if (known == plans_.end()) {
    LOCH_ASSIGN(explore::Plan made, plan_of(each, registry_));
    known = plans_.emplace(operations, std::move(made)).first;
  }
  explore::Plan plan = known->second;
  plan.scenario = std::move(scenario);
  return plan;
}

void FamilyRun::note(const ExploreOptions& each, const explore::Exploration& all) {
  ++sum_.scenarios;
  sum_.states += all.states;
  sum_.seconds += all.seconds;
  const bool is_bounded = all.ending == explore::Ending::bound;
  sum_.bounded += is_bounded ? 1 : 0;
  sum_.complete += all.ending == explore::Ending::complete ? 1 : 0;
  if (!all.violation) return;
  if (++sum_.found > options_.shown) return;
  fmt::print("found     {}\n          {}\n", describe(each), all.violation->reasons.front());
  std::fflush(stdout);
}

Result<> FamilyRun::visit(const std::string& text, const std::string& before) {
  ExploreOptions each = options_.each;
  each.scenario = text;
  each.before = before;
  each.limits.shortens = false;
  LOCH_ASSIGN(const explore::Plan plan, plan_for(each));
  const explore::Exploration all =
      explore::explore(plan, judging_of(plan), each.limits, count_, &was_interrupted);
  if (all.ending != explore::Ending::interrupted) note(each, all);
  return {};
}

Result<int> FamilyRun::run() {
  const std::string& keys = options_.each.keys;
  const std::size_t space = std::min(keys.find(' '), keys.size());
  const std::string first = keys.substr(0, space), second = space < keys.size() ? keys.substr(space + 1) : "";
  if (second.empty() || second.find(' ') != std::string::npos)
    return fail(ErrorCode::invalid_argument,
                fmt::format("--keys: \"{}\": a family has two keys: \"K X\"", keys));
  LOCH_ASSIGN(auto scenarios, explore::scenarios_of(options_.family, first, second, false));
  ExploreOptions any = options_.each;
  any.scenario = scenarios.front();
  LOCH_ASSIGN(const explore::Plan plan, plan_of(any, registry_));
  LOCH_ASSIGN(scenarios, explore::scenarios_of(options_.family, first, second, explore::can_migrate(plan)));
  const auto starts = explore::starts_of(plan, static_cast<std::uint32_t>(options_.starts));
  const Progress progress([this, total = scenarios.size() * starts.size() / options_.every] {
    return fmt::format("{} of {} scenarios, {} found; {} states", sum_.scenarios, total, sum_.found,
                       count_.states.load());
  });
  std::uint64_t number = 0;
  for (const std::string& before : starts) {
    for (const std::string& text : scenarios) {
      if (number++ % options_.every != 0) continue;
      LOCH_TRY(visit(text, before));
      if (was_interrupted()) break;
    }
    if (was_interrupted()) break;
  }
  fmt::print("{} {}: {} scenarios, {} starts: {} complete, {} bounded, {} found; {} states, {:.1f} s{}\n",
             options_.each.protocol, options_.family, sum_.scenarios, starts.size(), sum_.complete,
             sum_.bounded, sum_.found, sum_.states, sum_.seconds, was_interrupted() ? "; interrupted" : "");
  if (was_interrupted()) return 130;
  if (sum_.found > 0) return 1;
  return sum_.bounded > 0 ? 3 : 0;
}

}  // namespace

int run_explore_family(const ExploreFlags& flags, const kv::Registry& registry) {
  const InterruptScope guard(nullptr);
  const Result<int> status = FamilyRun(flags, registry).run();
  if (status) return *status;
  fmt::print(stderr, "loch explore: {}\n", status.error().message);
  return 2;
}

}  // namespace loch::cli
