// Options that several protocols have, and a function that adds the parts of a specification that not every
// option has.
#pragma once

#include <string>
#include <vector>

#include "common/kv/options.h"

namespace loch::kv {

// The option PROTOCOL.attempts: attempts of one operation before it reports a conflict.
[[nodiscard]] OptionSpec attempts_option(const std::string& protocol);
// The options PROTOCOL.backoff-start and PROTOCOL.backoff-cap, the bounds that back_off() (back_off.h) takes.
[[nodiscard]] OptionSpec backoff_start_option(const std::string& protocol);
[[nodiscard]] OptionSpec backoff_cap_option(const std::string& protocol, std::string initial);
// The option PROTOCOL.reconnect-timeout: how long one operation tries to reconnect to a node.
[[nodiscard]] OptionSpec reconnect_timeout_option(const std::string& protocol);

// Returns `spec` with its role, by which the fuzzer knows the option, and with the values from which the
// fuzzer draws.
[[nodiscard]] OptionSpec with(OptionSpec spec, OptionRole role, std::vector<std::string> fuzz_values = {});
[[nodiscard]] OptionSpec with(OptionRole role, OptionSpec spec);
[[nodiscard]] OptionSpec with(std::vector<std::string> fuzz_values, OptionSpec spec);
// Returns `spec` with the publication that its default is from.
[[nodiscard]] OptionSpec from(std::string source, OptionSpec spec);

}  // namespace loch::kv
