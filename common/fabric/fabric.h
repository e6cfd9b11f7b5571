// The fabric contract: what a protocol may ask of RDMA, and what it may rely on.
//
// A *node* owns registered *regions* and *workers*. A worker is one thread (or one simulated
// thread) with a run queue, a completion queue and its connections. Everything asynchronous is
// awaited on a worker; a worker is used by its own thread alone.
//
// What a protocol may rely on, and no more (docs/architecture.md has the reasons):
//  1. A READ or WRITE larger than 8 aligned bytes is not atomic. Its 64-byte lines may be fetched
//     or placed at different instants, in any order unless Capabilities::in_order_placement, with
//     CPU stores and other operations between.
//  2. CAS and FAA are atomic against CAS and FAA through the same NIC only: not against CPU stores
//     or CPU atomics, not against WRITE. A word that is swapped remotely is only ever touched
//     through the NIC, its own node's included.
//  3. A WRITE's completion at the requester does not say that the remote CPU can see it. A receive
//     completion does. A later READ on the same queue pair pushes it out.
//  4. On one RC queue pair, WRITE then READ and WRITE then atomic keep their order; a WRITE posted
//     after a READ or an atomic may overtake it unless fenced. Different queue pairs: no order.
//  5. A posted buffer belongs to the NIC until its completion, inline data excepted. Unsignaled
//     requests retire with a later signaled one; the queue never overflows.
//  6. UC and UD lose messages (a UC WRITE may have been placed in part), UD reorders; the sender
//     hears nothing. RC retries, then errors: the failing request may have executed, all later
//     ones are flushed.
//  7. At most max_rd_atomic READs and atomics are outstanding; the next one stalls the send queue,
//     later WRITEs included.
//
// The parts, each in a file of its own: verb.h and work_request.h (what is asked of the NIC), region.h,
// capabilities.h, watch.h, received.h, worker.h with its awaitables, report.h. waits.h is for those who
// implement a fabric; docs/implementing-a-fabric.md is their page.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/coro/scope.h"
#include "common/coro/task.h"
#include "common/fabric/capabilities.h"
#include "common/fabric/devices.h"
#include "common/fabric/region.h"
#include "common/fabric/report.h"
#include "common/fabric/worker.h"

namespace loch::fabric {

// The order of calls: register_region and add_worker for every local node; exchange; lookups of remote
// regions and the preload; start of a main coroutine on every worker; run; report. All of them are called on
// one thread. After an error nothing but the destructor may be called.
class Fabric {
 public:
  virtual ~Fabric() = default;

  [[nodiscard]] virtual const Capabilities& capabilities() const = 0;
  [[nodiscard]] virtual std::uint32_t nodes() const = 0;
  // Whether this process hosts the node. On the simulated cluster, and on shared memory with threads, it
  // hosts all of them.
  [[nodiscard]] virtual bool is_local(NodeId node) const = 0;

  // Allocates zeroed memory, owned by the fabric, and registers it with the node's NIC.
  [[nodiscard]] virtual Result<Region*> register_region(NodeId node, const RegionSpec& spec) = 0;
  [[nodiscard]] virtual Result<Worker*> add_worker(const WorkerSpec& spec) = 0;
  // Makes the regions of all nodes known to every node, and connects every worker with every node, its own
  // node (by loopback) included. If some nodes do not take part within `within` ns, the error names them.
  [[nodiscard]] virtual Result<> exchange(Nanos within) = 0;
  [[nodiscard]] virtual Result<RemoteRegion> lookup(NodeId node, std::string_view region) const = 0;
  // The memory of a *remote* region where this process can access it directly (in simulation and on shared
  // memory), used to preload quickly; nullptr where it cannot (verbs, or a node on another machine).
  [[nodiscard]] virtual Region* direct(NodeId node, std::string_view region) = 0;

  // Waits until all processes have called barrier(); the error names those that have not within `within` ns.
  [[nodiscard]] virtual Result<> barrier(std::string_view what, Nanos within) = 0;
  // Collects one text from every process. The process of the lowest rank that is alive receives all of them
  // in order of rank; the others receive an empty list. The text of a process that died is empty.
  [[nodiscard]] virtual Result<std::vector<std::string>> gather(const std::string& mine, Nanos within) = 0;
  [[nodiscard]] virtual std::uint32_t rank() const { return 0; }
  [[nodiscard]] virtual std::uint32_t ranks() const { return 1; }

  virtual void start(Worker& worker, coro::Task<void> main) = 0;
  // Runs until the main coroutine of every *client* worker has ended, then tells the server workers to stop
  // and waits for them. A simulation ends with RunEnd::deadlock if coroutines wait and no event is left that
  // could resume them.
  [[nodiscard]] virtual Result<RunEnd> run() = 0;
  // Ends the run early: stopping() of every worker becomes true. May be called from a signal handler.
  virtual void interrupt() = 0;

  // Upper bound of the difference between Worker::now() of this process and that of the lowest rank, after
  // exchange(). Two other processes may differ by the sum of their bounds, and events that several processes
  // recorded can be ordered no finer.
  [[nodiscard]] virtual Nanos clock_error() const { return 0; }

  // Whether Worker::now() of all processes is one clock by construction, so that nothing has to be compared:
  // true on fabrics of one machine. False on fabrics that connect machines, even if all processes run on one
  // of them.
  [[nodiscard]] virtual bool has_one_clock() const { return true; }

  // Prevents requests that a dead node (or the dead workers of a node) posted earlier from being executed:
  // after the call none executes anywhere. Has to be called before Store::scrub, which repairs what the dead
  // left half-done.
  [[nodiscard]] virtual Result<> fence(NodeId dead) {
    (void)dead;
    return fail(ErrorCode::unsupported, "this fabric cannot fence a node");
  }

  // Registers a callback that run() calls, on its own thread, whenever a crashed node of this process has
  // restarted: its memory is zeroed, its regions have new rkeys, and it has no workers until the callback
  // calls add_worker and start. To be called before run(). Only the simulation restarts nodes; other fabrics
  // never call it.
  virtual void on_restart(std::function<void(NodeId)> tell) { static_cast<void>(tell); }

  // The devices of all processes, by rank; empty on fabrics without RDMA devices.
  [[nodiscard]] virtual std::vector<NodeDevice> devices() const { return {}; }

  // Ends the warm-up: the counters of NodeReport start again from zero.
  virtual void reset_counters() = 0;
  [[nodiscard]] virtual FabricReport report() const = 0;
};

}  // namespace loch::fabric
