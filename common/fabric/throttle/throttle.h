// A decorator that limits how many one-sided work requests a worker has outstanding: too many of them miss
// the NIC's cache of work requests and lower its rate (SMART, ASPLOS 2024, section 4.2). Over any fabric.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/fabric.h"

namespace loch::fabric {

struct ThrottleConfig {
  // READs, WRITEs and atomics that a client worker may have outstanding; 0: a limit for all workers of a node
  // is found by trying (tuner.h)
  std::uint32_t limit = 0;
  // how long each limit is tried, if the limit is to be found by trying
  Nanos sample = 8'000'000;
};

// What --throttle says: "off" (nullopt), "adaptive" (0), or the limit. An error says what was expected.
[[nodiscard]] Result<std::optional<std::uint32_t>> parse_throttle(std::string_view text);

// Takes ownership of the fabric. A chain of requests that would exceed the limit waits; one that is longer
// than the limit waits until nothing is outstanding. A chain that fits may overtake up to 1,024 that wait, so
// that a coroutine goes on with its operation before others begin theirs: the order of the fabric's contract
// holds within a chain, and toward chains that end unsignaled, which overtake nothing and are not overtaken.
// SENDs and requests of post_detached() do not wait; chains that wait for the same queue pair are posted
// before such a request. The payload of an inlined WRITE is read when its chain has waited: a buffer must not
// change before the completion. The report's nodes get the counters "throttle.limit" (the limit at the end)
// and "throttle.waits" (chains that waited).
[[nodiscard]] std::unique_ptr<Fabric> throttle_requests(std::unique_ptr<Fabric> inner,
                                                        const ThrottleConfig& config);

}  // namespace loch::fabric
