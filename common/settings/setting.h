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

// text: any text, such as a path; may be empty. file: the path of a file that is read. output: of one that is
// written.
enum class Type : std::uint8_t { boolean, integer, real, size, duration, choice, text, file, output };
[[nodiscard]] std::string_view name(Type type);

// What a setting is for, so that a fuzzer can set it without knowing its name.
enum class Role : std::uint8_t {
  none,               // only its `fuzz_values` count
  load_factor,        // share of a table's slots that its largest number of keys fills
  hash_functions,     // slots that a key can be in
  initial_slots,      // size at which a table that grows begins
  spare_entries,      // entries beyond the keys, at least
  expiry,             // age at which operations end and entries may be used again
  clock_margin,       // skew of clocks that reuse allows for
  background_period,  // how often the background looks
  cache,              // a client-side cache, on or off
  cache_share,        // the cache's capacity as a share of the keys
  backoff_cap,        // longest wait between attempts
  reconnect_timeout,  // how long reconnecting is tried
  attempts,           // attempts per operation before it gives up
  first_number,       // where a counter that wraps begins
  reply_timeout,      // how long a reply is waited for before its request is sent again
  give_up,            // how long before an unanswered request is given up
  search_depth,       // keys that one insertion may move to make room
  file,               // a file that the protocol writes; empty: none
};
[[nodiscard]] std::string_view name(Role role);

struct Setting {
  std::string key;  // "value-size", "nessie.filter-bits"
  Type type = Type::integer;
  std::string initial;  // the default, as people write it ("7", "2us", "true", "hardened"); empty: none
  std::string help;     // one line, with unit and paper section
  std::vector<std::string> choices;    // Type::choice
  double minimum = 0, maximum = 9e18;  // integer, real, size (bytes), duration (ns)
  // The default where all nodes are one real machine's, with one clock and no network between (shm);
  // empty: `initial`.
  std::string initial_on_one_machine = {};
  Role role = Role::none;
  // Roles none and search_depth: values that a fuzz run may draw, one as likely as another, the default with
  // half of the chances. Only what the protocol claims to stay correct under.
  std::vector<std::string> fuzz_values = {};
  std::string placeholder = {};           // of its value in --help ("BYTES"); empty: by its type
  std::string unit = {};                  // of a number, where the type does not say: "ns/B", "W"
  std::string source = {};                // where a number comes from
  std::vector<std::string> aliases = {};  // other and former names, which are accepted
  std::string named_by = {};              // what `loch list` calls its values: "protocols"
};

// A setting of a type that has no choices.
[[nodiscard]] Setting of(Type type, std::string key, std::string initial, std::string help,
                         double minimum = 0, double maximum = 9e18);
// One of these, of which the first is the default.
[[nodiscard]] Setting choice(std::string key, std::vector<std::string> choices, std::string help,
                             std::string placeholder = {});
// The same with a text of its own for its value in --help.
[[nodiscard]] Setting shown(Setting setting, std::string placeholder);
// The same, also accepted under this name.
[[nodiscard]] Setting also(std::string alias, Setting setting);
// The same, counted in this unit.
[[nodiscard]] Setting in_unit(Setting setting, std::string unit);
// The same, whose values `loch list` names under this name.
[[nodiscard]] Setting listed(Setting setting, std::string named_by);

using Value = std::variant<bool, std::int64_t, double, std::string>;  // sizes are bytes, durations ns

// The value, or one line that names the key and says what was expected: `key: "text" is not …`.
[[nodiscard]] Result<Value> parse(const Setting& setting, std::string_view text);
// What parse() takes, as the end of such a line: "a whole number from 1 to 1024".
[[nodiscard]] std::string expected(const Setting& setting);
// "BYTES", "a|b|c": what stands for the value in --help.
[[nodiscard]] std::string placeholder(const Setting& setting);
// What a number may be, or the choices: "1 … 1G", "≥ 1", "near, far"; empty of other types.
[[nodiscard]] std::string range_text(const Setting& setting);
// A number of the setting's range, in its unit: 4096 bytes are "4K".
[[nodiscard]] std::string bound_text(const Setting& setting, double bound);

}  // namespace loch::settings
