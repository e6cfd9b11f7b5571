// What a device can do, and what a protocol needs of it.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/verb.h"

namespace loch::fabric {

// Queried when a device opens; recorded with every result.
struct Capabilities {
  std::string fabric;  // "sim", "shm", "verbs"
  std::string device;  // profile or device name
  bool rc = true, uc = true, ud = true;
  AtomicScope atomic_scope = AtomicScope::nic;
  std::uint32_t untorn_bytes = 8;   // aligned bytes that are always fetched or placed at once
  bool in_order_placement = false;  // a WRITE's (READ's) bytes appear in address order
  std::uint32_t max_rd_atomic = 16;
  std::uint32_t max_inline_bytes = 0;
  std::uint32_t mtu_bytes = 4096;
  std::uint32_t send_queue_depth = 128;  // outstanding requests of one queue pair
  std::uint32_t recv_queue_depth = 512;
  // number of UD queue pairs of a worker, which its datagram lanes share
  std::uint32_t datagram_queue_pairs = 1;
  // How long after it was posted an RC request may still be executed: all of the NIC's tries. 0: not known.
  Nanos request_lifetime = 0;
  bool simulated = false;  // decides labels of results, never protocol behaviour
};

// What a protocol needs; check() names the first thing that is missing.
struct Requirements {
  bool rc = false, uc = false, ud = false;
  AtomicScope atomic_scope = AtomicScope::none;
  std::uint32_t untorn_bytes = 8;
  bool in_order_placement = false;
  std::uint32_t max_inline_bytes = 0;
  std::uint32_t max_rd_atomic = 0;
  std::uint32_t ud_lanes = 1;  // UD queue pairs that each worker needs
  // The longest that an RC request may go on being executed after it was posted (ns); 0: the protocol does
  // not depend on it.
  Nanos request_lifetime_below = 0;
};
[[nodiscard]] Result<> check(const Requirements& needs, const Capabilities& has);

}  // namespace loch::fabric
