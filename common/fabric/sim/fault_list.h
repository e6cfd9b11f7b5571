// What a file of --faults may say, for people: `loch list faults`.
#pragma once

#include <string>
#include <vector>

namespace loch::fabric::sim {

struct FaultKey {
  std::string key;       // "torn_read", or "schedule: crash" for a kind of failure at an instant
  std::string expected;  // "a probability from 0 to 1"
};
// In the order in which docs/formats.md explains them.
[[nodiscard]] std::vector<FaultKey> fault_keys();

}  // namespace loch::fabric::sim
