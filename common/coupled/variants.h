// What all stores over tables that server workers own promise, and the known-bad variants that all of them
// have.
#pragma once

#include <map>
#include <string_view>

#include "common/coupled/settings.h"

namespace loch::coupled {

// No entry has a copy, and no worker serves another's row; what a client holds is its own.
[[nodiscard]] kv::Promise promise(kv::Loss loss);
[[nodiscard]] kv::DataSupport data_support();

// What each known-bad variant switches on, by name. A store adds its own.
using Switches = std::map<std::string_view, bool*>;
[[nodiscard]] Switches switches(Rules& rules, rpc::ChannelFlaws& flaws);
// Switches one on; none, where `mutant` is empty. False: there is none of that name.
[[nodiscard]] bool switch_on(const Switches& switches, std::string_view mutant);
// The error of such a name.
[[nodiscard]] std::unexpected<Error> no_such_mutant(std::string_view protocol, std::string_view mutant);

}  // namespace loch::coupled
