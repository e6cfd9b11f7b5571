// The table of `loch explore`'s flags, and which flags exclude each other.
#include "app/cli/explore_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "app/cli/bench_options.h"
#include "app/cli/refusal.h"
#include "app/explore/family.h"

namespace loch::cli {
namespace {

using settings::Flag;
using settings::listed;
using settings::of;
using settings::Off;
using settings::shown;
using settings::Type;

constexpr const char* default_scenario = "PUT K | DELETE K; GET K";
constexpr double most_events = 8, most_switches = 1000, most_value_bytes = 1024;

std::string text_of(std::uint64_t number) { return fmt::format("{}", number); }

// A flag that bounds how many events of one kind (such as failed requests) may happen in a scenario.
Flag happening(const char* key, const char* help, std::uint32_t* place) {
  return {.setting = of(Type::integer, key, text_of(*place), help, 0, most_events), .place = place};
}

// Flags that describe the scenario to explore.
std::vector<Flag> scenario_flags(ExploreFlags& f) {
  ExploreOptions& o = f.each;
  return {
      {.setting = shown(of(Type::text, "set", "", "an option of the protocol: loch bench --help PROTOCOL"),
                        "KEY=VALUE"),
       .place = &f.set,
       .is_list = true},
      {.setting = listed(shown(of(Type::text, "mutant", "", "a known-bad variant"), "M"), "mutants"),
       .place = &o.mutant},
      {.setting = shown(of(Type::text, "before", "",
                           "operations of the first client that are over when exploring begins (\"MIGRATE K; "
                           "DELETE L\"): where a key lies at the start"),
                        "OPS"),
       .place = &o.before},
      {.setting = of(Type::boolean, "absent", "", "no key is there at the start"), .place = &o.is_absent},
      happening("fail", "at most N requests fail, each executed or not; UC, UD: are lost", &o.bounds.fails),
      happening("cut", "at most N requests fail, and connecting anew fails too, once: the operation gives up",
                &o.bounds.cuts),
      happening("kill", "at most N clients die, each between two of its requests", &o.bounds.kills),
      happening("clock", "at most N times every clock passes the expiry period", &o.bounds.clocks),
      happening("late", "at most N deadlines pass although what is awaited may still come", &o.bounds.late),
      happening(
          "torn",
          "at most N READs or WRITEs of more than one 64-byte line are executed in two halves, in either "
          "order, parted at any line, with others' steps between",
          &o.bounds.torn),
      {.setting =
           of(Type::integer, "switches", "",
              "only orders in which at most N times another client goes on in the middle of an operation "
              "of one that need not wait (no limit)",
              0, most_switches),
       .place = &o.bounds.switches},
      {.setting =
           shown(of(Type::text, "keys", "",
                    "keys that are there beside those of the operations, and come before them (\"K X\")"),
                 "NAMES"),
       .place = &o.keys},
      happening("share", "places that keys of different letters have in common, as far as there are such",
                &o.share),
      {.setting = of(Type::size, "value-size", text_of(o.value_bytes), "bytes of a value",
                     explore::least_value_bytes, most_value_bytes),
       .place = &o.value_bytes},
      {.setting = of(Type::integer, "window", text_of(o.window),
                     "slots of a client worker; a client of the scenario has the first", 1, most_events),
       .place = &o.window},
  };
}

// Flags of the search's bounds and of its output.
std::vector<Flag> search_flags(ExploreFlags& f) {
  ExploreOptions& o = f.each;
  return {
      {.setting = of(Type::integer, "states", text_of(o.limits.states), "stop after so many states", 1,
                     1'000'000'000),
       .place = &o.limits.states},
      {.setting =
           of(Type::duration, "time", "",
              fmt::format("stop after this much real time: 60s, 10m (no limit; with --mutants {} for each)",
                          format_duration(time_for_mutant))),
       .place = &o.limits.time},
      {.setting = of(Type::boolean, "no-reduction", "",
                     "make independent moves in every order: slower, the same states"),
       .place = Off{&o.limits.reduces}},
      {.setting = of(Type::boolean, "no-snapshots", "",
                     "go back by making the moves again: slower, the same states"),
       .place = Off{&o.limits.saves}},
      {.setting = of(Type::boolean, "keep-going", "", "explore everything even after a finding"),
       .place = &o.limits.keeps_going},
      {.setting = of(Type::output, "json", "", "write states, transitions, seconds, verdict and trace"),
       .place = &o.json},
  };
}

// Flags for exploring many scenarios: those that a suite file lists, or those of a family of scenarios.
std::vector<Flag> many_flags(ExploreFlags& f) {
  const std::vector<std::string> of_suite = {"suite", "mutants"}, of_family = {"family"};
  settings::Setting family = of(
      Type::choice, "family", "",
      "every scenario of a family, of two --keys (\"K X\" with --share 1), from every arrangement that a few "
      "operations lead to");
  for (const explore::Family& each : explore::families()) family.choices.emplace_back(each.name);
  return {
      {.setting =
           of(Type::file, "suite", "",
              "the scenarios of a file, as a table (tests/explore/scenarios.txt); exit status 1 where one "
              "is not as the file says"),
       .place = &f.suite,
       .is_value_optional = true},
      {.setting = of(Type::boolean, "quick", "", "those that take seconds"),
       .place = &f.is_quick,
       .goes_with = of_suite},
      {.setting = listed(shown(of(Type::text, "protocol", "", "those of one protocol"), "P"), "protocols"),
       .place = &f.protocol,
       .goes_with = of_suite},
      {.setting =
           listed(shown(of(Type::text, "mutants", "",
                           "which scenario of the file finds which known-bad variant of a protocol; at "
                           "most --states and --time for each"),
                        "P"),
                  "protocols"),
       .place = &f.mutants},
      {.setting = shown(family, "F"), .place = &f.family},
      {.setting = of(Type::integer, "starts", "3", "operations that lead to an arrangement, at most", 0, 6),
       .place = &f.starts,
       .goes_with = of_family},
      {.setting = of(Type::integer, "every", "1", "each Nth scenario only", 1, 1'000'000),
       .place = &f.every,
       .goes_with = of_family},
      {.setting = of(Type::integer, "show", "3", "findings that are printed", 0, 1'000'000),
       .place = &f.shown,
       .goes_with = of_family},
  };
}

// Refuses flags that a suite takes from its file: the scenarios and their settings.
Result<> check_suite(const settings::Given& given) {
  const std::vector<std::string> known = {"suite",  "quick",  "protocol", "mutants",
                                          "mutant", "states", "time"};
  if (!given.words.empty()) return refuse(fmt::format("\"{}\": a suite takes flags alone", given.words[0]));
  for (const auto& [key, texts] : given.texts) {
    if (std::ranges::find(known, key) == known.end())
      return refuse(fmt::format("--{}: not with --suite or --mutants", key));
  }
  return {};
}

// Refuses flags that do not go with --family. If no keys are given, chooses two keys.
Result<> complete_family(ExploreFlags& f) {
  if (f.each.has_scenario)
    return refuse(fmt::format("--family: \"{}\": a family has its own scenarios", f.each.scenario));
  if (!f.each.before.empty()) return refuse("--before: a family has its own (--starts)");
  if (!f.each.json.empty()) return refuse("--json: a family writes none");
  if (f.each.keys.empty()) {
    f.each.keys = "K X";
    f.each.share = std::max(f.each.share, 1U);
  }
  return {};
}

}  // namespace

settings::Command explore_command(ExploreFlags& flags) {
  settings::Command command{
      .name = "explore",
      .usage = {"PROTOCOL [SCENARIO] [flags]", "--suite [FILE] [--quick] [--protocol P]",
                "--family F PROTOCOL [flags]",
                "--mutants PROTOCOL [--suite FILE] [--mutant M] [--states N] [--time T]"},
      .about =
          "Every interleaving of the protocol's own code, one work request at a time, for a small scenario.",
      .operands =
          {{.setting = listed(of(Type::text, "PROTOCOL", "", "a protocol"), "protocols"),
            .is_required = false},
           {.setting =
                of(Type::text, "SCENARIO", default_scenario,
                   "clients, separated by |, with operations, separated by ;. GET K, PUT K, DELETE K; "
                   "INSERT K (insert-if-absent) where the protocol has it; MIGRATE K where the protocol "
                   "moves keys; SCRUB repairs what clients held that are "
                   "dead by then. Keys of one letter (K, K2) compete for the same slots; every key named "
                   "is there at the start"),
            .is_required = false}},
      .statuses = {{"0", "complete, nothing found"},
                   {"1", "found, with the shortest trace"},
                   {"2", "bad input"},
                   {"3", "a bound was reached"},
                   {"130", "interrupted"}},
      .example = "explore nessie \"DELETE K | DELETE K\" --fail 1"};
  for (auto part : {scenario_flags(flags), search_flags(flags), many_flags(flags)})
    std::ranges::move(part, std::back_inserter(command.flags));
  return command;
}

Result<ExploreFlags> parse_explore_flags(const std::vector<std::string>& arguments) {
  ExploreFlags f;
  LOCH_ASSIGN(f.given, settings::parse(explore_command(f), arguments));
  if (f.has_suite()) {
    LOCH_TRY(check_suite(f.given));
    return f;
  }
  const std::vector<std::string>& words = f.given.words;
  if (words.empty()) return refuse("expected a protocol: loch list protocols");
  f.each.protocol = words[0];
  f.each.has_scenario = words.size() > 1;
  f.each.scenario = f.each.has_scenario ? words[1] : default_scenario;
  for (const std::string& text : f.set) {
    LOCH_ASSIGN(auto setting, split_setting(text));
    f.each.settings.push_back(std::move(setting));
  }
  if (f.has_family()) LOCH_TRY(complete_family(f));
  return f;
}

Result<ExploreOptions> parse_explore(const std::vector<std::string>& arguments) {
  LOCH_ASSIGN(ExploreFlags f, parse_explore_flags(arguments));
  if (f.has_suite() || f.has_family()) return refuse("--suite, --mutants, --family: not of one scenario");
  return std::move(f.each);
}

}  // namespace loch::cli
