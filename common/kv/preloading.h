// How stores fill their memory by several threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/parallel.h"
#include "common/fabric/fabric.h"

namespace loch::kv {

// The number of threads by which Store::preload() fills the memory of this process's nodes: one for each
// processor that the process may use, since the kernel zeroes most of that memory when it is written first. A
// simulation has one: many of them run beside each other, and their memory is small.
[[nodiscard]] inline std::size_t preload_threads(const fabric::Fabric& fabric) {
  return fabric.capabilities().simulated ? 1 : usable_cores();
}

// Part `part` of `parts` of the numbers 0 … count-1.
struct Span {
  std::uint64_t first = 0, end = 0;
};
[[nodiscard]] constexpr Span part_of(std::uint64_t count, std::size_t part, std::size_t parts) {
  const std::uint64_t each = count / parts, more = count % parts;
  const auto before = [&](std::uint64_t i) { return i * each + (i < more ? i : more); };
  return {before(part), before(part + 1)};
}

}  // namespace loch::kv
