// The simulated cluster: a deterministic discrete-event model of NICs, PCIe, links, a switch, cores with an
// OS scheduler, and power. It runs the same protocol code on the same bytes in virtual time; one seed
// determines everything.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/doorbells.h"
#include "common/fabric/fabric.h"
#include "common/fabric/sim/faults.h"
#include "common/fabric/sim/hardware.h"

namespace loch::fabric {
class TraceWriter;  // defined in common/fabric/trace/trace_writer.h
}

namespace loch::fabric::sim {

// Where background workers run: on any core (none), on the servers' cores (shared), on cores without a worker
// as long as there are any (separate), or on any core without a server (clients).
enum class BackgroundPin : std::uint8_t { none, shared, separate, clients };

struct SimConfig {
  std::uint32_t nodes = 1;
  HardwareProfile hardware;
  std::uint64_t seed = 1;
  SimFaults faults;                      // all faults are off by default
  std::uint32_t background_workers = 0;  // background CPU workers per node
  BackgroundPin background_pin = BackgroundPin::none;
  // nodes 0 … background_nodes-1 have background workers; 0: all nodes have
  std::uint32_t background_nodes = 0;
  DoorbellSharing doorbells = DoorbellSharing::shared;  // own: at most nic.own_doorbells workers of a node
  // How many times as large as the simulated records the data set is that they stand for, at least 1. Regions
  // that grow with the records (RegionSpec::record_bytes) have so many times their size for the NIC's cache
  // of translations, and for the processor's cache that holds the words of atomics.
  double data_scale = 1;
  bool random_tie_order = false;  // pops simultaneous events in random order; for tests, not for measurements
  // 0: simulated by one thread, event by event. Otherwise by this many threads, each of which simulates a
  // part of the nodes; the result depends on the seed alone, not on the number. Then nodes learn of each
  // other only by messages, which take at least the time of the switch and the cables: the pause of a link,
  // the end of all clients and reset_counters() take effect later than with 0. Nothing may fail, be traced or
  // be limited.
  std::uint32_t threads = 0;
  // if not null: gets every step of every request, on the track of the request's node
  TraceWriter* trace = nullptr;
  Nanos deadline = forever;  // virtual time at which the run ends with RunEnd::deadline
  // virtual time at which the run ends with RunEnd::finished, even if coroutines have not ended
  Nanos finish = forever;
  // number of events after which the run ends with RunEnd::deadline; 0: no limit
  std::uint64_t most_events = 0;
};

[[nodiscard]] Result<std::unique_ptr<Fabric>> make_sim(const SimConfig& config);

}  // namespace loch::fabric::sim
