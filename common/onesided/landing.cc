// Posts a READ whose last word is polled, and determines the status of a READ whose last word did not arrive
// in time.
#include "common/onesided/landing.h"

#include "common/fabric/memory.h"

namespace loch::onesided {

fabric::Worker::WatchOne post_watched(fabric::Worker& worker, fabric::WorkRequest& request,
                                      const Landing& landing) {
  fabric::store_word_release(landing.region->at(landing.word_at), 0);
  request.is_signaled = false;
  worker.post_detached(request);
  const fabric::WatchWord arrival{.region = landing.region,
                                  .offset = landing.word_at,
                                  .mask = landing.mark,
                                  .value = landing.mark,
                                  .until_equal = true,
                                  .peer = request.peer};
  return worker.watch(arrival, landing.until);
}

coro::Task<fabric::WcStatus> settle(fabric::Worker* worker, fabric::WatchOutcome outcome,
                                    fabric::WorkRequest flush) {
  if (outcome == fabric::WatchOutcome::link_down) co_return fabric::WcStatus::retry_exceeded;
  // The request's data did not arrive in time, or the run is ending: a signaled READ that is posted after the
  // request on its queue pair tells whether the request has completed. Until then the landing buffer belongs
  // to the NIC.
  const fabric::Completion flushed = co_await worker->execute(flush);
  co_return flushed.status;
}

}  // namespace loch::onesided
