// A decorator that counts work requests and bytes of every operation (OpStats) and of every node
// (NodeReport), over any fabric.
#pragma once

#include <memory>
#include <optional>

#include "common/fabric/fabric.h"
#include "common/fabric/wire.h"

namespace loch::fabric {

struct CountConfig {
  std::optional<LinkFormat> link = {};  // packet headers to count; none: those of the fabric's link
  std::uint32_t mtu_bytes = 0;          // payload bytes of a packet; 0: as the fabric says
  // true: the fabric's own report has tx_wire_bytes and rx_wire_bytes, so that this decorator need not count
  // them.
  bool fabric_counts_wire = false;
};

// Takes ownership of the fabric. Its report gets, for each node, the counters "posted.read", "posted.write",
// "posted.cas", "posted.faa", "posted.send" and "posted.payload_bytes" of the node's workers, and
// tx_wire_bytes and rx_wire_bytes if the fabric has none of its own. Requests are counted when they are
// posted; requests to the node itself (loopback) cross no wire and count no bytes. With several processes the
// entry of a remote node has the bytes that this process caused there: the sum over the processes' reports is
// the total.
[[nodiscard]] std::unique_ptr<Fabric> count_requests(std::unique_ptr<Fabric> inner,
                                                     const CountConfig& config);

}  // namespace loch::fabric
