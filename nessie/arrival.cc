// Finds out how a READ or CAS ended whose result did not arrive in the client's buffer.
#include "nessie/arrival.h"

#include "nessie/reach.h"

namespace loch::nessie {

fabric::WorkRequest flush_of(const Lane& lane, fabric::NodeId peer) {
  const fabric::LocalSlice scratch{lane.node.words, lane.word_at(lane_flush)};
  return fabric::one_sided(fabric::Verb::read, lane.own.peers[peer].data, 0, scratch, 8, nullptr);
}

coro::Task<fabric::WcStatus> settle(Lane* lane, onesided::Ended ended, fabric::NodeId peer) {
  if (ended.is_settled()) co_return ended.status;
  if (ended.outcome != fabric::WatchOutcome::link_down) ++lane->own.counters.watch_timeouts;
  co_return co_await onesided::settle(&lane->worker, ended.outcome, flush_of(*lane, peer));
}

coro::Task<bool> LaneReading::reconnect() const { return nessie::reconnect(&access.lane, peer); }

}  // namespace loch::nessie
