// The command `loch explore` for a single scenario, and its output.
#include "app/cli/explore_command.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/cli/explore_family.h"
#include "app/cli/explore_flags.h"
#include "app/cli/explore_options.h"
#include "app/cli/explore_suite.h"
#include "app/cli/interrupt.h"
#include "app/cli/progress.h"
#include "common/base/output_place.h"

namespace loch::cli {
namespace {

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string list_of(const std::vector<std::string>& lines) {
  std::string out = "[";
  for (const std::string& line : lines) out += (out.size() > 1 ? ", " : "") + json_text(line);
  return out + "]";
}

std::string json_of(const ExploreOptions& o, const explore::Exploration& all,
                    const std::vector<std::string>& trace) {
  std::string out = fmt::format(
      "{{\"schema\": \"loch-explore-1\", \"protocol\": {}, \"scenario\": {}, \"mutant\": {}, \"verdict\": "
      "\"{}\", "
      "\"states\": {}, \"transitions\": {}, \"ends\": {}, \"outcomes\": {}, \"depth\": {}, \"seconds\": "
      "{:.3f}, "
      "\"rerun\": {}",
      json_text(o.protocol), json_text(o.scenario), json_text(o.mutant), verdict_of(all), all.states,
      all.transitions, all.ends, all.outcomes.size(), all.depth, all.seconds,
      json_text("./loch explore " + describe(o)));
  if (all.violation) {
    out += fmt::format(", \"is_shortest\": {}, \"reasons\": {}, \"trace\": {}", all.violation->is_shortest,
                       list_of(all.violation->reasons), list_of(trace));
  }
  return out + "}\n";
}

void print_violation(const ExploreOptions& o, const explore::Exploration& all,
                     const std::vector<std::string>& trace) {
  const explore::Violation& violation = *all.violation;
  for (const std::string& reason : violation.reasons) fmt::print("found: {}\n", reason);
  fmt::print("trace of {} moves ({}):\n", violation.moves.size(),
             violation.is_shortest ? "no shorter one shows a violation" : "there may be a shorter one");
  for (const std::string& line : trace) fmt::print("{}\n", line);
  if (!violation.sub_history.empty()) fmt::print("operations that contradict each other:\n");
  for (const check::Operation& operation : violation.sub_history)
    fmt::print("  {}", check::to_line(check::view(operation)));
  fmt::print("rerun: ./loch explore {}\n", describe(o));
}

int conclude(const ExploreOptions& o, const explore::Plan& plan, const explore::Exploration& all) {
  std::vector<std::string> trace;
  if (all.violation) {
    trace = explore::trace_of(plan, all.violation->moves);
    print_violation(o, all, trace);
  }
  fmt::print("{} \"{}\": {}: {} states, {} transitions, {} ends, {} outcomes, depth {}, {:.2f} s\n",
             o.protocol, o.scenario, verdict_of(all), all.states, all.transitions, all.ends,
             all.outcomes.size(), all.depth, all.seconds);
  if (!o.json.empty()) {
    if (auto ok = write_output(o.json, json_of(o, all, trace)); !ok) {
      fmt::print(stderr, "loch explore: --json: {}\n", ok.error().message);
      return 2;
    }
  }
  if (all.violation) return 1;
  if (all.ending == explore::Ending::interrupted) return 130;
  return all.ending == explore::Ending::bound ? 3 : 0;
}

}  // namespace

int run_explore(const std::vector<std::string>& arguments, const kv::Registry& registry) {
  if (settings::asks_for_help(arguments)) {
    ExploreFlags flags;
    fmt::print("{}", settings::help(explore_command(flags)));
    return 0;
  }
  const auto refuse = [](const Error& error) {
    fmt::print(stderr, "loch explore: {}\n", error.message);
    return 2;
  };
  const auto flags = parse_explore_flags(arguments);
  if (!flags) return refuse(flags.error());
  if (flags->has_suite()) return run_explore_suite(*flags, registry);
  if (flags->has_family()) return run_explore_family(*flags, registry);
  const ExploreOptions& options = flags->each;
  const auto plan = plan_of(options, registry);
  if (!plan) return refuse(plan.error());
  const InterruptScope guard(nullptr);
  explore::Count count;
  explore::Exploration all;
  {
    const Progress progress([&count] {
      return fmt::format("{}{} states, {} transitions, depth {}",
                         count.is_shortening ? "shortening the trace; " : "", count.states.load(),
                         count.transitions.load(), count.depth.load());
    });
    all = explore::explore(*plan, judging_of(*plan), options.limits, count, &was_interrupted);
  }
  return conclude(options, *plan, all);
}

}  // namespace loch::cli
