// One microbenchmark of a simulated NIC: many nodes and one measured node, one verb, one size.
#pragma once

#include <cstdint>

#include "common/base/result.h"
#include "common/fabric/sim/sim.h"
#include "common/fabric/traffic.h"

namespace loch::fabric::sim {

struct Microbenchmark {
  Traffic traffic;
  bool is_outbound = false;  // true: the measured node posts to many others; otherwise many post to it
  bool is_echo = false;      // SENDs: whether the measured node answers each one
  std::uint32_t reply_bytes = 0;
  // true: a worker posts its window and waits for all of it; false: it refills the window continuously
  bool in_rounds = false;
  std::uint32_t peers = 12;     // number of nodes other than the measured one
  std::uint32_t workers = 4;    // posting workers per node
  std::uint32_t receivers = 4;  // SENDs: receiving workers per node
  DoorbellSharing doorbells = DoorbellSharing::shared;
  std::uint32_t window = 16;  // outstanding requests (or echoes) of a worker
  // bytes of a node's region: at least what the benchmark needs, and more where the size itself matters
  std::uint64_t region_bytes = 0;
  // Inbound SENDs without echoes: about how many messages may be in flight at once. This replaces the
  // link-level credits of a lossless link, which the model does not include.
  std::uint32_t in_flight = 256;
  Nanos warm_up = 100'000, duration = 300'000;
};

struct Measured {
  double mops = 0;       // million work requests (or echoes) per second
  double mean_us = 0;    // mean latency of a request (or an echo)
  double gbits_s = 0;    // payload of the requests in Gbit/s
  double link_busy = 0;  // share of time for which the measured node's link was busy, in its busier direction
  double work_request_misses = 0;  // misses of the work-request cache per work request
};

[[nodiscard]] Result<Measured> measure(const HardwareProfile& hardware, const Microbenchmark& benchmark);

}  // namespace loch::fabric::sim
