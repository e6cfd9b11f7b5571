// How a lane's READs and CASes are posted and awaited (2017, 4.1.1): the landing word's watermark is polled,
// and a late one is asked after; or completions are (common/onesided/transfer.h).
#pragma once

#include "common/onesided/transfer.h"
#include "nessie/lane.h"

namespace loch::nessie {

// Where a request's last 8 bytes land, if its watermark is to be polled.
[[nodiscard]] std::optional<onesided::Landing> landing_at(const Lane& lane, fabric::Region* region,
                                                          std::uint64_t last_word, bool by_watermark);
// The READ that asks what has become of a request to the peer.
[[nodiscard]] fabric::WorkRequest flush_of(const Lane& lane, fabric::NodeId peer);
// What has become of a request to the peer.
[[nodiscard]] coro::Task<fabric::WcStatus> settle(Lane* lane, onesided::Ended ended, fabric::NodeId peer);

// What the READs of index words and of entries have in common, for onesided::try_again().
struct LaneReading {
  Access access;
  fabric::NodeId peer = 0;  // peer of the last attempt

  [[nodiscard]] fabric::Worker& worker() const { return access.lane.worker; }
  [[nodiscard]] fabric::WorkRequest flush() const { return flush_of(access.lane, peer); }
  void count_late() const { ++access.own().counters.watch_timeouts; }
  [[nodiscard]] coro::Task<bool> reconnect() const;
};

}  // namespace loch::nessie
