// The one dialect of --faults files: a mapping of faults by name, and a schedule of failures at fixed
// instants. Each fabric takes what it can do and refuses the rest because it cannot do it, never because of
// the spelling.
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
  simulator,  // sim: everything that its model has
  decorator,  // shm, verbs: what can be done to the requests of any fabric (fault.h), and killed processes
};

struct FaultKey {
  settings::Setting setting;  // its aliases are former names
  bool of_simulator = true;
  bool of_decorator = false;
};
// In the order in which docs/formats.md explains them.
[[nodiscard]] const std::vector<FaultKey>& fault_keys();

struct FaultFile {
  std::vector<std::pair<std::string, settings::Value>> values;  // by key, in the file's order
  std::vector<YAML::Node> schedule;  // entries of the key `schedule`, each a mapping
};

// `path` is what errors call the text; they are one line: file, line, key, what was expected.
[[nodiscard]] Result<FaultFile> read_fault_file(const std::string& text, const std::string& path,
                                                FaultSource source);

// The one line of an error at a place of the file.
[[nodiscard]] std::unexpected<Error> wrong_in_file(const std::string& path, const YAML::Node& node,
                                                   std::string_view key, std::string_view expected);
// Of two values for one key, either could be the one that was meant.
[[nodiscard]] Result<> no_key_twice(const YAML::Node& mapping, const std::string& path);

}  // namespace loch::fabric
