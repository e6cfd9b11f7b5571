// A decorator that writes one span for every signaled work request, from post to completion, on its
// worker's track. For shm and verbs; the simulation traces every stage by itself.
#pragma once

#include <memory>

#include "common/fabric/fabric.h"
#include "common/fabric/trace/trace_writer.h"

namespace loch::fabric {

// Takes the fabric over; `writer` outlives it and is closed by the caller after the run.
[[nodiscard]] std::unique_ptr<Fabric> trace_requests(std::unique_ptr<Fabric> inner, TraceWriter* writer);

}  // namespace loch::fabric
