// The availability promises and the known-bad variants of all stores whose server workers own
// their tables.
#pragma once

#include <map>
#include <string_view>

#include "common/coupled/settings.h"

namespace loch::coupled {

// When the affected keys are served again after a loss. Entries have no copies and no worker serves another
// worker's keys, so keys of a lost server are unavailable; a lost client or link affects no other client.
[[nodiscard]] kv::Promise promise(kv::Loss loss);
[[nodiscard]] kv::DataSupport data_support();

// For each known-bad variant, by its name, the boolean that switches it on. A store may add variants of its
// own.
using Switches = std::map<std::string_view, bool*>;
[[nodiscard]] Switches switches(Rules& rules, rpc::ChannelFlaws& flaws);
// Switches the variant named `mutant` on, or none if the name is empty. Returns false for an unknown
// name.
[[nodiscard]] bool switch_on(const Switches& switches, std::string_view mutant);
// The error for an unknown name of a known-bad variant.
[[nodiscard]] std::unexpected<Error> no_such_mutant(std::string_view protocol, std::string_view mutant);

}  // namespace loch::coupled
