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

// From this call on, SIGINT and SIGTERM do not end the process: the next InterruptScope interrupts its fabric
// if one of them has come. To be called before a file is begun that the interrupted run has to remove.
void heed_interrupts();

// Whether SIGINT or SIGTERM has been received since the process began.
[[nodiscard]] bool was_interrupted();

}  // namespace loch::cli
