// One microbenchmark of a simulated NIC: many nodes against one, one verb, one size.
#pragma once

#include <cstdint>

#include "common/base/result.h"
#include "common/fabric/sim/hardware.h"

namespace loch::fabric::sim {

struct Microbenchmark {
  Verb verb = Verb::read;
  Transport transport = Transport::rc;
  std::uint32_t bytes = 8;
  bool is_outbound = false;      // one node posts to many; else many post to one
  bool is_inline = false;        // WRITE and SEND: the payload is in the work request
  std::uint32_t peers = 12;      // nodes beside the one that is measured
  std::uint32_t workers = 4;     // posting workers a node
  std::uint32_t window = 16;     // outstanding chains a worker
  std::uint32_t chain = 1;       // work requests a doorbell
  std::uint32_t words = 0;       // atomics: over so many counters; 0: one
  Nanos duration = 300'000;
};

struct Measured {
  double mops = 0;        // work requests a second, in millions
  double mean_us = 0;     // of a chain
  double gbits_s = 0;     // payload
};

[[nodiscard]] Result<Measured> measure(const HardwareProfile& hardware, const Microbenchmark& benchmark);

}  // namespace loch::fabric::sim
