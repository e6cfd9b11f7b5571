// MPI as the wire between the launchers of the ranks: non-blocking point-to-point messages only, for
// a collective waits for the dead. The one file of Loch that calls MPI.
#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/cluster/launch_env.h"
#include "common/cluster/message.h"
#include "common/cluster/switchboard.h"

namespace loch::cluster {

class MpiWire : public Wire {
 public:
  // Starts MPI in this process, which must be one of those that a launcher started, and checks that
  // MPI sees the same launch. MPI_Init may wait for ranks that never come: the caller has an alarm.
  [[nodiscard]] static Result<std::unique_ptr<MpiWire>> open(const LaunchEnv& env);
  // Rank 0 draws the secret of the launch, the others get it from rank 0; timed_out after `within`.
  [[nodiscard]] virtual Result<Secret> share_secret(Nanos within) = 0;
  // Lets MPI make progress until everything that was sent has left this process, or for `within`.
  virtual void flush(Nanos within) = 0;
  // MPI_Finalize: waits for every rank. Only when nobody was lost; the wire is of no use afterwards.
  virtual void close() = 0;
};

}  // namespace loch::cluster
