// The verbs fabric: RDMA hardware or Soft-RoCE, used through libibverbs over InfiniBand or RoCE. Either one
// process hosts all nodes, whose workers are threads that share its device; or every node has a process of
// its own, on one or many machines, and the processes coordinate through the control plane
// (common/cluster/control.h). Data moves through the devices alone.
//
// A queue pair has a direction: one end posts requests, the other receives them. Its name is (worker, peer
// node, peer worker, lane, transport), where the lane numbers the queue pairs between the same two workers.
// exchange() connects each worker's RC queue pair of lane 0 to worker 0 of every node. Any other queue pair
// is connected when it is first used; its first request waits for the connection.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/cluster/control.h"
#include "common/fabric/doorbells.h"
#include "common/fabric/fabric.h"

namespace loch::fabric::verbs {

struct VerbsConfig {
  std::uint32_t nodes = 1;
  std::uint64_t seed = 1;
  // The control plane of the run's processes: control->ranks() == nodes, and this process hosts node
  // control->rank(). Null: one process hosts every node. It must outlive the fabric.
  cluster::Control* control = nullptr;
  // The device, port, GID and partition that the user asks for; a field that is not set lets the fabric
  // choose. All processes of a run agree on one network.
  std::string device;
  std::uint32_t port = 0;
  int gid_index = -1;
  std::optional<std::uint16_t> pkey;
  std::uint8_t service_level = 0;             // InfiniBand service level, 0 to 15
  std::optional<std::uint8_t> traffic_class;  // if not set: chosen by choose_traffic_class() (opening.h)
  // Flow label of the packets, 20 bits. 0: the kernel derives the UDP port of RoCE packets from the queue
  // pair numbers.
  std::uint32_t flow_label = 0;
  // Whether to assume that the bytes of a message are placed in order, and aligned blocks of 64 bytes untorn,
  // even if the devices do not report it. Results record the assumption.
  bool assumes_order = false;
  // Whether work requests are posted by ibv_post_send even on devices that have ibv_wr_*.
  bool post_send_alone = false;
  // Which doorbell registers workers ring. own: each worker's queues are made in a thread domain, and
  // Fabric::add_worker() fails with unsupported if the device refuses one. shared: no thread domains. If not
  // set: thread domains as long as the device makes them.
  std::optional<DoorbellSharing> doorbells;
  Nanos meet_within = 120'000'000'000;  // time limit in ns for agreeing on a network with the other processes
  bool pin_threads = false;
  // Called once when the devices of all processes are known and before memory is registered. Returns for each
  // node the NUMA node of this machine on which its regions are placed; an empty list leaves the choice to
  // the kernel. If this function fails, make_verbs() fails with the same error.
  std::function<Result<std::vector<std::uint32_t>>(const std::vector<NodeDevice>&)> place_memory;
  // Whether workers read the time from CLOCK_MONOTONIC rather than from the processor's time-stamp counter,
  // which may be off by a microsecond (realtime/tsc_clock.h).
  bool exact_clock = true;
  // Whether workers give up their cores after polling in vain for a while (realtime/worker.h). If not set:
  // yes with more workers than cores, and on Soft-RoCE, whose kernel threads need the same cores.
  std::optional<bool> shares_cores;
  // How many ns the remaining clients may still run once the clients of this process, or of all other
  // processes, have ended; at least as long as the run took until then. After that, run() fails with
  // timed_out and names the nodes whose clients still run.
  Nanos laggards_most = 120'000'000'000;
  // The longest that a run may take in ns, after which run() fails with timed_out; 0: no limit.
  Nanos run_most = 0;
};

// Opens the device and makes the fabric. The error says what is missing and how to get it: no device, no such
// device or port, no active port, no usable GID, a transport that the device lacks (siw, an iWARP device, has
// no UC, UD or atomics), or too little lockable memory.
[[nodiscard]] Result<std::unique_ptr<Fabric>> make_verbs(const VerbsConfig& config);

}  // namespace loch::fabric::verbs
