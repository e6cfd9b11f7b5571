// `loch fuzz`: many small simulated runs, each with its own cluster, faults and protocol options, whose
// histories are checked in memory. A seed and a commit reproduce a run bit for bit.
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
#include "common/kv/conflicts.h"
#include "common/kv/protocol.h"

namespace loch::fuzz {

// Limits of simulated events: a run may have most_events, or most_events_an_operation times the operations of
// its load, whichever is larger. No run of 3,000 seeds of each storing protocol exceeds the limit. Runs in
// which thousands of requests to a slow server are repeated need up to half of it.
constexpr std::uint64_t most_events = 20'000'000, most_events_an_operation = 20'000;

struct FuzzOptions {
  std::string protocol = "nessie", mutant, hardware = "connectx3-10gbe";
  std::uint64_t seeds = 1000, first_seed = 1;
  // number that selects another random timing of each seed's scenario; 0: the seed's own timing
  std::uint64_t timing = 0;
  // true: measure how many seeds it takes to find each known-bad variant, instead of running a campaign
  bool all_mutants = false;
  // true: measure how many seeds it takes to find each hole (known flaw) of the published design, instead of
  // running a campaign
  bool all_holes = false;
  std::uint64_t starts = 100;  // a variant's or hole's measurement ends when this many seeds found it
  std::string results;         // JSON-lines file for the results of all_mutants and all_holes; empty: none
  bool shrunk = false;         // measure how small a variant's or hole's findings become by shrinking
  Nanos time = 0;              // limit in ns of real time; 0: no limit
  std::uint32_t jobs = 0;      // number of threads; 0: one per core
  bool first_only = false;     // true: stop at the first finding, and do not look for its cause
  bool keep_going = false;     // true: report all findings; false: the first, or the first of each known flaw
  bool verbose = false;        // true: print one line for each seed
  bool coverage =
      false;  // print a table of the probes (marks of rare branches), with the first seed that passed each
  std::uint64_t shrink_runs = 4000;  // most runs for shrinking one finding; 0: no shrinking
  bool until_covered = false;        // true: stop when every probe (mark of a rare branch) has been passed
  bool unfair_clock = false;         // true: clocks differ by more than the clock-margin option allows
  std::string history;               // file for the history of the first finding, to be read by loch check
  std::string findings;              // folder for the replay files and HTML pages of findings
  std::string replay, html;          // a replay file to run instead of seeds, and the file for its HTML page
  std::string corpus;                // folder in which a long campaign keeps its scenarios
  std::vector<std::pair<std::string, std::string>> settings;  // protocol options that the user set
  std::optional<kv::ConflictConfig> conflicts;  // waits after failed CASes; none: the protocol's
};

enum class FuzzVerdict : std::uint8_t {
  holds,
  violated,  // the history violates the protocol's consistency claim
  corrupt,   // a GET returned a value that no client wrote
  // After all failures and repairs, a key could not be read or written although the store promises service.
  stuck,
  unsound,    // with no operation under way, the tables violate an invariant (Store::audit)
  deadlock,   // the simulation had no more events while operations were outstanding
  overtime,   // operations did not end soon enough after the last fault, or the run had too many events
  undecided,  // the checker gave up without a result
  error,      // the run could not be made, for instance because its table was too small
};
[[nodiscard]] std::string_view name(FuzzVerdict verdict);

struct FuzzFinding {
  std::uint64_t seed = 0;
  FuzzVerdict verdict = FuzzVerdict::holds;
  std::string scenario;            // one-line description of the scenario
  std::string reason;              // one-line description of the violation
  std::string cause;               // a known flaw ("H1: …"), or a guess from counters of the run; empty: none
  std::vector<std::string> fixed;  // protocol options whose change makes the seed find nothing
  std::uint64_t trace_hash = 0, events = 0, operations = 0;
  double virtual_s = 0;
  ProbeCounts probes;  // how often the run passed each probe (mark of a rare branch)
  // Number of injected failures and of their effects, by name: "kill": 1, "unknown outcomes": 3, …
  std::map<std::string, std::uint64_t> events_by_kind;
  std::vector<check::Operation> sub_history;
  std::vector<check::Operation> history;  // history of the whole run; filled only for a finding
  std::optional<FuzzScenario> ran;  // the scenario that was run; nullopt if no run could be made for the seed
};

// Runs one seed. Deterministic.
[[nodiscard]] FuzzFinding fuzz_seed(std::uint64_t seed, const FuzzOptions& options, const kv::Module& module);

// Fails if the options are bad input, and then no finding: if none of the first 16 seeds can be run, whatever
// cluster is drawn for it (a hardware profile that does not exist), or if the user set protocol options that
// the protocol refuses for one of these seeds (they exclude each other, or need another one alongside). The
// error is that of the first seed that is refused. Deploys the stores, and runs nothing.
[[nodiscard]] Result<> check_runnable(const FuzzOptions& options, const kv::Module& module);

[[nodiscard]] Result<> write_history(const FuzzFinding& finding, const std::string& path);

// The command line that runs the finding's seed again.
[[nodiscard]] std::string rerun_line(const FuzzFinding& finding, const FuzzOptions& options);

[[nodiscard]] Result<FuzzOptions> parse_fuzz(const std::vector<std::string>& arguments,
                                             const kv::Registry& registry);

// Runs `loch fuzz`. Exit status: 0: nothing found; 1: found; 2: bad input; 130: interrupted.
[[nodiscard]] int run_fuzz(const std::vector<std::string>& arguments, const kv::Registry& registry);

}  // namespace loch::fuzz
