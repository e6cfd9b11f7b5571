// Typed protocol options, the same on the command line (--nessie.filter-bits 7), in YAML
// (nessie.filter-bits: 7) and in --set.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/result.h"

namespace loch::kv {

// text: any text, such as a path; may be empty.
enum class OptionType : std::uint8_t { boolean, integer, real, size, duration, choice, text };

// What an option is for, so that a fuzzer can set it without knowing its name.
enum class OptionRole : std::uint8_t {
  none,               // only its `fuzz_values` count
  load_factor,        // share of a table's slots that its largest number of keys fills
  hash_functions,     // slots that a key can be in
  initial_slots,      // size at which a table that grows begins
  spare_entries,      // entries beyond the keys, at least
  expiry,             // age at which operations end and entries may be used again
  clock_margin,       // skew of clocks that reuse allows for
  background_period,  // how often the background looks
  cache,              // a client-side cache, on or off
  cache_share,        // and its capacity as a share of the keys
  backoff_cap,        // longest wait between attempts
  reconnect_timeout,  // how long a broken connection is tried again
  attempts,           // of one operation before it gives up
  first_number,       // where a counter that wraps begins
  reply_timeout,      // how long a reply is waited for before its request is sent again
  give_up,            // how long before an unanswered request is given up
  search_depth,       // keys that one insertion may move to make room
  file,               // where it keeps something outside of the fabric's memory; empty: it does not
};

struct OptionSpec {
  std::string key;  // "nessie.filter-bits"
  OptionType type = OptionType::integer;
  std::string initial;                 // the default, as people write it ("7", "2us", "true", "hardened")
  std::string help;                    // one line, with unit and paper section
  std::vector<std::string> choices;    // OptionType::choice
  double minimum = 0, maximum = 9e18;  // integer, real, size (bytes), duration (ns)
  // The default where all nodes are one real machine's, with one clock and no network between (shm);
  // empty: `initial`.
  std::string initial_on_one_machine = {};
  OptionRole role = OptionRole::none;
  // Roles none and search_depth: values that a fuzz run may draw, one as likely as another, the default with
  // half of the chances. Only what the protocol claims to stay correct under.
  std::vector<std::string> fuzz_values = {};
};

// Says what the option `key`, which is among `specs`, is for.
void give_role(std::vector<OptionSpec>& specs, std::string_view key, OptionRole role);
// Of an option without a role: what a fuzz run may draw.
void let_fuzz(std::vector<OptionSpec>& specs, std::string_view key, std::vector<std::string> values);

// Values for every key of a set of specs. Reading a key that is not in the specs is a programmer's
// error and aborts.
class Options {
 public:
  using Value = std::variant<bool, std::int64_t, double, std::string>;

  // All defaults.
  explicit Options(std::vector<OptionSpec> specs = {});

  // Parses and sets one value; the error names the key, what was expected, and for an unknown key
  // the nearest valid name.
  [[nodiscard]] Result<> set(std::string_view key, std::string_view text);

  [[nodiscard]] bool boolean(std::string_view key) const;
  [[nodiscard]] std::int64_t integer(std::string_view key) const;  // integer; size in bytes; duration in ns
  [[nodiscard]] double real(std::string_view key) const;
  [[nodiscard]] const std::string& choice(std::string_view key) const;
  [[nodiscard]] const std::string& text(std::string_view key) const;

  [[nodiscard]] const std::vector<OptionSpec>& specs() const { return specs_; }
  [[nodiscard]] const std::map<std::string, Value, std::less<>>& values() const { return values_; }

 private:
  [[nodiscard]] const Value& at(std::string_view key) const;
  std::vector<OptionSpec> specs_;
  std::map<std::string, Value, std::less<>> values_;
};

// The candidate closest to `name` by edit distance, or empty when nothing is near.
[[nodiscard]] std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace loch::kv
