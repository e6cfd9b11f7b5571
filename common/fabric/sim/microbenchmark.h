// One microbenchmark of a simulated NIC: many nodes against one, one verb, one size.
#pragma once

#include <cstdint>

#include "common/base/result.h"
#include "common/fabric/sim/hardware.h"
#include "common/fabric/traffic.h"

namespace loch::fabric::sim {

struct Microbenchmark {
  Traffic traffic;
  bool is_outbound = false;  // one node posts to many; else many post to one
  bool is_echo = false;      // SENDs: the node that is measured answers each; else nobody answers
  std::uint32_t reply_bytes = 0;
  bool in_rounds = false;       // a worker posts its window and waits for all of it; else it refills it
  std::uint32_t peers = 12;     // nodes beside the one that is measured
  std::uint32_t workers = 4;    // posting workers per node
  std::uint32_t receivers = 4;  // SENDs: receiving workers per node
  std::uint32_t window = 16;    // outstanding turns a worker
  // SENDs, inbound: on their way at once. What a lossless link's credits hold back is no part of the model.
  std::uint32_t in_flight = 256;
  Nanos warm_up = 100'000, duration = 300'000;
};

struct Measured {
  double mops = 0;                 // work requests (echoes) a second, in millions
  double mean_us = 0;              // mean latency of a turn
  double gbits_s = 0;              // payload
  double link_busy = 0;            // share of the time, of the measured node's link, the busier direction
  double work_request_misses = 0;  // a work request
};

[[nodiscard]] Result<Measured> measure(const HardwareProfile& hardware, const Microbenchmark& benchmark);

}  // namespace loch::fabric::sim
