// The CPU time that a simulation charges for steps of a protocol.
#pragma once

#include <cstdint>

#include "common/base/units.h"

namespace loch::fabric {

// CPU time of protocol steps in nanoseconds, which a protocol passes to Worker::compute(). All zero on real
// fabrics, where the work takes its own time.
struct CpuCosts {
  double hash_fixed = 0, hash_byte = 0;
  double compare_fixed = 0, compare_byte = 0;
  double copy_fixed = 0, copy_byte = 0;
  double crc_byte = 0;
  double memory_fixed = 0;     // time of a random access to memory that is not prefetched
  double line_fixed = 0;       // time of fetching a cache line that another core has changed
  double operation_fixed = 0;  // fixed part of one store operation: setting up the request, drawing the key
  [[nodiscard]] Nanos hash(std::uint64_t bytes) const { return span(hash_fixed, hash_byte, bytes); }
  [[nodiscard]] Nanos compare(std::uint64_t bytes) const { return span(compare_fixed, compare_byte, bytes); }
  [[nodiscard]] Nanos copy(std::uint64_t bytes) const { return span(copy_fixed, copy_byte, bytes); }
  [[nodiscard]] Nanos crc(std::uint64_t bytes) const { return span(0, crc_byte, bytes); }
  [[nodiscard]] Nanos memory() const { return static_cast<Nanos>(memory_fixed); }
  [[nodiscard]] Nanos line() const { return static_cast<Nanos>(line_fixed); }
  [[nodiscard]] Nanos operation() const { return static_cast<Nanos>(operation_fixed); }

 private:
  static Nanos span(double fixed, double per_byte, std::uint64_t bytes) {
    return static_cast<Nanos>(fixed + per_byte * static_cast<double>(bytes));
  }
};

}  // namespace loch::fabric
