// A fabric decorator that writes a trace. For every signaled work request it draws a span from the post to
// the completion, on a track next to that of the request's worker; on the worker's own track it draws the
// intervals that the worker marks. It is for the fabrics shm and verbs, because the simulator itself writes a
// trace of every step of a request.
#pragma once

#include <memory>

#include "common/fabric/fabric.h"
#include "common/fabric/trace/trace_writer.h"

namespace loch::fabric {

// Wraps `inner`, which it takes over, in a fabric that traces requests to `writer`. The writer has to outlive
// the returned fabric; the caller closes the writer after the run. Each worker buffers 65,536 spans and
// writes them when its buffer is full and at the end of run(), so that tracing a request usually costs no
// lock and no system call. An unsignaled request has no completion and is drawn as an instant.
[[nodiscard]] std::unique_ptr<Fabric> trace_requests(std::unique_ptr<Fabric> inner, TraceWriter* writer);

}  // namespace loch::fabric
