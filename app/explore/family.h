// Families of scenarios: all combinations of short programs of a few clients on two keys, each from every
// initial placement of the keys in the table that a few preceding operations can produce.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/explore/plan.h"
#include "common/base/result.h"

namespace loch::explore {

struct Family {
  std::string_view name;
  std::string_view what;  // description for the user
  std::uint32_t clients = 0;
};
[[nodiscard]] const std::vector<Family>& families();

// The scenarios of a family, as parse_scenario reads them, on the keys `first` and `second`. Scenarios that
// differ only by the order of interchangeable clients are listed once. The error for an unknown family names
// all families.
[[nodiscard]] Result<std::vector<std::string>> scenarios_of(std::string_view family, std::string_view first,
                                                            std::string_view second, bool can_migrate);

// Operations for the first client to do before the exploration ("MIGRATE K; DELETE X"; "" for none), at most
// `operations` of them. Lists one shortest sequence for each initial placement of the keys in the table that
// GETs of the plan's keys can tell apart, by the addresses that they READ or by their answers.
[[nodiscard]] std::vector<std::string> starts_of(const Plan& plan, std::uint32_t operations);

// Whether the protocol has the operation MIGRATE, which moves a key to another place in the table.
[[nodiscard]] bool can_migrate(const Plan& plan);

}  // namespace loch::explore
