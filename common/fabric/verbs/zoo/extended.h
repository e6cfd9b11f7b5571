// The functions that a program reaches through the context instead of by name: the data path's, and those of
// the extended verbs, which a device has or has not.
#pragma once

#include "common/fabric/verbs/zoo/nic.h"

namespace loch::fabric::verbs::zoo {

// ibv_post_send, ibv_post_recv, ibv_post_srq_recv, ibv_poll_cq, ibv_req_notify_cq.
void set_data_path(ibv_context& context);
// Thread domains and parent domains, extended completion queues and posting.
void set_extended(Nic& nic);
// Posts requests that were built elsewhere: an errno, and in `taken` how many went before it.
[[nodiscard]] int post_all(QueuePair& qp, std::span<SendRequest> requests, std::size_t& taken);

}  // namespace loch::fabric::verbs::zoo
