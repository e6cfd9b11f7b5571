// Which doorbell registers of a NIC the workers of a node ring.
#pragma once

#include <cstdint>

namespace loch::fabric {

// shared: those that the driver makes by default, which queue pairs get in rotation, so that threads share
// them. own: each worker has one that nobody else rings (thread-aware resources of SMART, ASPLOS 2024).
enum class DoorbellSharing : std::uint8_t { shared, own };

}  // namespace loch::fabric
