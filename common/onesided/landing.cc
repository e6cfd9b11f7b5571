// Determines the status of a READ whose last word did not arrive in time.
#include "common/onesided/landing.h"

namespace loch::onesided {

coro::Task<fabric::WcStatus> settle(fabric::Worker* worker, fabric::WatchOutcome outcome,
                                    fabric::WorkRequest flush) {
  if (outcome == fabric::WatchOutcome::link_down) co_return fabric::WcStatus::retry_exceeded;
  // The request's data did not arrive in time, or the run is ending: a signaled READ that is posted after the
  // request on its queue pair tells whether the request has completed. Until then the NIC may write the
  // request's local buffer.
  const fabric::Completion flushed = co_await worker->execute(flush);
  co_return flushed.status;
}

}  // namespace loch::onesided
