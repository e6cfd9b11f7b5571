// What a device can do, and what a protocol needs of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/verb.h"

namespace loch::fabric {

// The packet headers of a link: InfiniBand's own, Ethernet with a GRH (RoCE v1), or Ethernet with IPv4 and
// UDP (RoCE v2).
enum class LinkFormat : std::uint8_t { infiniband, roce_v1, roce_v2 };

// Who sees to it that a request takes effect after a WRITE that was posted before it: nobody; the fabric, by
// posting it only when the WRITE has ended; or the device.
enum class Order : std::uint8_t { none, waits, device };
[[nodiscard]] std::string_view name(Order order);

// What a device or a simulated NIC can do; queried when the device is opened, and recorded with every result.
// For a run of several nodes: the least that all their devices can do.
struct Capabilities {
  std::string fabric;  // name of the fabric: "sim", "shm", "verbs" or "ofi"
  std::string device;  // name of the device, or of the simulated NIC's profile
  bool rc = true, uc = true, ud = true;
  bool receives_connected = true;  // whether RECVs for RC and UC can be posted (to a shared receive queue)
  AtomicScope atomic_scope = AtomicScope::nic;
  std::uint32_t untorn_bytes = 8;   // aligned bytes that the NIC fetches or places indivisibly
  bool in_order_placement = false;  // the bytes of a WRITE appear in address order in the target's memory
  bool in_order_reads = false;      // the bytes of a READ appear in address order in the requester's memory
  // true: the devices do not report that they place bytes in order, the user asserts it (--assume-order)
  bool order_is_assumed = false;
  // who ensures that a READ (an atomic) takes effect after a WRITE posted before it to the same queue pair
  Order write_then_read = Order::device, write_then_atomic = Order::device;
  // Whether one-sided requests take CPU time of the target's process, which has to drive the device for them
  bool target_cpu = false;
  std::uint32_t max_rd_atomic = 16;
  std::uint32_t max_inline_bytes = 0;
  std::uint32_t mtu_bytes = 4096;
  LinkFormat link = LinkFormat::infiniband;  // the link whose packet headers are counted in bytes on the wire
  std::uint32_t send_queue_depth = 128;      // most outstanding requests of one queue pair
  std::uint32_t recv_queue_depth = 512;
  // number of UD queue pairs of a worker, over which the worker's datagrams are spread
  std::uint32_t datagram_queue_pairs = 1;
  // Largest time in ns between the posting of an RC request and its execution, over all retransmissions by
  // the NIC; 0: unknown.
  Nanos request_lifetime = 0;
  // whether the NIC is simulated; decides labels of results, never protocol behaviour
  bool simulated = false;
  bool operator==(const Capabilities&) const = default;
};

// Returns what both devices can do: for each capability, the weaker of the two devices' values.
[[nodiscard]] Capabilities least(const Capabilities& one, const Capabilities& other);

// What a protocol needs; check() names the first thing that is missing.
struct Requirements {
  bool rc = false, uc = false, ud = false;
  AtomicScope atomic_scope = AtomicScope::none;
  std::uint32_t untorn_bytes = 8;
  bool in_order_placement = false;
  // Whether a READ (an atomic) must take effect after a WRITE posted before it to the same RC queue pair. A
  // protocol that awaits each WRITE before it posts the READ or atomic may set these to false.
  bool write_then_read = true, write_then_atomic = true;
  std::uint32_t max_inline_bytes = 0;
  std::uint32_t max_rd_atomic = 0;
  std::uint32_t ud_lanes = 1;  // UD queue pairs that each worker needs
  // whether the protocol's workers post RECVs for SENDs over RC, and over UC
  bool receives_rc = false, receives_uc = false;
  // The protocol is correct only if no RC request is executed later than this many ns after it was posted; 0:
  // the protocol does not depend on that time.
  Nanos request_lifetime_below = 0;
};
[[nodiscard]] Result<> check(const Requirements& needs, const Capabilities& has);

}  // namespace loch::fabric
