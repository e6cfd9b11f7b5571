// A decorator that measures how long server workers work on each request that they find by polling request
// slots: the CPU time of a request, of which simulated servers are charged constants. Over any fabric.
#pragma once

#include <memory>

#include "common/fabric/fabric.h"

namespace loch::fabric {

// Takes ownership of the fabric. A request is worked on from the look that finds it in its slot
// (WatchSet::ready) until the worker polls its slots again. Server workers that receive SENDs are not
// measured. The report's nodes get these counters of their server workers since reset_counters():
//   service.requests     number of requests
//   service.median_ns    median time of a request
//   service.p90_ns       the time that nine of ten requests do not exceed
//   service.posting_ns   median of the time that a request spent in post() and post_detached()
//   service.clock_ns     median time between two readings of the clock, which each of these times contains
// The times of simulated servers are simulated, and posting takes no simulated time of its own. Real-time
// fabrics carry some requests out in post() and others when the worker polls next, which is then not measured.
[[nodiscard]] std::unique_ptr<Fabric> measure_service_times(std::unique_ptr<Fabric> inner);

}  // namespace loch::fabric
