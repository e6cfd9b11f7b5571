// A fabric over libfabric: for TCP between machines without RDMA, shared memory, and the NICs that only
// libfabric drives, such as Amazon's EFA and HPE's Slingshot. The nodes are threads of one process, or one
// process each on one or many machines, which exchange addresses over the control plane
// (common/cluster/control.h).
//
// Each worker has one endpoint of the kind FI_EP_RDM (reliable datagrams). READ, WRITE, CAS and FAA are the
// provider's own one-sided operations. An endpoint of this kind has one receive queue and no connections
// that could break, so the fabric itself keeps the contract's rules about queue pairs: the order of requests
// (lane.h), failure and reconnection, and RECVs for each transport (message.h).
#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/cluster/control.h"
#include "common/fabric/fabric.h"

namespace loch::fabric::ofi {

struct OfiConfig {
  std::uint32_t nodes = 1;
  std::uint64_t seed = 1;
  // The control plane of the run's processes: control->ranks() == nodes, and this process hosts node
  // control->rank(). Null: one process hosts every node. It must outlive the fabric.
  cluster::Control* control = nullptr;
  // The provider as libfabric calls it: "tcp;ofi_rxm" (or "tcp"), "sockets", "shm", "efa", "cxi" …
  // Empty: the first that this machine has of those in provider.h.
  std::string provider;
  // Whether the fabric itself keeps a WRITE and the requests after it in order where the provider does not,
  // by posting a later request only when the WRITE has ended. If false, Capabilities::write_then_read and
  // write_then_atomic say which order the provider keeps.
  bool waits_for_writes = true;
  bool pin_threads = false;
  // true: workers read CLOCK_MONOTONIC itself; false: the time-stamp counter, which may be off by a
  // microsecond (realtime/tsc_clock.h).
  bool exact_clock = true;
  // After the clients of some process have ended, the clients of other processes may run for another
  // laggards_most ns, or for as long again as the clients that have ended took, whichever is longer. Then
  // run() fails with timed_out and names the nodes that are late.
  Nanos laggards_most = 120'000'000'000;
  // the longest that a run may take in ns, with the same failure; 0: no limit
  Nanos run_most = 0;
  // If workers have not ended so many ns after the clients have, or were given up, the process ends with one
  // line that names them.
  Nanos ended_most = 20'000'000'000;
};

// Opens the provider and makes the fabric. The error names the provider and what it lacks.
[[nodiscard]] Result<std::unique_ptr<Fabric>> make_ofi(const OfiConfig& config);

}  // namespace loch::fabric::ofi
