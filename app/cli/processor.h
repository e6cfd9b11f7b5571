// Measures what this machine's processor takes for the parts of a key-value server's work: the constants
// `cpu` of a hardware profile (common/fabric/sim/cpu_profile.h), of which profiles say where they are from.
#pragma once

#include <cstdint>

namespace loch::cli {

// Median times of one thread in ns, unless they say otherwise. A negative time could not be measured.
struct ProcessorCosts {
  std::uint64_t memory_bytes =
      0;                   // memory in which `memory`, `memory_huge`, `copy` and `copy_byte` were taken
  double clock_ghz = 0;    // one dependent addition is one cycle
  double memory = 0;       // a load from a random cache line, in pages of 4 KiB: also misses the TLB
  double memory_huge = 0;  // the same, where the kernel was asked for huge pages
  double line = 0;         // a load of a line that another core has just changed; -1 with one core
  double hash = 0, hash_byte = 0;        // fixed part, and each byte, of one hash function of a key
  double compare = 0, compare_byte = 0;  // of a comparison of two byte strings in the first-level cache
  double copy = 0, copy_byte = 0;        // of a copy from a random place of the memory
  // Filling a work request of 64 bytes and handing it over by non-temporal stores with a fence: a stand-in
  // for MMIO to write-combining memory, of which a machine without an RDMA NIC has none.
  double post = 0;
};

// Takes some seconds and `memory_bytes` of memory, which is at least 1 MiB. Returns no costs, that is
// memory_bytes 0, if the memory cannot be had.
[[nodiscard]] ProcessorCosts measure_processor(std::uint64_t memory_bytes);

}  // namespace loch::cli
