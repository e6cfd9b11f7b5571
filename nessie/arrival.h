// Awaiting what a lane's request places in its buffers (2017, 4.1.1): the landing word's watermark is polled,
// and a late one is asked after.
#pragma once

#include "nessie/lane.h"

namespace loch::nessie {

// Posts a READ or CAS whose last 8 bytes land at `landed` of `region`, unsignaled; what comes back waits for
// their watermark. Any outcome but `ready` is given to settle().
[[nodiscard]] fabric::Worker::WatchOne post_watched(Lane& lane, fabric::WorkRequest& request,
                                                    fabric::Region* region, std::uint64_t landed);
[[nodiscard]] coro::Task<fabric::WcStatus> settle(Lane* lane, fabric::WatchOutcome outcome,
                                                  fabric::NodeId peer);

}  // namespace loch::nessie
