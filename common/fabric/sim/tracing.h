// Writes the steps of requests (at NICs, links and memory) as spans of the Chrome trace: one process for each
// node, one track for each resource.
#pragma once

#include "common/fabric/sim/request.h"

namespace loch::fabric::sim {

// Track numbers of a node's resources. They begin above the worker indices, which number the workers' tracks.
enum class Track : std::uint32_t { requester = 100'000, egress, ingress, responder, response, memory };

void write_stage(Simulation& sim, const SimRequest& request, Track track, NodeId node, Nanos start,
                 Nanos span);
// Writes a span named `what` to the Chrome trace, on the worker's own track.
void write_mark(Simulation& sim, const Worker& worker, std::string_view what, Nanos start, Nanos span);
void name_tracks(Simulation& sim);

}  // namespace loch::fabric::sim

#include "common/fabric/sim/simulation.h"

namespace loch::fabric::sim {
inline void trace_stage(Simulation& sim, const SimRequest& request, Track track, NodeId node, Nanos start,
                        Nanos span) {
  if (sim.config.trace != nullptr) [[unlikely]]
    write_stage(sim, request, track, node, start, span);
}
}  // namespace loch::fabric::sim
