// Ctrl-C and kill end a run cleanly: the fabric is told to stop, and nothing half-written stays.
#pragma once

#include "common/fabric/fabric.h"

namespace loch::cli {

// While it lives, SIGINT and SIGTERM interrupt the fabric; a second one ends the process at once.
// One at a time.
class InterruptScope {
 public:
  explicit InterruptScope(fabric::Fabric* fabric);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
};

// Has SIGINT or SIGTERM come since the process began?
[[nodiscard]] bool was_interrupted();

}  // namespace loch::cli
