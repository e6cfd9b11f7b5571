// What a device can do, and what a protocol needs of it.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/verb.h"

namespace loch::fabric {

// Whose headers packets have: InfiniBand's own, or Ethernet's with a GRH (v1) or with IPv4 and UDP (v2).
enum class LinkFormat : std::uint8_t { infiniband, roce_v1, roce_v2 };

// Queried when a device opens; recorded with every result. Of several nodes: the least of what each has.
struct Capabilities {
  std::string fabric;  // "sim", "shm", "verbs"
  std::string device;  // profile or device name
  bool rc = true, uc = true, ud = true;
  bool receives_connected = true;  // RECVs can be posted for SENDs over RC and UC (a shared receive queue)
  AtomicScope atomic_scope = AtomicScope::nic;
  std::uint32_t untorn_bytes = 8;   // aligned bytes that are always fetched or placed at once
  bool in_order_placement = false;  // a WRITE's bytes appear in address order in the target's memory
  bool in_order_reads = false;      // a READ's bytes do, in the requester's memory
  bool order_is_assumed = false;    // the device does not say so: the user does (--assume-order)
  std::uint32_t max_rd_atomic = 16;
  std::uint32_t max_inline_bytes = 0;
  std::uint32_t mtu_bytes = 4096;
  LinkFormat link = LinkFormat::infiniband;  // what bytes on the wire are counted by
  std::uint32_t send_queue_depth = 128;      // outstanding requests of one queue pair
  std::uint32_t recv_queue_depth = 512;
  // number of UD queue pairs of a worker, which its datagram lanes share
  std::uint32_t datagram_queue_pairs = 1;
  // How long after it was posted an RC request may still be executed: all of the NIC's tries. 0: not known.
  Nanos request_lifetime = 0;
  bool simulated = false;  // decides labels of results, never protocol behaviour
  bool operator==(const Capabilities&) const = default;
};

// What each of several nodes has in common with all others, where they differ the lesser.
[[nodiscard]] Capabilities least(const Capabilities& one, const Capabilities& other);

// What a protocol needs; check() names the first thing that is missing.
struct Requirements {
  bool rc = false, uc = false, ud = false;
  AtomicScope atomic_scope = AtomicScope::none;
  std::uint32_t untorn_bytes = 8;
  bool in_order_placement = false;
  std::uint32_t max_inline_bytes = 0;
  std::uint32_t max_rd_atomic = 0;
  std::uint32_t ud_lanes = 1;                     // UD queue pairs that each worker needs
  bool receives_rc = false, receives_uc = false;  // RECVs are posted for SENDs over them
  // The longest that an RC request may go on being executed after it was posted (ns); 0: the protocol does
  // not depend on it.
  Nanos request_lifetime_below = 0;
};
[[nodiscard]] Result<> check(const Requirements& needs, const Capabilities& has);

}  // namespace loch::fabric
