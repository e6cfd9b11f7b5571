// Writes the steps of simulated requests (at NICs, links and memory) and the marks of workers to a Chrome
// trace.
#include "common/fabric/sim/tracing.h"

#include <fmt/format.h>

#include "common/fabric/sim/worker.h"
#include "common/fabric/trace/trace_writer.h"

namespace loch::fabric::sim {

void name_tracks(Simulation& sim) {
  TraceWriter& trace = *sim.config.trace;
  for (const auto& node : sim.nodes) {
    trace.name_node(node->id, fmt::format("node {}", node->id));
    const auto track = [&](Track which, std::string_view text) {
      trace.name_track(node->id, static_cast<std::uint32_t>(which), text);
    };
    track(Track::requester, "NIC: work requests");
    track(Track::egress, "link: out");
    track(Track::ingress, "link: in");
    track(Track::responder, "NIC: incoming requests, memory");
    track(Track::response, "NIC: responses, completions");
    for (const SimWorker* worker : node->workers) {
      if (worker != nullptr) trace.name_track(node->id, worker->index(), worker->spec().name);
    }
  }
}

void write_mark(Simulation& sim, const Worker& worker, std::string_view what, Nanos start, Nanos span) {
  sim.config.trace->span(worker.node(), worker.index(), what, start, span);
}

void write_stage(Simulation& sim, const SimRequest& r, Track track, NodeId node, Nanos start, Nanos span) {
  const SimWorker& worker = *r.qp->owner;
  sim.config.trace->span(
      node, static_cast<std::uint32_t>(track), name(r.verb), start, span,
      fmt::format(R"({{"from":"{} of node {}","to":{},"lane":{},"bytes":{},"request":{}}})",
                  worker.spec().name, worker.node(), r.wr->peer, r.wr->lane, r.wr->length, r.sequence));
}

}  // namespace loch::fabric::sim
