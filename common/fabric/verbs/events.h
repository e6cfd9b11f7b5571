// What an asynchronous event of a device means for a run.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string_view>

namespace loch::fabric::verbs {

enum class EventEffect : std::uint8_t {
  none,       // the event is counted and has no other effect
  receiver,   // the receiving end of a queue pair broke, because of what its peer sent
  symptom,    // a failure that the run may survive; the run's report names it
  port_down,  // a failure that the run survives only if the port comes back
  fatal,      // the run ends
};

[[nodiscard]] EventEffect effect_of(ibv_event_type type);
// The event's name in libibverbs, such as "IBV_EVENT_PORT_ERR".
[[nodiscard]] std::string_view event_name(ibv_event_type type);
// Whether the event names a queue pair.
[[nodiscard]] bool is_of_queue_pair(ibv_event_type type);

}  // namespace loch::fabric::verbs
