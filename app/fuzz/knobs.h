// Draws the protocol options of a fuzz run. The code here knows an option only by its role (kv::OptionRole),
// never by its name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/fuzz/scenario.h"

namespace loch::fuzz {

// Kinds of tables. recycling: few spare entries, so that entries are reused while a slow client may still
// read them; overfull: more keys are inserted than there are slots, and one or two keys are never written;
// seesaw: one or two slots are free, so that insertions move keys that are never written between their
// candidate slots, while slow clients read these keys.
enum class FuzzTable : std::uint8_t { any, recycling, overfull, seesaw };

// The module's option with this role; nullopt if it has none.
[[nodiscard]] std::optional<kv::OptionSpec> option_with(const kv::Module& module, kv::OptionRole role);
// Whether the protocol has a load-factor option, which sets the table's size, so that a run can have more
// keys than slots.
[[nodiscard]] inline bool has_sized_table(const kv::Module& module) {
  return option_with(module, kv::OptionRole::load_factor).has_value();
}
[[nodiscard]] inline bool has_growing_table(const kv::Module& module) {
  return option_with(module, kv::OptionRole::initial_slots).has_value();
}

// Draws all options that `settings` do not fix, for the scenario's cluster and faults; skips values that the
// deployment refuses. `slack`: slots added to the table. `is_reborn`: a node crashes and soon restarts
// (rebirth.h), which needs short time-outs and enough repetitions of a request to outlast the restart.
[[nodiscard]] Result<> draw_knobs(Rng& rng, FuzzTable table,
                                  const std::vector<std::pair<std::string, std::string>>& settings,
                                  std::uint32_t slack, bool is_reborn, FuzzScenario& scenario);

}  // namespace loch::fuzz
