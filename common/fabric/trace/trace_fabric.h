// A decorator that writes one span for every signaled work request, from post to completion, on a track next
// to its worker's, and the intervals that a worker marks on the worker's own track. For shm and verbs; the
// simulation traces every stage by itself.
#pragma once

#include <memory>

#include "common/fabric/fabric.h"
#include "common/fabric/trace/trace_writer.h"

namespace loch::fabric {

// Takes ownership of the fabric; `writer` has to outlive it, and the caller closes it after the run. Spans
// are kept in each worker's own buffer of 65,536 and written when it is full and at the end of run(): until
// then a traced request costs no lock and no system call. An unsignaled request has no completion and is
// drawn as an instant.
[[nodiscard]] std::unique_ptr<Fabric> trace_requests(std::unique_ptr<Fabric> inner, TraceWriter* writer);

}  // namespace loch::fabric
