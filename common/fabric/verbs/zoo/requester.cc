// The requester's side of the emulated NIC: executes posted requests in order, and completes them.
#include <algorithm>
#include <cstring>
#include <utility>

#include "common/fabric/verbs/zoo/hub.h"
#include "common/fabric/verbs/zoo/nic.h"

namespace loch::fabric::verbs::zoo {
namespace {

// For each code of the RNR timer: the microseconds after which a request is sent again to a receiver that had
// no buffer (InfiniBand 1.3, table 45).
constexpr std::uint32_t not_ready_us[32] = {655360, 10,    20,    30,     40,     60,     80,     120,
                                            160,    240,   320,   480,    640,    960,    1280,   1920,
                                            2560,   3840,  5120,  7680,   10240,  15360,  20480,  30720,
                                            40960,  61440, 81920, 122880, 163840, 245760, 327680, 491520};
constexpr Nanos resend_delay = 100'000;  // ns from a lost transmission to the next one
constexpr int for_ever = 7;              // the rnr_retry value that means no limit on retries

ibv_wc_opcode completed(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return IBV_WC_RDMA_WRITE;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return IBV_WC_FETCH_ADD;
    default:
      return IBV_WC_SEND;
  }
}

bool returns_data(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
         opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

SendRequest& oldest(QueuePair& qp) { return qp.ring[qp.acked % qp.ring.size()]; }

void complete(QueuePair& qp, ibv_wc_status status) {
  const SendRequest& request = oldest(qp);
  ++qp.acked;
  qp.sent = std::max(qp.sent, qp.acked);
  qp.answer_by = 0;
  if (status == IBV_WC_SUCCESS && (request.flags & IBV_SEND_SIGNALED) == 0 && !qp.signals_all) return;
  if (hub().swallows()) return;
  Completion completion;
  completion.wc.wr_id = request.id;
  completion.wc.status = status;
  completion.wc.opcode = completed(request.opcode);
  completion.wc.qp_num = qp.qp_base.qp_num;
  completion.sender = &qp;
  completion.retires = qp.acked;
  push(*reinterpret_cast<CompletionQueue*>(qp.qp_base.send_cq), completion);
}

// Completes the oldest request with an error and moves the queue pair to the error state.
void complete_with_error(QueuePair& qp, ibv_wc_status status) {
  {
    const std::scoped_lock lock(qp.receive_mutex);
    qp.at.store(IBV_QPS_ERR, std::memory_order_release);
    flush_receives(qp);
  }
  complete(qp, status);
}

void complete_well(QueuePair& qp) {
  qp.tries_left = qp.attributes.retry_cnt;
  qp.ready_tries_left = qp.attributes.rnr_retry;
  const int planned = hub().fault(Call::completion);
  if (planned != 0) return complete_with_error(qp, static_cast<ibv_wc_status>(planned));
  hub().went_well(qp);
  complete(qp, IBV_WC_SUCCESS);
}

void flush(QueuePair& qp) {
  qp.sent = qp.acked;
  while (qp.acked != qp.posted) complete(qp, IBV_WC_WR_FLUSH_ERR);
}

// Sends all requests again that were sent and are not complete, after `wait` ns.
void go_back(QueuePair& qp, Nanos wait) {
  qp.sent = qp.acked;
  qp.answer_by = 0;
  qp.wait_until = now() + wait;
  hub().look_later(qp.qp_base.qp_num, qp.wait_until);
}

Nanos timeout_of(const QueuePair& qp) { return Nanos{4'096} << qp.attributes.timeout; }

void count(const QueuePair& qp, Counters::Kind kind) { qp.nic->device->counters.add(kind); }

void try_again(QueuePair& qp) {
  count(qp, Counters::Kind::timed_out);
  // An ACK timeout of 0 means no limit of retries: requests without a reply are sent again every second.
  if (qp.attributes.timeout == 0) return go_back(qp, Nanos{1'000'000'000});
  if (qp.tries_left-- <= 0) return complete_with_error(qp, IBV_WC_RETRY_EXC_ERR);
  go_back(qp, timeout_of(qp));
}

Request request_of(const QueuePair& qp, const SendRequest& from, std::uint32_t number, std::size_t length) {
  Request request;
  const ibv_ah_attr& path = qp.is_datagram() ? from.path : qp.attributes.ah_attr;
  request.to = qp.is_datagram() ? find_place(*qp.nic, path) : qp.peer;
  request.from = {hub().wire.self(), qp.nic->device->number, true};
  request.to_qpn = qp.is_datagram() ? from.to_qpn : qp.attributes.dest_qp_num;
  request.from_qpn = qp.qp_base.qp_num;
  request.type = qp.qp_base.qp_type;
  request.opcode = from.opcode;
  request.number = number;
  request.psn = (qp.attributes.sq_psn + number) & psn_mask;
  request.immediate = from.immediate;
  request.address = from.address;
  request.compare = from.compare;
  request.swap = from.swap;
  request.rkey = from.rkey;
  request.length = static_cast<std::uint32_t>(length);
  request.qkey = from.to_qkey;
  request.pkey = qp.nic->model().pkeys[qp.attributes.pkey_index];
  request.slid = qp.nic->lid;
  request.is_global = path.is_global != 0;
  if (request.is_global) {
    request.sgid = qp.nic->gids[path.grh.sgid_index].gid;
    request.dgid = path.grh.dgid;
  }
  return request;
}

// The checks that the requester's own NIC makes before it sends a request; `data` gets the payload.
ibv_wc_status check(const QueuePair& qp, const SendRequest& request, std::vector<std::byte>& data) {
  if (returns_data(request.opcode)) {
    std::uint64_t room = 0;
    for (const ibv_sge& slice : request.slices) {
      if (slice.length != 0 &&
          !find_region({slice.lkey, slice.addr, slice.length, IBV_ACCESS_LOCAL_WRITE, qp.domain}))
        return IBV_WC_LOC_PROT_ERR;
      room += slice.length;
    }
    data.clear();
    return request.opcode != IBV_WR_RDMA_READ && room != 8 ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
  }
  if (!gather(qp, request, data)) return IBV_WC_LOC_PROT_ERR;
  if (!qp.is_datagram()) return IBV_WC_SUCCESS;
  if (data.size() > qp.nic->model().mtu_bytes) return IBV_WC_LOC_LEN_ERR;
  return request.path_domain == qp.domain ? IBV_WC_SUCCESS : IBV_WC_LOC_QP_OP_ERR;
}

std::uint64_t length_of(const SendRequest& request) {
  std::uint64_t length = 0;
  for (const ibv_sge& slice : request.slices) length += slice.length;
  return length;
}

std::uint32_t reads_under_way(QueuePair& qp) {
  std::uint32_t count = 0;
  for (std::uint32_t number = qp.acked; number != qp.sent; ++number)
    count += returns_data(qp.ring[number % qp.ring.size()].opcode) ? 1 : 0;
  return count;
}

// Whether a request must wait for replies to earlier READs and atomics: it has the flag IBV_SEND_FENCE and a
// READ or atomic is outstanding, or it is itself a READ or atomic and max_rd_atomic of them are outstanding.
bool has_to_wait(QueuePair& qp, const SendRequest& request) {
  const std::uint32_t reads = reads_under_way(qp);
  if ((request.flags & IBV_SEND_FENCE) != 0 && reads != 0) return true;
  return returns_data(request.opcode) && reads >= qp.attributes.max_rd_atomic;
}

void send_here(QueuePair& qp, const Request& request, std::span<const std::byte> data) {
  thread_local std::vector<std::byte> back;
  const Reply reply = respond(request, data, back);
  ++qp.sent;
  if (qp.is_reliable()) return take(qp, reply, back);
  complete_well(qp);
}

// Sends a request to another process, or drops it if no port has its destination address.
void send_away(QueuePair& qp, const Request& request, std::span<const std::byte> data) {
  if (request.to.exists) hub().wire.send(request.to.process, request, data);
  ++qp.sent;
  if (!qp.is_reliable()) return complete_well(qp);
  if (qp.answer_by != 0) return;
  qp.answer_by = now() + timeout_of(qp);
  if (!std::exchange(qp.is_looked_at, true)) hub().look_later(qp.qp_base.qp_num, qp.answer_by);
}

}  // namespace

void take(QueuePair& qp, const Reply& reply, std::span<const std::byte> back) {
  const bool is_expected = qp.acked != qp.posted && reply.number == qp.acked &&
                           reply.psn == ((qp.attributes.sq_psn + qp.acked) & psn_mask);
  if (qp.at.load(std::memory_order_relaxed) != IBV_QPS_RTS || !is_expected) return;
  const SendRequest& request = oldest(qp);
  switch (reply.answer) {
    case Answer::done:
      if (returns_data(request.opcode) && !scatter(qp, request.slices, back))
        return complete_with_error(qp, IBV_WC_LOC_PROT_ERR);
      complete_well(qp);
      if (qp.acked != qp.sent) qp.answer_by = now() + timeout_of(qp);
      return;
    case Answer::none:
      return try_again(qp);
    case Answer::not_ready:
      count(qp, Counters::Kind::not_ready);
      if (qp.attributes.rnr_retry != for_ever && qp.ready_tries_left-- <= 0)
        return complete_with_error(qp, IBV_WC_RNR_RETRY_EXC_ERR);
      return go_back(qp, Nanos{1'000} * not_ready_us[reply.not_ready_timer % 32]);
    case Answer::access:
      return complete_with_error(qp, IBV_WC_REM_ACCESS_ERR);
    case Answer::invalid:
      return complete_with_error(qp, IBV_WC_REM_INV_REQ_ERR);
    case Answer::operation:
      return complete_with_error(qp, IBV_WC_REM_OP_ERR);
  }
}

void check_deadline(QueuePair& qp) {
  qp.is_looked_at = false;
  if (qp.answer_by == 0 || qp.acked == qp.sent || qp.at.load(std::memory_order_relaxed) != IBV_QPS_RTS)
    return;
  if (now() < qp.answer_by) {
    qp.is_looked_at = true;
    return hub().look_later(qp.qp_base.qp_num, qp.answer_by);
  }
  try_again(qp);
}

void advance(QueuePair& qp) {
  thread_local std::vector<std::byte> data;
  for (;;) {
    const ibv_qp_state state = qp.at.load(std::memory_order_acquire);
    if (state == IBV_QPS_ERR) return flush(qp);
    if (state != IBV_QPS_RTS || qp.sent == qp.posted) return;
    SendRequest& next = qp.ring[qp.sent % qp.ring.size()];
    const Nanos earliest = std::max(next.due, qp.wait_until);
    if (earliest != 0 && earliest > now()) return hub().look_later(qp.qp_base.qp_num, earliest);
    if (has_to_wait(qp, next)) return;
    if (qp.is_reliable() && !next.is_resent && hub().happens(qp.nic->model().retransmit)) {
      next.is_resent = true;
      count(qp, Counters::Kind::resent);
      qp.wait_until = now() + resend_delay;
      return hub().look_later(qp.qp_base.qp_num, qp.wait_until);
    }
    const ibv_wc_status status = check(qp, next, data);
    if (status != IBV_WC_SUCCESS) {
      if (qp.sent != qp.acked) return;  // requests complete in order: those sent before this one come first
      complete_with_error(qp, status);
      continue;
    }
    const std::size_t length = returns_data(next.opcode) ? length_of(next) : data.size();
    Request request = request_of(qp, next, qp.sent, length);
    const bool is_lost = !qp.is_reliable() && hub().happens(hub().settings.drop);
    if (is_lost && (request.opcode != IBV_WR_RDMA_WRITE || hub().happens(0.5))) {
      ++qp.sent;
      complete_well(qp);
      continue;
    }
    request.loses_tail = is_lost;
    if (request.to.exists && request.to.process == hub().wire.self()) {
      send_here(qp, request, data);
    } else {
      send_away(qp, request, data);
    }
  }
}

}  // namespace loch::fabric::verbs::zoo
