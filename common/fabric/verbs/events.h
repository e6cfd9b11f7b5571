// What an asynchronous event of a device means for a run.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string_view>

namespace loch::fabric::verbs {

enum class EventEffect : std::uint8_t {
  none,       // counted only
  receiver,   // a receiving end broke, because of what its peer sent
  symptom,    // something failed that the run may survive: named in the verdict on the network
  port_down,  // a symptom; the run ends if the port does not come back
  fatal,      // the run ends
};

[[nodiscard]] EventEffect effect_of(ibv_event_type type);
// The event's name in libibverbs, such as "IBV_EVENT_PORT_ERR".
[[nodiscard]] std::string_view event_name(ibv_event_type type);
// Whether the event names a queue pair.
[[nodiscard]] bool is_of_queue_pair(ibv_event_type type);

}  // namespace loch::fabric::verbs
