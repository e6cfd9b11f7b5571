// The states of an emulated queue pair: which attributes each transition requires and allows, and which
// values are valid.
#include "common/fabric/verbs/zoo/paths.h"

#include <cerrno>

#include "common/fabric/verbs/zoo/hub.h"

namespace loch::fabric::verbs::zoo {
namespace {

struct Masks {
  int required = 0, optional = 0;
};

// The attributes required and allowed for each transition, as in ib_core's ib_modify_qp_is_ok for RC, UC and
// UD. required == -1: there is no such transition.
Masks masks_of(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to) {
  const bool is_rc = type == IBV_QPT_RC, is_ud = type == IBV_QPT_UD;
  const int first = IBV_QP_PKEY_INDEX | IBV_QP_PORT | (is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
  const int later = is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS | (is_rc ? IBV_QP_MIN_RNR_TIMER : 0);
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return {};
  if (from == IBV_QPS_RESET && to == IBV_QPS_INIT) return {first, 0};
  if (from == IBV_QPS_INIT && to == IBV_QPS_INIT) return {0, first};
  if (from == IBV_QPS_INIT && to == IBV_QPS_RTR) {
    if (is_ud) return {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY};
    const int connected = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    return {connected | (is_rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0),
            IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS};
  }
  if (from == IBV_QPS_RTR && to == IBV_QPS_RTS) {
    const int reliable = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    return {IBV_QP_SQ_PSN | (is_rc ? reliable : 0), later};
  }
  if (from == IBV_QPS_RTS && (to == IBV_QPS_RTS || to == IBV_QPS_SQD)) return {0, later};
  if (from == IBV_QPS_SQD && (to == IBV_QPS_RTS || to == IBV_QPS_SQD)) return {0, later};
  return {-1, 0};
}

int check_values(const QueuePair& qp, const ibv_qp_attr& given, int mask) {
  const DeviceModel& model = qp.nic->model();
  if ((mask & IBV_QP_PORT) != 0 && given.port_num != 1) return EINVAL;
  if ((mask & IBV_QP_PKEY_INDEX) != 0 &&
      (given.pkey_index >= pkeys_most || model.pkeys[given.pkey_index] == 0))
    return EINVAL;
  if ((mask & IBV_QP_PATH_MTU) != 0 && given.path_mtu > mtu_of(model.mtu_bytes)) return EINVAL;
  const int most = model.max_rd_atomic;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0 && given.max_dest_rd_atomic > most) return EINVAL;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0 && given.max_rd_atomic > most) return EINVAL;
  if ((mask & IBV_QP_RETRY_CNT) != 0 && given.retry_cnt > 7) return EINVAL;
  if ((mask & IBV_QP_RNR_RETRY) != 0 && given.rnr_retry > 7) return EINVAL;
  if ((mask & IBV_QP_TIMEOUT) != 0 && given.timeout > 31) return EINVAL;
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0 && given.min_rnr_timer > 31) return EINVAL;
  return (mask & IBV_QP_AV) != 0 ? check_path(*qp.nic, given.ah_attr) : 0;
}

void set(QueuePair& qp, const ibv_qp_attr& given, int mask) {
  ibv_qp_attr& has = qp.attributes;
  if ((mask & IBV_QP_PKEY_INDEX) != 0) has.pkey_index = given.pkey_index;
  if ((mask & IBV_QP_PORT) != 0) has.port_num = given.port_num;
  if ((mask & IBV_QP_QKEY) != 0) has.qkey = given.qkey;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) has.qp_access_flags = given.qp_access_flags;
  if ((mask & IBV_QP_PATH_MTU) != 0) has.path_mtu = given.path_mtu;
  if ((mask & IBV_QP_DEST_QPN) != 0) has.dest_qp_num = given.dest_qp_num;
  if ((mask & IBV_QP_RQ_PSN) != 0) qp.expected = given.rq_psn & psn_mask;
  if ((mask & IBV_QP_SQ_PSN) != 0) has.sq_psn = given.sq_psn & psn_mask;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0) has.max_dest_rd_atomic = given.max_dest_rd_atomic;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) has.max_rd_atomic = given.max_rd_atomic;
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) has.min_rnr_timer = given.min_rnr_timer;
  if ((mask & IBV_QP_TIMEOUT) != 0) has.timeout = given.timeout;
  if ((mask & IBV_QP_RETRY_CNT) != 0) qp.tries_left = has.retry_cnt = given.retry_cnt;
  if ((mask & IBV_QP_RNR_RETRY) != 0) qp.ready_tries_left = has.rnr_retry = given.rnr_retry;
  if ((mask & IBV_QP_AV) != 0) {
    has.ah_attr = given.ah_attr;
    qp.peer = find_place(*qp.nic, given.ah_attr);
  }
}

