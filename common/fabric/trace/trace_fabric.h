// A decorator that writes one span for every signaled work request, from post to completion, on a track
// beside its worker's, and what the worker marks on the worker's own. For shm and verbs; the simulation
// traces every stage by itself.
#pragma once

#include <memory>

#include "common/fabric/fabric.h"
#include "common/fabric/trace/trace_writer.h"

namespace loch::fabric {

// Takes the fabric over; `writer` outlives it and is closed by the caller after the run. Spans are
// kept in each worker's own buffer and written when it is full (65,536 of them) and at the end of
// run(): until then a traced request costs no lock and no system call. Requests that nobody waits
// for have no completion to see; they are instants.
[[nodiscard]] std::unique_ptr<Fabric> trace_requests(std::unique_ptr<Fabric> inner, TraceWriter* writer);

}  // namespace loch::fabric
