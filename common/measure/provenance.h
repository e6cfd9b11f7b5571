// Where, when and with which software a result was made.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace loch::measure {

// Collects kernel, CPU, SMT, governor, turbo, huge pages, load average, autogroup, argv, host, time and
// compiler. Keys that the machine does not reveal are null.
[[nodiscard]] nlohmann::ordered_json provenance(const std::vector<std::string>& argv);

}  // namespace loch::measure
