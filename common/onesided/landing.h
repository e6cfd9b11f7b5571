// Waits for a READ (or CAS) by polling the memory that it writes: the last word of the landing buffer is
// zeroed, and polled until the bits that mark its arrival are set (Nessie, 2017, 4.1.1). READs of more than
// one cache line can be awaited thus only where the fabric places bytes in address order (fabric.h, rule 1).
#pragma once

#include <cstdint>

#include "common/coro/task.h"
#include "common/fabric/fabric.h"

namespace loch::onesided {

struct Landing {
  fabric::Region* region = nullptr;
  std::uint64_t word_at = 0;  // offset in `region` of the last word that the request places
  // bits that are 0 in the polled word until the request has placed it, and then 1
  std::uint64_t mark = 0;
  Nanos until = 0;  // time at which the polling ends; then settle() finds out the request's status
};

// Posts the request unsignaled, and returns a watch for the last word that the request places. The caller has
// to await the watch at once.
[[nodiscard]] fabric::Worker::WatchOne post_watched(fabric::Worker& worker, fabric::WorkRequest& request,
                                                    const Landing& landing);
// Determines the status of a request whose watch did not end in `ready`, by `flush`, a READ that is posted
// after the request on the same queue pair. Afterwards the landing buffer belongs to the caller again.
[[nodiscard]] coro::Task<fabric::WcStatus> settle(fabric::Worker* worker, fabric::WatchOutcome outcome,
                                                  fabric::WorkRequest flush);

}  // namespace loch::onesided
