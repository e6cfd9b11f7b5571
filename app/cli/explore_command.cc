// The flags of loch explore, and what it prints.
#include "app/cli/explore_command.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/cli/explore_family.h"
#include "app/cli/explore_options.h"
#include "app/cli/explore_suite.h"
#include "app/cli/interrupt.h"
#include "app/cli/progress.h"
#include "common/base/output_place.h"

namespace loch::cli {
namespace {

constexpr const char* usage =
    "Usage: loch explore PROTOCOL [SCENARIO] [flags]\n"
    "       loch explore --suite [FILE] [--quick] [--protocol P]\n"
    "       loch explore --family F PROTOCOL [flags]\n"
    "       loch explore --mutants PROTOCOL [--suite FILE] [--mutant M] [--states N] [--time T]\n"
    "Every interleaving of the protocol's own code, one work request at a time, for a small scenario.\n"
    "  SCENARIO         clients, separated by |, with operations, separated by ; (\"PUT K | DELETE K; GET "
    "K\").\n"
    "                   GET K, PUT K, DELETE K; MIGRATE K where the protocol moves keys; SCRUB repairs what\n"
    "                   clients held that are dead by then. Keys of one letter\n"
    "                   (K, K2) compete for the same slots; every key named is there at the start\n"
    "  --set KEY=VALUE  an option of the protocol (loch list options)\n"
    "  --mutant M       a known-bad variant: loch list mutants\n"
    "  --before OPS     operations of the first client that are over when exploring begins (\"MIGRATE K; "
    "DELETE L\"):\n"
    "                   where a key lies at the start\n"
    "  --absent         no key is there at the start\n"
    "  --fail N         at most N requests fail, each executed or not; UC, UD: are lost (0)\n"
    "  --cut N          at most N requests fail, and connecting anew fails too, once: the operation gives up "
    "(0)\n"
    "  --kill N         at most N clients die, each between two of its requests (0)\n"
    "  --clock N        at most N times every clock passes the expiry period (0)\n"
    "  --late N         at most N deadlines pass although what is awaited may still come (0)\n"
    "  --torn N         at most N READs or WRITEs of more than one 64-byte line are executed in two halves, "
    "in\n"
    "                   either order, parted at any line, with others' steps between (0)\n"
    "  --switches N     only orders in which at most N times another client goes on in the middle of an "
    "operation\n"
    "                   of one that need not wait (no limit)\n"
    "  --keys NAMES     keys that are there beside those of the operations, and come before them (\"K X\")\n"
    "  --share N        places that keys of different letters have in common, as far as there are such (0)\n"
    "  --value-size N   bytes of a value (32)\n"
    "  --window N       slots of a client worker; a client of the scenario has the first (1)\n"
    "  --states N       stop after so many states (5000000)\n"
    "  --time T         stop after this much real time: 60s, 10m (no limit)\n"
    "  --no-reduction   make independent moves in every order: slower, the same states\n"
    "  --no-snapshots   go back by making the moves again: slower, the same states\n"
    "  --keep-going     explore everything even after a finding\n"
    "  --json FILE      write states, transitions, seconds, verdict and trace\n"
    "  --suite [FILE]   the scenarios of a file (tests/explore/scenarios.txt), as a table; --quick: those "
    "that\n"
    "                   take seconds; --protocol P: those of P. Exit status 1 where one is not as the file "
    "says\n"
    "  --mutants P      which scenario of the file finds which known-bad variant of P; at most --states and\n"
    "                   --time (10s) for each\n"
    "  --family F       every scenario of a family: pairs, pairs-2, triples, two-one-one, writers, two-two,\n"
    "                   scrubbed; of two --keys (\"K X\" with --share 1), from every arrangement that at "
    "most --starts N (3)\n"
    "                   operations lead to; --every N: each Nth only; --show N: findings that are printed "
    "(3)\n"
    "Exit status 0: complete, nothing found; 1: found, with the shortest trace; 3: a bound was reached; 2: "
    "bad\n"
    "input. Example: loch explore nessie \"DELETE K | DELETE K\" --fail 1\n";

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
  if (std::ranges::find(arguments, "--help") != arguments.end()) {
    fmt::print("{}", usage);
    return 0;
  }
  const bool is_suite = std::ranges::any_of(arguments, [](const std::string& each) {
    return each.starts_with("--suite") || each.starts_with("--mutants");
  });
  if (is_suite) return run_explore_suite(arguments, registry);
  const bool is_family =
      std::ranges::any_of(arguments, [](const std::string& each) { return each.starts_with("--family"); });
  if (is_family) return run_explore_family(arguments, registry);
  const auto refuse = [](const Error& error) {
    fmt::print(stderr, "loch explore: {}\n", error.message);
    return 2;
  };
  const auto options = parse_explore(arguments);
  if (!options) return refuse(options.error());
  const auto plan = plan_of(*options, registry);
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
    all = explore::explore(*plan, judging_of(*plan), options->limits, count, &was_interrupted);
  }
  return conclude(*options, *plan, all);
}

}  // namespace loch::cli
