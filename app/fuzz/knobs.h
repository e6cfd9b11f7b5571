// The protocol options of a fuzz run, drawn by what each is for (kv::OptionRole): no option is known here by
// its name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/fuzz/scenario.h"

namespace loch::fuzz {

// What a profile's table is like. recycling: expiry periods shorter than a straggler's operation, hardly a
// spare entry; overfull: more keys are put than it has slots, and one or two are never written.
// seesaw: a slot or two are free; keys that are never written move between their slots to make room
// for others that come and go, while clients that are slow look for them.
enum class FuzzTable : std::uint8_t { any, recycling, overfull, seesaw };

// The option with the role, if there is one.
[[nodiscard]] std::optional<kv::OptionSpec> option_with(const kv::Module& module, kv::OptionRole role);
// Tables that may be given more keys than they have slots; tables that grow.
[[nodiscard]] inline bool has_sized_table(const kv::Module& module) {
  return option_with(module, kv::OptionRole::load_factor).has_value();
}
[[nodiscard]] inline bool has_growing_table(const kv::Module& module) {
  return option_with(module, kv::OptionRole::initial_slots).has_value();
}

// Draws the options that `settings` do not fix, for the cluster and the faults that `scenario` holds. A value
// that its deployment refuses is not drawn. `slack`: slots added to the table. `is_reborn`: a node dies and
// is soon back (rebirth.h), for which requests are sent again soon, and for long enough.
[[nodiscard]] Result<> draw_knobs(Rng& rng, FuzzTable table,
                                  const std::vector<std::pair<std::string, std::string>>& settings,
                                  std::uint32_t slack, bool is_reborn, FuzzScenario& scenario);

}  // namespace loch::fuzz
