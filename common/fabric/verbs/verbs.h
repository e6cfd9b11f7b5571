// Real RDMA: libibverbs over InfiniBand, RoCE or Linux Soft-RoCE. Nodes are threads of one process
// that share its device, or processes (one node a process) on one or many machines, which agree by
// the control plane (common/cluster/control.h). Data moves through the device alone.
//
// Queue pairs are directed and named by (worker, peer node, peer worker, lane, transport): one end
// posts, the other receives. Each worker's RC queue pair to worker 0 of every node, lane 0, is made by
// exchange(); any other on first use, which the request waits for.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/cluster/control.h"
#include "common/fabric/fabric.h"

namespace loch::fabric::verbs {

struct VerbsConfig {
  std::uint32_t nodes = 1;
  std::uint64_t seed = 1;
  // Null: one process, every node is local. Otherwise control->ranks() == nodes and this process
  // hosts node control->rank(). Outlives the fabric.
  cluster::Control* control = nullptr;
  std::string device;      // "": the first with an active port
  std::uint32_t port = 0;  // 0: the first active one
  int gid_index = -1;      // -1: the best by score (gid.h)
  bool pin_threads = false;
  // Workers read CLOCK_MONOTONIC itself, and not a clock within a microsecond of it (realtime/tsc_clock.h).
  bool exact_clock = true;
  // Polling workers give their cores up after a while (realtime/worker.h); not set: when there are more
  // workers than cores, and on Soft-RoCE, whose packets are moved by the same cores.
  std::optional<bool> shares_cores;
};

// Refuses, with what to do: no device, no such device or port, none active, no GID fit for use, a
// transport that the device lacks (siw: no UC, UD or atomics), too little lockable memory.
[[nodiscard]] Result<std::unique_ptr<Fabric>> make_verbs(const VerbsConfig& config);

}  // namespace loch::fabric::verbs
