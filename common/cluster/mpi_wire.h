// MPI as the wire between the launcher processes of the ranks. It uses non-blocking point-to-point
// messages only, because a collective would wait for dead ranks. mpi_wire.cc is the only file of Loch
// that calls MPI.
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
  // Initialises MPI in this process, which must have been started by an MPI launcher, and checks that MPI
  // reports the same rank and size. MPI_Init may wait for ranks that never come, so the caller must set
  // an alarm.
  [[nodiscard]] static Result<std::unique_ptr<MpiWire>> open(const LaunchEnv& env);
  // Distributes the secret of the launch: rank 0 draws it and sends it to the others. Fails with
  // timed_out after `within`.
  [[nodiscard]] virtual Result<Secret> share_secret(Nanos within) = 0;
  // Lets MPI make progress until every sent message has left this process, but at most for `within`.
  virtual void flush(Nanos within) = 0;
  // Calls MPI_Finalize, which waits for every rank: only to be used if no rank was lost. The wire cannot
  // be used afterwards.
  virtual void close() = 0;
};

}  // namespace loch::cluster
