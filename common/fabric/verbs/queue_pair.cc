// Creates queue pairs and moves them through their states.
#include "common/fabric/verbs/queue_pair.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/base/check.h"

namespace loch::fabric::verbs {
namespace {

constexpr std::uint32_t psn_mask = (1u << 24) - 1;
// Number of retries of a request that gets no ACK, and of a SEND whose receiver has no buffer posted. On
// Soft-RoCE (rdma_rxe), the largest value of these fields, 7, means retries without limit for both.
constexpr std::uint8_t retries = 6, not_ready_retries = 6;
// Lets packets pass up to 64 routers; a hop limit of 1 would keep them within the subnet.
constexpr std::uint8_t hop_limit = 64;

ibv_qp_type type_of(Transport transport) {
  if (transport == Transport::rc) return IBV_QPT_RC;
  return transport == Transport::uc ? IBV_QPT_UC : IBV_QPT_UD;
}

// Creates a queue pair whose requests can be posted by ibv_wr_*. Returns null if the device has none for
// these operations, or refuses this one.
ibv_qp* create_extended(ibv_pd* pd, ibv_qp_init_attr& plain, std::uint64_t operations) {
  ibv_qp_init_attr_ex asked{};
  asked.send_cq = plain.send_cq;
  asked.recv_cq = plain.recv_cq;
  asked.srq = plain.srq;
  asked.cap = plain.cap;
  asked.qp_type = plain.qp_type;
  asked.pd = pd;
  asked.send_ops_flags = operations;
  asked.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  ibv_qp* const made = ibv_create_qp_ex(pd->context, &asked);
  if (made != nullptr) plain.cap = asked.cap;
  return made;
}

Error refused(const QueuePairSpec& spec, int reason) {
  std::string text =
      fmt::format("verbs: cannot create a {} queue pair: {}", name(spec.transport), std::strerror(reason));
  if (reason == ENOMEM) text += " (memlock limit, or the device has no more: ./loch doctor)";
  if (reason == EOPNOTSUPP || reason == EINVAL)
    text += fmt::format(" (does the device have {}?)", name(spec.transport));
  return {reason == ENOMEM ? ErrorCode::exhausted : ErrorCode::unsupported, std::move(text)};
}

// Whether two InfiniBand addresses are in one subnet: the first half of a GID is the subnet's prefix.
bool is_of_subnet(const Address& one, const Address& other) {
  return std::equal(one.gid.begin(), one.gid.begin() + 8, other.gid.begin());
}

}  // namespace

std::uint64_t send_operations(Transport transport, bool has_atomics) {
  std::uint64_t all = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  if (transport == Transport::ud) return all;
  all |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
  if (transport == Transport::uc) return all;
  all |= IBV_QP_EX_WITH_RDMA_READ;
  return has_atomics ? all | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD : all;
}

void give_up(std::string_view why) {
  fmt::print(stderr, "verbs: the device has failed: {}\n", why);
  std::_Exit(1);
}

std::uint32_t random_psn() {
  std::uint32_t bits = 0;
  LOCH_CHECK(getrandom(&bits, sizeof bits, 0) == sizeof bits, "getrandom: {}", std::strerror(errno));
  return bits & psn_mask;
}

ibv_mtu to_ibv_mtu(std::uint32_t bytes) {
  if (bytes >= 4096) return IBV_MTU_4096;
  if (bytes >= 2048) return IBV_MTU_2048;
  if (bytes >= 1024) return IBV_MTU_1024;
  return bytes >= 512 ? IBV_MTU_512 : IBV_MTU_256;
}

std::uint32_t mtu_bytes(ibv_mtu mtu) { return 128u << mtu; }

ibv_ah_attr path_to(const Port& port, const Address& address) {
  ibv_ah_attr path{};
  path.port_num = port.number;
  path.dlid = address.lid;
  path.sl = port.service_level;
  const bool has_lid = address.lid != 0;  // EFA ports have GIDs and no LID although they are not RoCE
  if (port.is_roce || !has_lid || port.address.needs_grh || address.needs_grh ||
      !is_of_subnet(port.address, address)) {
    path.is_global = 1;
    std::copy(address.gid.begin(), address.gid.end(), path.grh.dgid.raw);
    path.grh.sgid_index = port.gid_index;
    path.grh.traffic_class = port.traffic_class;
    path.grh.flow_label = port.flow_label;
    path.grh.hop_limit = hop_limit;
  }
  return path;
}

Result<QueuePair> QueuePair::create(ibv_pd* pd, const QueuePairSpec& spec) {
  ibv_qp_init_attr attributes{};
  attributes.qp_type = type_of(spec.transport);
  attributes.send_cq = spec.send_cq;
  attributes.recv_cq = spec.recv_cq;
  attributes.srq = spec.srq;
  attributes.cap.max_send_wr = spec.send_depth;
  attributes.cap.max_send_sge = 1;
  attributes.cap.max_recv_wr = spec.srq == nullptr ? spec.recv_depth : 0;
  attributes.cap.max_recv_sge = 1;
  attributes.cap.max_inline_data = spec.inline_bytes;
  QueuePair made;
  if (spec.operations != 0) made.qp_.reset(create_extended(pd, attributes, spec.operations));
  if (made.qp_ != nullptr) {
    made.extended_ = ibv_qp_to_qp_ex(made.get());
  } else {
    made.qp_.reset(ibv_create_qp(pd, &attributes));
  }
  if (made.qp_ == nullptr) return std::unexpected(refused(spec, errno));
  made.is_reset_ = true;
  made.transport_ = spec.transport;
  made.inline_bytes_ = attributes.cap.max_inline_data;
  return made;
}

Result<> QueuePair::modify(ibv_qp_attr& attributes, int mask, const char* to) {
  const int reason = ibv_modify_qp(qp_.get(), &attributes, mask);
  if (reason == 0) return {};
  return fail(ErrorCode::unavailable, fmt::format("verbs: {} queue pair {} cannot go to {}: {}",
                                                  name(transport_), qpn(), to, std::strerror(reason)));
}

Result<> QueuePair::reset() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  LOCH_TRY(modify(attributes, IBV_QP_STATE, "RESET"));
  is_reset_ = true;
  return {};
}

