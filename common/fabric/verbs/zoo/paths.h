// Changes the state of a queue pair and checks its attributes as ib_core and the drivers do. Also converts an
// MTU to its code, and finds the queue pair of an event.
#pragma once

#include "common/fabric/verbs/zoo/nic.h"

namespace loch::fabric::verbs::zoo {

[[nodiscard]] ibv_mtu mtu_of(std::uint32_t bytes);
// Returns 0 if the device's port can use the path, else an errno.
[[nodiscard]] int check_path(const Nic& nic, const ibv_ah_attr& path);
// ibv_modify_qp: returns 0 if the queue pair has changed, else an errno.
[[nodiscard]] int modify(QueuePair& qp, const ibv_qp_attr& attributes, int mask);
// The queue pair that an event is about; null for an event of a port or device.
[[nodiscard]] QueuePair* queue_pair_of(const ibv_async_event& event);
[[nodiscard]] bool is_of(const ibv_async_event& event, const QueuePair& qp);

}  // namespace loch::fabric::verbs::zoo
