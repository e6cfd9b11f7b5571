// Awaiting a READ (or CAS) by what it places: the landing buffer's last word is zeroed, and polled until
// its mark is set (Nessie, 2017, 4.1.1). Of more than one cache line only where the fabric places them in
// address order (fabric.h, rule 1).
#pragma once

#include <cstdint>

#include "common/coro/task.h"
#include "common/fabric/fabric.h"

namespace loch::onesided {

struct Landing {
  fabric::Region* region = nullptr;
  std::uint64_t word_at = 0;  // offset in `region` of the last word that the request places
  std::uint64_t mark = 0;     // bits that the placed word has set, and the zeroed one has not
  Nanos until = 0;            // after this instant a READ behind the request asks what has become of it
};

// Posts the request unsignaled; what comes back waits for the mark, and is awaited at once.
[[nodiscard]] fabric::Worker::WatchOne post_watched(fabric::Worker& worker, fabric::WorkRequest& request,
                                                    const Landing& landing);
// The status of a request whose watch did not end in `ready`, established by `flush`, a READ behind it on its
// queue pair; afterwards the buffer is the caller's again.
[[nodiscard]] coro::Task<fabric::WcStatus> settle(fabric::Worker* worker, fabric::WatchOutcome outcome,
                                                  fabric::WorkRequest flush);

}  // namespace loch::onesided
