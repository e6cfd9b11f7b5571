// Waiting until a word of memory changes, by polling: one word, or all request slots of a server.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/units.h"
#include "common/fabric/region.h"

namespace loch::fabric {

enum class WatchOutcome : std::uint8_t {
  ready,      // the awaited condition holds
  timed_out,  // the deadline passed
  stopping,   // the run is over: servers leave their loops
  link_down,  // the connection to `peer` failed during the wait
};

// One 8-byte aligned word of a region of this node.
struct WatchWord {
  const Region* region = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t mask = ~std::uint64_t{0};
  std::uint64_t value = 0;
  bool until_equal = true;     // true: ready when (word & mask) == value; false: ready when they differ
  std::optional<NodeId> peer;  // the wait ends early when the connection to this node fails
};

// `count` words of one region, `stride` bytes apart: the request slots of a server. The predicate `ready` is
// evaluated for each word, and may read the whole slot of `stride` bytes that ends with the word.
struct WatchSet {
  const Region* region = nullptr;
  std::uint64_t offset = 0;
  std::uint32_t stride = 8;
  std::uint32_t count = 0;
  bool (*ready)(void* context, std::uint32_t index, std::uint64_t word) = nullptr;
  void* context = nullptr;
  // For each word of the set, by index: a value for which `ready` would return false, such as the value that
  // was processed last. `ready` need not be called while the word has this value or is 0. Null: `ready` is
  // called for every word. The array may change only while no worker watches the set.
  const std::uint64_t* known = nullptr;
};

struct WatchAny {
  WatchOutcome outcome = WatchOutcome::ready;
  std::uint32_t index = 0;
};

constexpr Nanos forever = INT64_MAX;

}  // namespace loch::fabric
