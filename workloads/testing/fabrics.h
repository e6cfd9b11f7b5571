// The fabrics of this build, opened for a test.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/fabric/fabric.h"

namespace loch::workloads::testing {

[[nodiscard]] std::vector<std::string> fabrics();
// Aborts when it cannot be opened.
[[nodiscard]] std::unique_ptr<fabric::Fabric> open(const std::string& name, std::uint32_t nodes,
                                                   std::uint64_t seed);

}  // namespace loch::workloads::testing
