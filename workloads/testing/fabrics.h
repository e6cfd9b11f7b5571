// The fabrics of this build, opened for a test.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/fabric/fabric.h"

namespace loch::workloads::testing {

[[nodiscard]] std::vector<std::string> fabrics();
// Aborts when it cannot be opened. `is_torn`: the simulation moves the lines of a message at
// different instants, as real memory does by itself.
[[nodiscard]] std::unique_ptr<fabric::Fabric> open(const std::string& name, std::uint32_t nodes,
                                                   std::uint64_t seed, bool is_torn = false);

}  // namespace loch::workloads::testing
