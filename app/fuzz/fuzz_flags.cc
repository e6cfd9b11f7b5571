// The table of `loch fuzz`'s flags.
#include "app/fuzz/fuzz_flags.h"
#include "common/kv/conflict_kinds.h"

#include <fmt/format.h>

#include <iterator>

namespace loch::fuzz {
namespace {

using settings::Flag;
using settings::listed;
using settings::of;
using settings::Setting;
using settings::shown;
using settings::Type;

std::string text_of(std::uint64_t number) { return fmt::format("{}", number); }

// Flags that choose what is run, and for how long.
std::vector<Flag> campaign_flags(FuzzFlags& f) {
  FuzzOptions& o = f.options;
  Setting unfair =
      of(Type::choice, "unfair", "", "clocks differ by more than the margin that the protocol is told");
  unfair.choices = {"clock"};
  Setting backoff =
      shown(of(Type::choice, "backoff", "",
               "what writes do that lost a swap, in place of the protocol's own back-off (bench --backoff)"),
            "KIND");
  for (const std::string_view kind : kv::conflict_kinds) backoff.choices.emplace_back(kind);
  Setting time = of(Type::duration, "time", "", "stop after this much real time: 60s, 8h (no limit)");
  time.aliases = {"for"};
  return {
      {.setting = listed(shown(of(Type::text, "protocol", o.protocol, "protocol to run"), "P"), "protocols"),
       .place = &o.protocol},
      {.setting = of(Type::integer, "seeds", text_of(o.seeds), "how many seeds", 1), .place = &o.seeds},
      {.setting = shown(of(Type::integer, "first-seed", text_of(o.first_seed), "the first of them"), "S"),
       .place = &o.first_seed},
      {.setting = time, .place = &o.time},
      {.setting = listed(shown(of(Type::text, "mutant", "", "a known-bad variant"), "M"), "mutants"),
       .place = &o.mutant},
      {.setting =
           shown(of(Type::text, "set", "", "fix a protocol option instead of drawing it"), "KEY=VALUE"),
       .place = &f.set,
       .is_list = true},
      {.setting =
           listed(shown(of(Type::file, "hardware", o.hardware, "profile whose times are used"), "NAME|FILE"),
                  "hardware"),
       .place = &o.hardware},
      {.setting = of(Type::integer, "jobs", "", "threads (one a core)", 1, 1024), .place = &o.jobs},
      {.setting = unfair, .place = &f.unfair},
      {.setting = backoff, .place = &f.backoff},
      {.setting = shown(
           of(Type::output, "corpus", "",
              "a long campaign: scenarios that reach something new are kept in this folder, changed and "
              "run again; goes on where it was interrupted"),
           "DIR"),
       .place = &o.corpus},
      {.setting = of(Type::file, "replay", "",
                     "run a stored scenario again; --mutant (or none) and --set override what it says"),
       .place = &o.replay},
  };
}

// Flags that choose what is reported and stored about findings.
std::vector<Flag> report_flags(FuzzFlags& f) {
  FuzzOptions& o = f.options;
  return {
      {.setting = of(Type::boolean, "coverage", "",
                     "the probes that the seeds reached; one that none did is exit status 1"),
       .place = &o.coverage},
      {.setting = of(Type::boolean, "keep-going", "",
                     "report every finding, not only the first (of a variant with holes: of each)"),
       .place = &o.keep_going},
      {.setting = of(Type::output, "history", "", "write the history of the first finding"),
       .place = &o.history},
      {.setting = of(Type::boolean, "verbose", "", "a line for every seed"), .place = &o.verbose},
      {.setting = of(Type::boolean, "no-shrink", "", "store findings as they are, not made small"),
       .place = settings::Off{&f.shrinks}},
      {.setting =
           of(Type::integer, "shrink-runs", text_of(o.shrink_runs), "runs that making one small may take", 1),
       .place = &o.shrink_runs},
      {.setting =
           shown(of(Type::output, "findings", "", "where findings are stored and drawn (the current folder)"),
                 "DIR"),
       .place = &o.findings},
      {.setting = of(Type::output, "html", "", "draw the run"), .place = &o.html, .goes_with = {"replay"}},
  };
}

// Flags that measure known-bad variants instead of running a campaign.
std::vector<Flag> measuring_flags(FuzzFlags& f) {
  FuzzOptions& o = f.options;
  return {
      {.setting =
           of(Type::boolean, "mutants", "",
              fmt::format("how many seeds it takes to find each mutant, as a Markdown table: median and "
                          "90th percentile of independent starts (of each at most --seeds, {}, and --time)",
                          seeds_of_tables)),
       .place = &o.all_mutants},
      {.setting =
           of(Type::boolean, "holes", "", "the same for each hole of the published design: loch list holes"),
       .place = &o.all_holes},
      {.setting = of(Type::integer, "starts", text_of(o.starts), "how many starts, one behind the other", 1),
       .place = &o.starts},
      {.setting = of(Type::output, "results", "",
                     "keep what was measured in this file, and go on with what it holds of this commit"),
       .place = &o.results,
       .goes_with = {"mutants", "holes"}},
      {.setting = of(Type::boolean, "shrunk", "", "how small their scenarios become"),
       .place = &o.shrunk,
       .goes_with = {"mutants", "holes"}},
  };
}

}  // namespace

settings::Command fuzz_command(FuzzFlags& flags) {
  settings::Command command{
      .name = "fuzz",
      .usage = {"[flags]"},
      .about =
          "Many simulated runs. Each seed draws its own cluster, workload, knobs, timing, faults and "
          "failures, and its history is checked.",
      .notes =
          "Of a variant with holes, all seeds are run, and a finding names the holes whose fixes make it "
          "go away.",
      .statuses = {{"0", "nothing found"}, {"1", "found"}, {"2", "bad input"}, {"130", "interrupted"}},
      .example = "fuzz --protocol pilaf --seeds 2000 --coverage"};
  for (auto part : {campaign_flags(flags), report_flags(flags), measuring_flags(flags)})
    std::ranges::move(part, std::back_inserter(command.flags));
  return command;
}

}  // namespace loch::fuzz
