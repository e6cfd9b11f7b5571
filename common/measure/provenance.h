// Where and with what a result was made.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace loch::measure {

// Kernel, CPU, SMT, governor, turbo, huge pages, load average, autogroup, argv, host, time,
// compiler. Keys that the machine does not tell are null.
[[nodiscard]] nlohmann::ordered_json provenance(const std::vector<std::string>& argv);

}  // namespace loch::measure
