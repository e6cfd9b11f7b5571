// Options that several protocols have, and the parts of an option's specification that are not in every one.
#pragma once

#include <string>
#include <vector>

#include "common/kv/options.h"

namespace loch::kv {

// PROTOCOL.attempts, of one operation.
[[nodiscard]] OptionSpec attempts_option(const std::string& protocol);
// PROTOCOL.backoff-start and PROTOCOL.backoff-cap, which back_off() (back_off.h) takes.
[[nodiscard]] OptionSpec backoff_start_option(const std::string& protocol);
[[nodiscard]] OptionSpec backoff_cap_option(const std::string& protocol, std::string initial);
// PROTOCOL.reconnect-timeout, of one operation.
[[nodiscard]] OptionSpec reconnect_timeout_option(const std::string& protocol);

// The option with the role by which the fuzzer knows it, and the values from which the fuzzer draws.
[[nodiscard]] OptionSpec with(OptionSpec spec, OptionRole role, std::vector<std::string> fuzz_values = {});

}  // namespace loch::kv
