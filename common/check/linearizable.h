// Is a history what a correct store could have answered? Judged key by key: a register with DELETE.
//
// linearizable  Each operation took effect at one instant between its invocation and its return.
//               A GET reads the last value put, or not_found after a DELETE (or before any PUT); a
//               DELETE that says ok removed a value that was there, not_found means there was none. An
//               INSERT that says ok found the key absent and put its value, exists means that it was present.
// lossy_cache   A GET may say not_found at any time (HERD, section 3.2 of the protocol notes), but
//               what it reads is the newest value put, never an older one; a DELETE that says ok
//               leaves nothing to read. An INSERT's ok is a PUT's, since the key may have been forgotten;
//               exists means that it had not been deleted.
// none          An emulation that stores nothing: the file is read and nothing is judged.
//
// An operation whose outcome is unknown may take effect once at any time from its invocation on, or
// never. A failed one has no effect: a GET that reads a failed PUT's value is a violation.
// A node that was declared lost may have taken the key along, once, while it was being declared; or not.
// Two operations of which one returns at the very nanosecond of the other's invocation count as
// concurrent: a clock of that resolution cannot order them.
//
// Method and cost: zones.h (values put once: near-linear, exact) and exact_search.h (keys with INSERTs, and
// values put more than once, which our load never does: exponential in what overlaps, and bounded).
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
// "linearizable", "lossy-cache" or "none"; the error lists them.
[[nodiscard]] Result<Model> parse_model(std::string_view text);

// What a key holds when the history begins, if no line of client -1 says so.
enum class Initial : std::uint8_t {
  any,      // "init" if some GET read it; else either absent or a value that nobody read
  absent,   // nothing was preloaded
  present,  // every key was preloaded with the value named "init"
};

struct CheckOptions {
  Model model = Model::linearizable;
  Initial initial = Initial::any;
  // Whether a DELETE's ok promises that there was something to remove. The published Nessie
  // answers ok for an absent key too (its tombstone), so its histories are judged without.
  bool delete_ok_removes = true;
  // Configurations that the search for one key may hold at once before it gives up (undecided).
  std::uint64_t search_limit = 1'000'000;
  // Reduce each violation to its smallest sub-history (up to `report_limit` keys).
  bool minimise = true;
  std::uint32_t report_limit = 10;
};

enum class Verdict : std::uint8_t { holds, violated, undecided };
[[nodiscard]] std::string_view name(Verdict verdict);

// A key that does not hold.
struct KeyReport {
  std::string key;
  Verdict verdict = Verdict::holds;
  std::uint64_t operations = 0;  // of this key in the history
  std::string reason;            // one line: which operations contradict each other, and how
  // The operations that already contradict each other, by invocation; whatever the key's other
  // operations did cannot repair it. Empty when options.minimise is false or the limit was reached.
  std::vector<Operation> sub_history;
};

struct CheckReport {
  std::uint64_t operations = 0;
  std::uint64_t keys = 0;
  std::uint64_t violated_keys = 0;
  std::uint64_t undecided_keys = 0;
  std::uint64_t corrupt_reads = 0;  // GETs that read a value that no PUT of the key wrote
  std::vector<KeyReport> failures;  // violated and undecided keys, at most options.report_limit
  [[nodiscard]] Verdict verdict() const;
};

// Judges the operations of a run. Order does not matter.
[[nodiscard]] CheckReport check_operations(std::span<const Operation> operations,
                                           const CheckOptions& options);

// Judges the history that the files hold together (one file a process, say). Fails with one line
// when a file is unreadable, cut short or says something impossible, or when all are empty.
[[nodiscard]] Result<CheckReport> check_history(const std::vector<std::string>& files,
                                                const CheckOptions& options);

// What `loch check` prints for a report.
void print_report(const CheckReport& report, const CheckOptions& options, std::ostream& out);

// `loch check FILES`: prints the verdict to `out`, an unreadable file's one line to `err`.
// Returns the exit status: 0 holds, 1 violated, 2 unreadable or undecided.
[[nodiscard]] int run_check(const std::vector<std::string>& files, const CheckOptions& options,
                            std::ostream& out, std::ostream& err);

}  // namespace loch::check
