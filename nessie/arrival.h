// Posts and awaits a lane's READs and CASes (Nessie, 2017, 4.1.1). The client polls the watermark bit of the
// request's last word, and after a time-out asks whether the request was executed; or it awaits a completion
// (common/onesided/transfer.h).
#pragma once

#include "common/onesided/transfer.h"
#include "nessie/lane.h"

namespace loch::nessie {

// The place of a request's last 8 bytes, if their watermark bit is to be polled; none if the completion is
// awaited.
[[nodiscard]] std::optional<onesided::Landing> landing_at(const Lane& lane, fabric::Region* region,
                                                          std::uint64_t last_word, bool by_watermark);
// An 8-byte READ to the peer, whose completion shows that earlier requests to the peer have ended.
[[nodiscard]] fabric::WorkRequest flush_of(const Lane& lane, fabric::NodeId peer);
// Finds out the completion status of a request to the peer that ended without a known status.
[[nodiscard]] coro::Task<fabric::WcStatus> settle(Lane* lane, onesided::Ended ended, fabric::NodeId peer);

// Common base of the READs of index words and of entries, as onesided::try_again() needs it.
struct LaneReading {
  Access access;
  fabric::NodeId peer = 0;  // node to which the last attempt was sent

  [[nodiscard]] fabric::Worker& worker() const { return access.lane.worker; }
  [[nodiscard]] fabric::WorkRequest flush() const { return flush_of(access.lane, peer); }
  void count_late() const { ++access.own().counters.watch_timeouts; }
  [[nodiscard]] coro::Task<bool> reconnect() const;
};

}  // namespace loch::nessie
