// A decorator that counts: work requests and bytes of every operation (OpStats) and of every node
// (NodeReport), over any fabric.
#pragma once

#include <memory>
#include <optional>

#include "common/fabric/fabric.h"
#include "common/fabric/wire.h"

namespace loch::fabric {

struct CountConfig {
  std::optional<LinkFormat> link = {};  // none: the fabric's own
  std::uint32_t mtu_bytes = 0;          // 0: the fabric's own
  // The fabric's report has tx_wire_bytes and rx_wire_bytes of its own: they need not be added up here.
  bool fabric_counts_wire = false;
};

// Takes the fabric over. Its report adds to each node the counters "posted.read", "posted.write",
// "posted.cas", "posted.faa", "posted.send" and "posted.payload_bytes" of the node's workers, and
// fills tx_wire_bytes and rx_wire_bytes where the fabric has none of its own. Requests are counted
// when they are posted; requests to the node itself (loopback) cross no wire and count no bytes.
// With several processes a remote node's entry holds the bytes that this process caused there: the
// sum over the processes' reports is the whole.
[[nodiscard]] std::unique_ptr<Fabric> count_requests(std::unique_ptr<Fabric> inner,
                                                     const CountConfig& config);

}  // namespace loch::fabric
