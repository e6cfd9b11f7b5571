// The functions of the emulated libibverbs that a program calls through pointers in ibv_context, not by name:
// the data path's functions, and the extended verbs, which some devices lack.
#pragma once

#include "common/fabric/verbs/zoo/nic.h"

namespace loch::fabric::verbs::zoo {

// Sets the context's pointers for ibv_post_send, ibv_post_recv, ibv_post_srq_recv, ibv_poll_cq and
// ibv_req_notify_cq.
void set_data_path(ibv_context& context);
// Sets the pointers for thread domains, parent domains, and extended completion queues and posting, as far as
// the device has them.
void set_extended(Nic& nic);
// Posts requests that ibv_wr_* calls have built: all of them, or, if one is refused, none. Returns 0 or an
// errno.
[[nodiscard]] int post_all(QueuePair& qp, std::span<SendRequest> requests);

}  // namespace loch::fabric::verbs::zoo