// Returns the queue pair to RESET: drops its queued requests and receives without completions, and its
// completions that were not polled.
void reset(QueuePair& qp) {
  qp.posted = qp.sent = qp.acked = 0;
  qp.retired.store(0, std::memory_order_relaxed);
  qp.wait_until = qp.answer_by = 0;
  qp.attributes = {};
  qp.peer = {};
  clean(*reinterpret_cast<CompletionQueue*>(qp.qp_base.send_cq), qp);
  clean(*reinterpret_cast<CompletionQueue*>(qp.qp_base.recv_cq), qp);
  Receive dropped;
  while (qp.qp_base.srq == nullptr && qp.receives.take(dropped)) {
  }
}

}  // namespace

ibv_mtu mtu_of(std::uint32_t bytes) {
  if (bytes >= 4096) return IBV_MTU_4096;
  if (bytes >= 2048) return IBV_MTU_2048;
  if (bytes >= 1024) return IBV_MTU_1024;
  return bytes >= 512 ? IBV_MTU_512 : IBV_MTU_256;
}

// Checks the path by rules of libmlx5's mlx5_create_ah and ib_core's rdma_check_ah_attr. Returns 0 if the
// device can use it, else EINVAL.
int check_path(const Nic& nic, const ibv_ah_attr& path) {
  const DeviceModel& model = nic.model();
  const bool is_ethernet = model.link == IBV_LINK_LAYER_ETHERNET;
  if (path.port_num != 1) return EINVAL;
  if (path.is_global == 0) return is_ethernet || model.requires_grh || path.dlid == 0 ? EINVAL : 0;
  return path.grh.sgid_index < nic.gids.size() ? 0 : EINVAL;
}

int modify(QueuePair& qp, const ibv_qp_attr& given, int mask) {
  const std::scoped_lock sending(qp.send_mutex);
  const std::scoped_lock receiving(qp.receive_mutex);
  const ibv_qp_state from = qp.at.load(std::memory_order_relaxed);
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? given.qp_state : from;
  if ((mask & IBV_QP_CUR_STATE) != 0 && given.cur_qp_state != from) return EINVAL;
  const Masks masks = masks_of(qp.qp_base.qp_type, from, to);
  const int beside = mask & ~(IBV_QP_STATE | IBV_QP_CUR_STATE);
  if (masks.required == -1 || (beside & masks.required) != masks.required ||
      (beside & ~(masks.required | masks.optional)) != 0)
    return EINVAL;
  if (const int reason = check_values(qp, given, mask); reason != 0) return reason;
  if (to == IBV_QPS_RESET) reset(qp);
  set(qp, given, mask);
  qp.at.store(to, std::memory_order_release);
  if (to == IBV_QPS_ERR) {
    flush_receives(qp);
    hub().flush_later(qp.qp_base.qp_num);
  }
  return 0;
}

QueuePair* queue_pair_of(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
    case IBV_EVENT_PATH_MIG_ERR:
      return reinterpret_cast<QueuePair*>(event.element.qp);
    default:
      return nullptr;
  }
}

bool is_of(const ibv_async_event& event, const QueuePair& qp) { return queue_pair_of(event) == &qp; }

}  // namespace loch::fabric::verbs::zoo