Result<> QueuePair::restart(const Port& port) {
  if (!is_reset_) LOCH_TRY(reset());
  is_reset_ = false;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = port.number;
  attributes.pkey_index = port.pkey_index;
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  if (transport_ != Transport::ud) {
    // The regions restrict remote access; the queue pair permits all the verbs of its transport.
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    if (transport_ == Transport::rc)
      attributes.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    mask |= IBV_QP_ACCESS_FLAGS;
  } else {
    mask |= IBV_QP_QKEY;
  }
  psn_ = random_psn();
  return modify(attributes, mask, "INIT");
}

Result<> QueuePair::receive_from(const Port& port, const Address& address, const LinkRecord& peer,
                                 std::uint32_t incoming) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = to_ibv_mtu(std::min(port.address.mtu_bytes, address.mtu_bytes));
  attributes.dest_qp_num = peer.qpn;
  attributes.rq_psn = peer.psn;
  attributes.ah_attr = path_to(port, address);
  int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (transport_ == Transport::rc) {
    attributes.max_dest_rd_atomic = static_cast<std::uint8_t>(incoming);
    attributes.min_rnr_timer = port.not_ready_timer;
    mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  }
  return modify(attributes, mask, "ready to receive");
}

Result<> QueuePair::make_sender(const Port& port, std::uint32_t outgoing) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = psn_;
  int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (transport_ == Transport::rc) {
    attributes.timeout = port.ack_timeout;
    attributes.retry_cnt = retries;
    attributes.rnr_retry = not_ready_retries;
    attributes.max_rd_atomic = static_cast<std::uint8_t>(outgoing);
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  return modify(attributes, mask, "ready to send");
}

Result<> QueuePair::make_datagram(const Port& port, std::uint32_t qkey) {
  LOCH_TRY(restart(port));
  ibv_qp_attr attributes{};
  attributes.qkey = qkey;
  LOCH_TRY(modify(attributes, IBV_QP_QKEY, "the run's QKey"));
  attributes = {};
  attributes.qp_state = IBV_QPS_RTR;
  LOCH_TRY(modify(attributes, IBV_QP_STATE, "ready to receive"));
  return make_sender(port, 0);
}

Result<> QueuePair::cut() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  return modify(attributes, IBV_QP_STATE, "ERROR");
}

}  // namespace loch::fabric::verbs
