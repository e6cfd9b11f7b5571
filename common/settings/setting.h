// A named, typed, ranged setting: a flag, a protocol's option, a field of a hardware profile, a fault, a
// workload's key. Parsers, --help, error messages, `loch-bench describe --json`, the JSON Schema of
// experiments and the tables of docs/settings.md all come from it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/result.h"

namespace loch::settings {

// text: any text, such as a path; may be empty. file: path of a file that the program reads. output: path of
// a file that the program writes.
enum class Type : std::uint8_t { boolean, integer, real, size, duration, choice, text, file, output };
[[nodiscard]] std::string_view name(Type type);

// What a setting is for, so that a fuzzer can set it without knowing its name.
enum class Role : std::uint8_t {
  none,               // no role: the fuzzer draws from `fuzz_values` only
  load_factor,        // share of the table's slots that are in use when it holds its largest number of keys
  hash_functions,     // number of slots that a key can be in
  initial_slots,      // size that a growing table starts with
  spare_entries,      // least number of entries beyond one for each key
  expiry,             // age at which operations are given up and entries may be reused
  clock_margin,       // largest skew between clocks that reuse of entries allows for
  background_period,  // interval between two runs of the background work
  cache,              // a client-side cache, on or off
  cache_share,        // the cache's capacity as a share of the keys
  backoff_cap,        // longest wait between attempts
  reconnect_timeout,  // how long reconnecting is tried
  attempts,           // attempts of one operation before it reports a conflict
  first_number,       // start value of a counter that wraps around
  reply_timeout,      // time without a reply after which a request is sent again
  give_up,            // time without a reply after which an operation is given up
  search_depth,       // most keys that one insertion may move to make room
  file,               // a file that the protocol writes; empty: none
};
[[nodiscard]] std::string_view name(Role role);

struct Setting {
  std::string key;  // the name, such as "value-size" or "nessie.filter-bits"
  Type type = Type::integer;
  std::string initial;  // the default as text, such as "7", "2us", "true", "hardened"; empty: none
  std::string help;     // one line of explanation, with unit and section of the paper
  std::vector<std::string> choices;    // the accepted values of a Type::choice
  double minimum = 0, maximum = 9e18;  // range of an integer, real, size (bytes) or duration (ns)
  // Default on the fabric shm, where all nodes share one machine and one clock. Empty: the same default as on
  // the other real-time fabrics.
  std::string initial_on_one_machine = {};
  // Default on the fabrics that run in real time: shm, verbs and ofi. Empty: the same default as on the
  // simulator.
  std::string initial_in_real_time = {};
  Role role = Role::none;
  // For roles none and search_depth: values that the fuzzer may draw, all equally likely; in half of the
  // cases the fuzzer keeps the default. Contains only values under which the protocol claims to be correct.
  std::vector<std::string> fuzz_values = {};
  std::string placeholder = {};  // name of the value in --help, such as "BYTES"; empty: derived from the type
  std::string unit = {};         // unit of a number where the type does not imply it: "ns/B", "W"
  std::string source = {};       // the publication or measurement that a number comes from
  std::vector<std::string> aliases = {};  // other or former names that are also accepted
  std::string named_by = {};  // the argument with which `loch list` prints the values, such as "protocols"
};

// Makes a setting of any type but choice.
[[nodiscard]] Setting of(Type type, std::string key, std::string initial, std::string help,
                         double minimum = 0, double maximum = 9e18);
// Makes a setting of type choice; the first of `choices` is the default.
[[nodiscard]] Setting choice(std::string key, std::vector<std::string> choices, std::string help,
                             std::string placeholder = {});
// A copy of the setting with this placeholder for its value in --help.
[[nodiscard]] Setting shown(Setting setting, std::string placeholder);
// A copy of the setting that is also accepted under the name `alias`.
[[nodiscard]] Setting also(std::string alias, Setting setting);
// A copy of the setting whose number is counted in `unit`.
[[nodiscard]] Setting in_unit(Setting setting, std::string unit);
// A copy of the setting whose values `loch list` prints under the name `named_by`.
[[nodiscard]] Setting listed(Setting setting, std::string named_by);

// a parsed value; sizes are in bytes, durations in ns
using Value = std::variant<bool, std::int64_t, double, std::string>;

// Parses and checks a value. The error is one line that names the key and what was expected: `key: "text" is
// not …`.
[[nodiscard]] Result<Value> parse(const Setting& setting, std::string_view text);
// Describes the values that parse() accepts, for the end of an error message: "a whole number from 1 to
// 1024".
[[nodiscard]] std::string expected(const Setting& setting);
// The name of the value in --help: "BYTES", "a|b|c".
[[nodiscard]] std::string placeholder(const Setting& setting);
// The range or the choices as text: "1 … 1G", "≥ 1", "near, far"; empty for other types.
[[nodiscard]] std::string range_text(const Setting& setting);
// Formats one bound of the setting's range in its unit: 4096 bytes as "4K".
[[nodiscard]] std::string bound_text(const Setting& setting, double bound);

}  // namespace loch::settings
