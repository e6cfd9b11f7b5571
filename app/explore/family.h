// Families of scenarios: every choice of short programs of a few clients on two keys, each from every
// arrangement of the table that a few operations before it lead to.
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

// The scenarios of a family, as parse_scenario reads them, on the keys `first` and `second`. Clients that
// could change places come in one order. The error names the families that there are.
[[nodiscard]] Result<std::vector<std::string>> scenarios_of(std::string_view family, std::string_view first,
                                                            std::string_view second, bool can_migrate);

// What the first client may do first ("MIGRATE K; DELETE X"; "" for nothing), of at most `operations`
// operations each, so that GETs of the plan's keys go another way each time: they read other places, or have
// another answer. Of several that lead to the same only a shortest one.
[[nodiscard]] std::vector<std::string> starts_of(const Plan& plan, std::uint32_t operations);

// Whether the protocol moves keys.
[[nodiscard]] bool can_migrate(const Plan& plan);

}  // namespace loch::explore
