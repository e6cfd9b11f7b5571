// Checks whether a correct store could have produced a history. Each key is judged separately, as a register
// with DELETE and INSERT, under one of three models:
//
// linearizable  Each operation took effect at one instant between its invocation and its return.
//               A GET reads the value that was put last, or not_found after a DELETE (or before any
//               PUT). A DELETE that returned ok removed a value; one that returned not_found found none.
//               An INSERT that returned ok found the key absent and stored its value; one that returned
//               exists found the key present.
// lossy_cache   A GET may return not_found at any time (HERD: docs/protocols/herd.md), but a
//               value that it returns is the newest one put. After a DELETE that returned ok no value can
//               be read. An INSERT that returned ok counts as a PUT, because the cache may have evicted
//               the key; exists means that the key had not been deleted.
// none          For an emulation that stores no values: the file is parsed and nothing is judged.
//
// An operation whose outcome is unknown may take effect once at any time after its invocation, or never. A
// failed operation has no effect: a GET that reads the value of a failed PUT is a violation. Between the
// begin and the end of a node's loss (a line `lost` of the history) each key may disappear at most once. Two
// operations of which one returns at the same nanosecond as the other is invoked count as concurrent, because
// a clock of that resolution cannot order them.
//
// Method and cost: zones.h (each value put once: near-linear time, exact) and exact_search.h (keys with
// INSERTs, or a value put more than once, which Loch's load never does: time exponential in the number of
// overlapping operations, bounded by search_limit).
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/check/history.h"

namespace loch::check {

enum class Model : std::uint8_t { linearizable, lossy_cache, none };
[[nodiscard]] std::string_view name(Model model);
// Parses "linearizable", "lossy-cache" or "none"; the error message lists these three.
[[nodiscard]] Result<Model> parse_model(std::string_view text);

// The state of each key at the beginning of the history, unless a line of the preload (client -1) tells it.
enum class Initial : std::uint8_t {
  // present with "init" if some GET read that value; else absent or present with a value that no GET read
  any,
  absent,   // no key was preloaded
  present,  // every key was preloaded with the value named "init"
};

struct CheckOptions {
  Model model = Model::linearizable;
  Initial initial = Initial::any;
  // Whether a DELETE that returned ok must have found a value to remove. Published Nessie returns ok for
  // an absent key too (it writes a tombstone), so its histories are judged with false.
  bool delete_ok_removes = true;
  // Number of configurations (states of the search) that the search for one key may hold at once; beyond it
  // the verdict is "undecided".
  std::uint64_t search_limit = 1'000'000;
  // true: reduce each violation to a smallest sub-history (for the first `report_limit` keys).
  bool minimise = true;
  std::uint32_t report_limit = 10;
};

enum class Verdict : std::uint8_t { holds, violated, undecided };
[[nodiscard]] std::string_view name(Verdict verdict);

// A key whose history is violated or undecided.
struct KeyReport {
  std::string key;
  Verdict verdict = Verdict::holds;
  std::uint64_t operations = 0;  // number of this key's operations in the history
  std::string reason;            // one line: which operations contradict each other, and how
  // Those operations that contradict each other, ordered by invocation; they do so whatever effect the key's
  // other operations had. Empty if options.minimise is false or search_limit was reached.
  std::vector<Operation> sub_history;
};

struct CheckReport {
  std::uint64_t operations = 0;
  std::uint64_t keys = 0;
  std::uint64_t violated_keys = 0;
  std::uint64_t undecided_keys = 0;
  std::uint64_t corrupt_reads = 0;  // GETs that read a value never written to the key
  // keys whose history is violated or undecided, at most options.report_limit
  std::vector<KeyReport> failures;
  [[nodiscard]] Verdict verdict() const;
};

// Judges the operations of a run, which may be in any order.
[[nodiscard]] CheckReport check_operations(std::span<const Operation> operations,
                                           const CheckOptions& options);

// Judges the history that the files hold together (for example one file per process). Fails with a
// one-line error when a file is unreadable, truncated or contains a contradictory operation, or when all
// files are empty.
[[nodiscard]] Result<CheckReport> check_history(const std::vector<std::string>& files,
                                                const CheckOptions& options);

// Judges the keys in `parts` parts, as many at a time as there are cores (at most 8): only those have to fit
// into memory, and the files, which must not be pipes, are read once for each part. Without `parts`,
// check_history() divides large binary histories so that about 32 million operations are in memory.
[[nodiscard]] Result<CheckReport> check_history(const std::vector<std::string>& files,
                                                const CheckOptions& options, std::uint32_t parts);

// Prints the operations of the files to `out` as lines of a text history.
[[nodiscard]] Result<> print_history(const std::vector<std::string>& files, std::ostream& out);

// Prints a report as `loch check` does.
void print_report(const CheckReport& report, const CheckOptions& options, std::ostream& out);

// Runs `loch check FILES`: prints the verdict to `out` and the error for an unreadable file to `err`.
// Returns the exit status: 0 if the history holds, 1 if it is violated, 2 if it is unreadable or
// undecided.
[[nodiscard]] int run_check(const std::vector<std::string>& files, const CheckOptions& options,
                            std::ostream& out, std::ostream& err);

}  // namespace loch::check
