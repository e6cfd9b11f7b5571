#include "common/rpc/landing.h"

#include "common/fabric/memory.h"

namespace loch::rpc {

coro::Task<Landed> read_by_watermark(fabric::Worker* worker, fabric::WorkRequest request, Landing landing) {
  fabric::store_word_release(landing.region->at(landing.word_at), 0);
  request.is_signaled = false;
  worker->post_detached(request);
  const fabric::WatchWord arrival{.region = landing.region,
                                  .offset = landing.word_at,
                                  .mask = landing.mark,
                                  .value = landing.mark,
                                  .until_equal = true,
                                  .peer = request.peer};
  const fabric::WatchOutcome outcome = co_await worker->watch(arrival, landing.until);
  if (outcome == fabric::WatchOutcome::ready) co_return Landed{};
  if (outcome == fabric::WatchOutcome::link_down)
    co_return Landed{.status = fabric::WcStatus::retry_exceeded, .was_late = false};
  // Slow, or the run is ending: a signaled READ behind the request on its queue pair settles whether
  // it has completed; until then the landing buffer is the NIC's.
  const fabric::Completion flushed = co_await worker->execute(landing.flush);
  co_return Landed{.status = flushed.status, .was_late = true};
}

}  // namespace loch::rpc
