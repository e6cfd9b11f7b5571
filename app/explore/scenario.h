// The operations of an exploration's clients: "DELETE K | PUT K; GET K" is two clients, the second with two
// operations.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace loch::explore {

// Kinds of operations. `scrub` has no key: it repairs what dead clients have left half-done. `insert` writes
// a key only if the key is absent.
enum class Verb : std::uint8_t { get, put, remove, migrate, scrub, insert };
// Whether the operation carries a value: PUT and INSERT.
[[nodiscard]] constexpr bool brings_value(Verb verb) { return verb == Verb::put || verb == Verb::insert; }
[[nodiscard]] std::string_view name(Verb verb);  // the name in a scenario's text, such as "DELETE"

struct Step {
  Verb verb = Verb::get;
  std::uint32_t key = 0;  // index in Scenario::keys
};

struct Scenario {
  std::vector<std::vector<Step>> clients;
  // names of the keys in order of appearance; keys whose names begin with the same letter compete for the
  // same slots
  std::vector<std::string> keys;
  // number of the first client's operations that end before the exploration begins
  std::uint32_t prepared = 0;
  [[nodiscard]] std::uint32_t operations() const;
  // The operation's text without its client, such as "PUT K".
  [[nodiscard]] std::string describe(const Step& step) const;
};

// Parses a scenario of at most 8 clients and 32 operations in all. An error quotes the faulty part of the
// text and says what was expected. `keys` ("K X"): names of keys that come first in Scenario::keys.
[[nodiscard]] Result<Scenario> parse_scenario(std::string_view text, std::string_view keys = {});

// Adds operations such as "MIGRATE K; DELETE L", which the first client does one after another before the
// exploration, to place the keys in the table.
[[nodiscard]] Result<> prepare(Scenario& scenario, std::string_view before);

}  // namespace loch::explore
