// loch fuzz: many small simulated runs, each with its own cluster, faults and knobs, whose histories
// are checked in memory. A seed and a commit reproduce a run bit for bit.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/fuzz/scenario.h"
#include "common/base/probe.h"
#include "common/base/result.h"
#include "common/check/linearizable.h"
#include "common/kv/protocol.h"

namespace loch::fuzz {

// Of one run, or so many for each operation if that is more. None of 3,000 seeds of each storing protocol
// takes as many; thousands of requests that are sent again long before a slow server comes to them take up to
// half. What takes more would go on for minutes.
constexpr std::uint64_t most_events = 20'000'000, most_events_an_operation = 20'000;

struct FuzzOptions {
  std::string protocol = "nessie", mutant, hardware = "connectx3-10gbe";
  std::uint64_t seeds = 1000, first_seed = 1;
  std::uint64_t timing = 0;          // the same scenarios at other instants; 0: the seed's own
  bool all_mutants = false;          // measure them instead
  bool all_holes = false;            // measure those of the published design instead
  std::uint64_t starts = 100;        // finds after which measuring a variant ends
  std::string results;               // file for measurements of variants, in JSON lines; empty: not stored
  bool shrunk = false;               // measure how small their findings become
  Nanos time = 0;                    // stop after this much real time; 0: no limit
  std::uint32_t jobs = 0;            // threads; 0: one per core
  bool first_only = false;           // the first finding ends it, and is not explained
  bool keep_going = false;           // false: the first finding ends the campaign, or the first of each hole
  bool verbose = false;              // one line a seed
  bool coverage = false;             // a table of the probes that were reached, by the first seed that did
  std::uint64_t shrink_runs = 4000;  // runs that shrinking a finding may take; 0: no shrinking
  bool until_covered = false;        // the campaign ends when the last probe was reached
  bool unfair_clock = false;         // clocks differ by more than the margin that the protocol was told
  std::string history;               // file for the history of the first finding, for loch check
  std::string findings;              // folder where they are stored and drawn
  std::string replay, html;          // a stored scenario to run instead, and where to draw it
  std::string corpus;                // folder of a long campaign
  std::vector<std::pair<std::string, std::string>> settings;  // protocol options that are not drawn
};

enum class FuzzVerdict : std::uint8_t {
  holds,
  violated,   // the history violates the protocol's consistency claim
  corrupt,    // a GET returned bytes that nobody wrote
  stuck,      // after the failures were over, some key could not be read or written, as the store promises
  unsound,    // at rest the tables violate an invariant (Store::audit)
  deadlock,   // the simulation ran dry with operations outstanding
  overtime,   // operations were still going on long after the faults were healed, or after most_events
  undecided,  // the checker gave up
  error,      // the run could not be made
};
[[nodiscard]] std::string_view name(FuzzVerdict verdict);

struct FuzzFinding {
  std::uint64_t seed = 0;
  FuzzVerdict verdict = FuzzVerdict::holds;
  std::string scenario;  // what ran, in one line
  std::string reason;    // one line: the violation
  std::string cause;     // the hole that it comes from ("H1: …"), or what the counters point to, or empty
  std::vector<std::string> fixed;  // options that make the finding go away
  std::uint64_t trace_hash = 0, events = 0, operations = 0;
  double virtual_s = 0;
  ProbeCounts probes;                                   // how often each was passed
  std::map<std::string, std::uint64_t> events_by_kind;  // "kill": 1, "unknown outcomes": 3, …
  std::vector<check::Operation> sub_history;
  std::vector<check::Operation> history;  // of the whole run, where the run is a finding
  std::optional<FuzzScenario> ran;        // what ran, drawn for the seed; none where nothing could
};

// One seed. Deterministic.
[[nodiscard]] FuzzFinding fuzz_seed(std::uint64_t seed, const FuzzOptions& options, const kv::Module& module);

// Writes a finding's history.
[[nodiscard]] Result<> write_history(const FuzzFinding& finding, const std::string& path);

// The line that runs a seed again.
[[nodiscard]] std::string rerun_line(const FuzzFinding& finding, const FuzzOptions& options);

[[nodiscard]] Result<FuzzOptions> parse_fuzz(const std::vector<std::string>& arguments,
                                             const kv::Registry& registry);

// Exit status: 0 nothing found; 1 found; 2 bad input; 130 interrupted.
[[nodiscard]] int run_fuzz(const std::vector<std::string>& arguments, const kv::Registry& registry);

}  // namespace loch::fuzz
