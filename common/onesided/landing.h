// Waits for a READ (or CAS) by polling the memory that it writes: the last word of the landing buffer is
// zeroed, and polled until its mark is set (Nessie, 2017, 4.1.1). READs of more than one cache line can be
// awaited thus only where the fabric places bytes in address order (fabric.h, rule 1).
#pragma once

#include <cstdint>

#include "common/coro/task.h"
#include "common/fabric/fabric.h"

namespace loch::onesided {

struct Landing {
  fabric::Region* region = nullptr;
  std::uint64_t word_at = 0;  // offset in `region` of the last word that the request places
  // bits that are set in the word that the request places, and not in the zeroed word
  std::uint64_t mark = 0;
  Nanos until = 0;  // time after which the request counts as late, and a READ after it determines its status
};

// Posts the request unsignaled, and returns the watch of its landing word, which has to be awaited at once.
[[nodiscard]] fabric::Worker::WatchOne post_watched(fabric::Worker& worker, fabric::WorkRequest& request,
                                                    const Landing& landing);
// Determines the status of a request whose watch did not end in `ready`, by `flush`, a READ after it on its
// queue pair. Afterwards the buffer belongs to the caller again.
[[nodiscard]] coro::Task<fabric::WcStatus> settle(fabric::Worker* worker, fabric::WatchOutcome outcome,
                                                  fabric::WorkRequest flush);

}  // namespace loch::onesided
