// How a client learns that a READ or CAS has completed (Nessie, 2017, 4.1.1). Either the client polls the
// watermark, a bit of the result's last word that shows that the result has landed, and after a time-out
// finds out whether the request was executed; or the client awaits the request's completion
// (common/onesided/transfer.h).
#pragma once

#include "common/onesided/transfer.h"
#include "nessie/lane.h"

namespace loch::nessie {

// Where the last 8 bytes of a request's result land, if the client polls their watermark (a bit that shows
// that they have landed); nullopt if the client awaits the request's completion. `now`: the time at which the
// request is posted.
[[nodiscard]] inline std::optional<onesided::Landing> landing_at(const Lane& lane, fabric::Region* region,
                                                                 std::uint64_t last_word, bool by_watermark,
                                                                 Nanos now) {
  if (!by_watermark) return std::nullopt;
  return onesided::Landing{
      .region = region, .word_at = last_word, .mark = watermark_bit, .until = now + lane.settings.expiry};
}
// An 8-byte READ to the peer. Its completion shows that all earlier requests to the peer have ended.
[[nodiscard]] fabric::WorkRequest flush_of(const Lane& lane, fabric::NodeId peer);
// Returns the completion status of a request to the peer; if `ended` does not have it, learns it by posting
// another READ to the peer.
[[nodiscard]] coro::Task<fabric::WcStatus> settle(Lane* lane, onesided::Ended ended, fabric::NodeId peer);

// Base class of the READs of index words and of entries, with the members that onesided::try_again() calls.
struct LaneReading {
  Access access;
  fabric::NodeId peer = 0;  // node to which the last attempt was sent

  [[nodiscard]] fabric::Worker& worker() const { return access.lane.worker; }
  [[nodiscard]] fabric::WorkRequest flush() const { return flush_of(access.lane, peer); }
  void count_late() const { ++access.own().counters.watch_timeouts; }
  [[nodiscard]] coro::Task<bool> reconnect() const;
};

}  // namespace loch::nessie
