// The simulated cluster: a deterministic discrete-event model of NICs, PCIe, links, switch, cores
// with an OS scheduler, and power. Same protocol code, same bytes, virtual time; one seed decides
// everything.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/fabric.h"
#include "common/fabric/sim/faults.h"
#include "common/fabric/sim/hardware.h"

namespace loch::fabric {
class TraceWriter;  // common/fabric/trace/trace_writer.h
}

namespace loch::fabric::sim {

// Where background CPU workers run: wherever the scheduler puts them, on the servers' cores, on cores of
// their own while there are any, or wherever the scheduler puts them but on the servers' cores.
enum class BackgroundPin : std::uint8_t { none, shared, separate, clients };

struct SimConfig {
  std::uint32_t nodes = 1;
  HardwareProfile hardware;
  std::uint64_t seed = 1;
  SimFaults faults;                      // all off by default
  std::uint32_t background_workers = 0;  // background CPU workers per node
  BackgroundPin background_pin = BackgroundPin::none;
  std::uint32_t background_nodes = 0;  // number of nodes, from node 0 on, that have them; 0: all
  bool random_tie_order = false;       // simultaneous events in random order: for tests, not figures
  TraceWriter* trace = nullptr;        // every stage of every request, on its node's track
  Nanos deadline = forever;            // virtual time at which the run is ended (RunEnd::deadline)
  std::uint64_t most_events = 0;       // after which it is ended (RunEnd::deadline, too); 0: no bound
};

[[nodiscard]] Result<std::unique_ptr<Fabric>> make_sim(const SimConfig& config);

}  // namespace loch::fabric::sim
