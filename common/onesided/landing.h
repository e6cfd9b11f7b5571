// Waits for a READ (or CAS) by polling the memory that it writes: the last word of its local buffer (the
// landing buffer) is zeroed, and polled until the bits that mark its arrival are set (Nessie, 2017, 4.1.1).
// READs of more than one cache line can be awaited thus only where the fabric places bytes in address order
// (fabric.h, rule 1).
#pragma once

#include <cstdint>

#include "common/coro/task.h"
#include "common/fabric/fabric.h"
#include "common/fabric/memory.h"

namespace loch::onesided {

struct Landing {
  fabric::Region* region = nullptr;
  std::uint64_t word_at = 0;  // offset in `region` of the last word that the request places
  // bits that are 0 in the polled word until the request has placed it, and then 1
  std::uint64_t mark = 0;
  Nanos until = 0;  // time at which the polling ends; then settle() finds out the request's status
};

// Posts the request unsignaled, after zeroing the last word that the request places.
inline void post_watched(fabric::Worker& worker, fabric::WorkRequest& request, const Landing& landing) {
  fabric::store_word_release(landing.region->at(landing.word_at), 0);
  request.is_signaled = false;
  worker.post_detached(request);
}
// Whether the request has placed its last word.
[[nodiscard]] inline bool has_landed(const Landing& landing) {
  return (fabric::load_word(landing.region->at(landing.word_at)) & landing.mark) == landing.mark;
}
// An awaitable that polls the last word that a request to `peer` writes; post_watched() has posted the
// request.
[[nodiscard]] inline fabric::Worker::WatchOne watch_landing(fabric::Worker& worker, const Landing& landing,
                                                            fabric::NodeId peer) {
  const fabric::WatchWord arrival{.region = landing.region,
                                  .offset = landing.word_at,
                                  .mask = landing.mark,
                                  .value = landing.mark,
                                  .until_equal = true,
                                  .peer = peer};
  return worker.watch(arrival, landing.until);
}
// Determines the status of a request whose last word was not seen to arrive: the polling of that word (the
// watch) ended otherwise than `ready`. `flush` is a READ that is posted after it on its queue pair.
// Afterwards the caller may use the request's local buffer again.
[[nodiscard]] coro::Task<fabric::WcStatus> settle(fabric::Worker* worker, fabric::WatchOutcome outcome,
                                                  fabric::WorkRequest flush);

}  // namespace loch::onesided
