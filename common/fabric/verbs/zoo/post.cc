// The data path of the emulated libibverbs as a program calls it: posting and polling.
#include <cerrno>
#include <cstring>

#include "common/fabric/verbs/zoo/extended.h"
#include "common/fabric/verbs/zoo/hub.h"
#include "common/fabric/verbs/zoo/nic.h"

namespace loch::fabric::verbs::zoo {
namespace {

bool is_allowed(ibv_qp_type type, ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
      return true;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return type != IBV_QPT_UD;
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return type == IBV_QPT_RC;
    default:
      return false;
  }
}

bool can_be_inline(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE ||
         opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

// The checks of a provider library when a request is posted. Returns 0 or an errno. Called under send_mutex.
int check(const QueuePair& qp, const SendRequest& request) {
  const ibv_qp_state state = qp.at.load(std::memory_order_relaxed);
  if (state == IBV_QPS_RESET || state == IBV_QPS_INIT || state == IBV_QPS_RTR) return EINVAL;
  if (!is_allowed(qp.qp_base.qp_type, request.opcode) || request.slices.size() > qp.cap.max_send_sge)
    return EINVAL;
  const bool is_atomic =
      request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  if (is_atomic && qp.nic->model().atomics == IBV_ATOMIC_NONE) return EOPNOTSUPP;
  if ((request.flags & IBV_SEND_INLINE) != 0 &&
      (!can_be_inline(request.opcode) || request.inline_data.size() > qp.cap.max_inline_data))
    return EINVAL;
  const std::uint32_t taken = qp.posted - qp.retired.load(std::memory_order_relaxed);
  return taken >= qp.ring.size() ? ENOMEM : 0;
}

void read_request(const QueuePair& qp, const ibv_send_wr& from, SendRequest& to) {
  to.id = from.wr_id;
  to.opcode = from.opcode;
  to.flags = from.send_flags;
  to.immediate = from.imm_data;
  to.slices.assign(from.sg_list, from.sg_list + from.num_sge);
  to.inline_data.clear();
  if ((from.send_flags & IBV_SEND_INLINE) != 0) {
    for (const ibv_sge& slice : to.slices) {
      // The CPU reads inline data during the post, without any check of keys. Other threads may write to
      // these bytes at the same time, so fetch() loads them atomically.
      const std::size_t at = to.inline_data.size();
      to.inline_data.resize(at + slice.length);
      fetch(qp.nic->model(), slice.addr, std::span(to.inline_data).subspan(at));
    }
  }
  if (qp.is_datagram()) {
    const auto* handle = static_cast<const AddressHandle*>(from.wr.ud.ah);
    to.path = handle->path;
    to.path_domain = static_cast<Domain*>(handle->pd);
    to.to_qpn = from.wr.ud.remote_qpn;
    to.to_qkey = from.wr.ud.remote_qkey;
  } else if (from.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || from.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    to.address = from.wr.atomic.remote_addr;
    to.rkey = from.wr.atomic.rkey;
    to.compare = from.wr.atomic.compare_add;
    to.swap = from.wr.atomic.swap;
  } else {
    to.address = from.wr.rdma.remote_addr;
    to.rkey = from.wr.rdma.rkey;
  }
}

// Adds a request to the send queue. Returns 0 or an errno. Called under send_mutex.
int add(QueuePair& qp, SendRequest& request) {
  if (const int reason = check(qp, request); reason != 0) return reason;
  if (const int reason = hub().fault(Call::request); reason != 0) return reason;
  const std::uint64_t delay = hub().settings.delay_ns;
  request.is_resent = false;
  request.due = delay == 0 ? 0 : now() + static_cast<Nanos>(hub().random() % delay);
  // A queue pair executes its requests in order, so a request is due no earlier than the one posted before
  // it.
  if (delay != 0 && qp.posted != qp.acked)
    request.due = std::max(request.due, qp.ring[(qp.posted - 1) % qp.ring.size()].due);
  std::swap(qp.ring[qp.posted % qp.ring.size()], request);
  ++qp.posted;
  return 0;
}

int post_send(ibv_qp* base, ibv_send_wr* requests, ibv_send_wr** bad) {
  auto& qp = *reinterpret_cast<QueuePair*>(base);
  int reason = hub().fault(Call::post_send);
  if (qp.is_building)
    complain("queue pair %u: ibv_post_send between ibv_wr_start and ibv_wr_complete", base->qp_num);
  *bad = requests;
  {
    const std::scoped_lock lock(qp.send_mutex);
    thread_local SendRequest read;
    for (; reason == 0 && *bad != nullptr; *bad = (*bad)->next) {
      if ((*bad)->num_sge < 0 || static_cast<std::uint32_t>((*bad)->num_sge) > qp.cap.max_send_sge) {
        reason = EINVAL;
        break;
      }
      read_request(qp, **bad, read);
      reason = add(qp, read);
      if (reason != 0) break;
    }
    advance(qp);
  }
  hub().settle();
  return reason;
}

int post_recv(ibv_qp* base, ibv_recv_wr* requests, ibv_recv_wr** bad) {
  auto& qp = *reinterpret_cast<QueuePair*>(base);
  int reason = hub().fault(Call::post_recv);
  const std::scoped_lock lock(qp.receive_mutex);
  for (*bad = requests; reason == 0 && *bad != nullptr; *bad = (*bad)->next) {
    reason = qp.at.load() == IBV_QPS_RESET || base->srq != nullptr ? EINVAL : qp.receives.add(**bad);
    if (reason != 0) break;
  }
  if (qp.at.load() == IBV_QPS_ERR) flush_receives(qp);
  return reason;
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* requests, ibv_recv_wr** bad) {
  int reason = hub().fault(Call::post_srq_recv);
  for (*bad = requests; reason == 0 && *bad != nullptr; *bad = (*bad)->next) {
    reason = static_cast<SharedReceives*>(srq)->queue.add(**bad);
    if (reason != 0) break;
  }
  return reason;
}

int poll_cq(ibv_cq* cq, int most, ibv_wc* to) {
  if (hub().fault(Call::poll_cq) != 0) return -1;
  auto& queue = *reinterpret_cast<CompletionQueue*>(cq);
  if (const int count = poll(queue, most, to); count != 0) return count;
  hub().assist();
  return poll(queue, most, to);
}

}  // namespace

Nic& nic_of(ibv_context* context) {
  return *reinterpret_cast<Nic*>(reinterpret_cast<std::byte*>(context) - offsetof(verbs_context, context));
}

int post_all(QueuePair& qp, std::span<SendRequest> requests) {
  int reason = hub().fault(Call::wr_complete);
  {
    const std::scoped_lock lock(qp.send_mutex);
    const std::uint32_t before = qp.posted;
    for (SendRequest& request : requests) {
      if (reason == 0) reason = add(qp, request);
    }
    // advance() below executes requests; until then, posted ones can be withdrawn
    if (reason != 0) qp.posted = before;
    advance(qp);
  }
  hub().settle();
  return reason;
}

void set_data_path(ibv_context& context) {
  context.ops.post_send = post_send;
  context.ops.post_recv = post_recv;
  context.ops.post_srq_recv = post_srq_recv;
  context.ops.poll_cq = poll_cq;
  context.ops.req_notify_cq = [](ibv_cq*, int) { return 0; };
}

}  // namespace loch::fabric::verbs::zoo
