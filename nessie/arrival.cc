// Arrivals at a lane's buffers, by watermark.
#include "nessie/arrival.h"

#include "common/rpc/landing.h"

namespace loch::nessie {

// No coroutine of its own: it is awaited several times in every operation.
fabric::Worker::WatchOne post_watched(Lane& lane, fabric::WorkRequest& request, fabric::Region* region,
                                      std::uint64_t landed) {
  const rpc::Landing landing{.region = region,
                             .word_at = landed,
                             .mark = watermark_bit,
                             .until = lane.worker.now() + lane.settings.expiry,
                             .flush = {}};
  return rpc::post_watched(lane.worker, request, landing);
}

coro::Task<fabric::WcStatus> settle(Lane* lane, fabric::WatchOutcome outcome, fabric::NodeId peer) {
  if (outcome != fabric::WatchOutcome::link_down) ++lane->own.counters.watch_timeouts;
  const fabric::LocalSlice scratch{lane->node.words, lane->word_at(lane_flush)};
  const fabric::WorkRequest flush =
      fabric::one_sided(fabric::Verb::read, lane->own.peers[peer].data, 0, scratch, 8, nullptr);
  co_return co_await rpc::settle(&lane->worker, outcome, flush);
}

}  // namespace loch::nessie
