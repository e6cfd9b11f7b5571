// The format of --faults files, one for all fabrics: faults by name, and a schedule of failures at fixed
// instants. A fabric refuses those faults that it cannot inject.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/settings/setting.h"

namespace loch::fabric {

enum class FaultSource : std::uint8_t {
  simulator,  // the simulator, which injects all faults that its model has
  decorator,  // other fabrics: the faults of the decorator in fault.h, and killed processes
};

struct FaultKey {
  settings::Setting setting;  // name, range and help of the key; its aliases are other and former names
  bool of_simulator = true;
  bool of_decorator = false;
};
// All keys of fault files, in the order in which docs/formats.md explains them.
[[nodiscard]] const std::vector<FaultKey>& fault_keys();

struct FaultFile {
  std::vector<std::pair<std::string, settings::Value>> values;  // pairs of key and value, in the file's order
  std::vector<YAML::Node> schedule;  // entries of the key `schedule`, each a mapping
};

// `path`: the name of the text in errors. An error is one line with file, line, key and what was expected.
[[nodiscard]] Result<FaultFile> read_fault_file(const std::string& text, const std::string& path,
                                                FaultSource source);

// Makes the one-line error for a place in the fault file.
[[nodiscard]] std::unexpected<Error> wrong_in_file(const std::string& path, const YAML::Node& node,
                                                   std::string_view key, std::string_view expected);
// Refuses a mapping in which a key is given twice.
[[nodiscard]] Result<> no_key_twice(const YAML::Node& mapping, const std::string& path);

}  // namespace loch::fabric
