// What an exploration's clients do: "DELETE K | PUT K; GET K" is two clients, of which the second has two
// operations.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace loch::explore {

// scrub: repairs what clients that are dead by then held; without any it does nothing. It has no key.
enum class Verb : std::uint8_t { get, put, remove, migrate, scrub, insert };
// PUT and INSERT.
[[nodiscard]] constexpr bool brings_value(Verb verb) { return verb == Verb::put || verb == Verb::insert; }
[[nodiscard]] std::string_view name(Verb verb);  // as in a scenario: "DELETE"

struct Step {
  Verb verb = Verb::get;
  std::uint32_t key = 0;  // of Scenario::keys
};

struct Scenario {
  std::vector<std::vector<Step>> clients;
  std::vector<std::string> keys;  // in order of appearance; those of one letter compete for the same slots
  std::uint32_t prepared = 0;     // number of the first client's operations that end before exploring begins
  [[nodiscard]] std::uint32_t operations() const;
  // "PUT K": without the client.
  [[nodiscard]] std::string describe(const Step& step) const;
};

// The error says what was expected where. At most 8 clients, 32 operations in all.
// `keys`: names of keys that are there beside those of the operations, and come before them ("K X").
[[nodiscard]] Result<Scenario> parse_scenario(std::string_view text, std::string_view keys = {});

// Operations of the first client that come first, one after another, while nobody else does anything: where a
// key lies at the start. "MIGRATE K; DELETE L".
[[nodiscard]] Result<> prepare(Scenario& scenario, std::string_view before);

}  // namespace loch::explore
