// Changing the state of a queue pair and checking its attributes, as ib_core and the drivers do; small
// conversions.
#pragma once

#include "common/fabric/verbs/zoo/nic.h"

namespace loch::fabric::verbs::zoo {

[[nodiscard]] ibv_mtu mtu_of(std::uint32_t bytes);
// An errno, 0 where the path may be used from that port.
[[nodiscard]] int check_path(const Nic& nic, const ibv_ah_attr& path);
// ibv_modify_qp: an errno, 0 when the queue pair has changed.
[[nodiscard]] int modify(QueuePair& qp, const ibv_qp_attr& attributes, int mask);
// The queue pair that an event is about; null: of no queue pair.
[[nodiscard]] QueuePair* queue_pair_of(const ibv_async_event& event);
[[nodiscard]] bool is_of(const ibv_async_event& event, const QueuePair& qp);

}  // namespace loch::fabric::verbs::zoo
