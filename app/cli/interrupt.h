// Clean ends of a run by Ctrl-C or kill: the fabric is interrupted, and no half-written file remains.
#pragma once

#include "common/fabric/fabric.h"

namespace loch::cli {

// While an object lives, SIGINT and SIGTERM interrupt its fabric, and a further signal more than a second
// after the first ends the process at once. At most one object may exist at a time.
class InterruptScope {
 public:
  explicit InterruptScope(fabric::Fabric* fabric);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
};

// Whether SIGINT or SIGTERM has been received since the process began.
[[nodiscard]] bool was_interrupted();

}  // namespace loch::cli
