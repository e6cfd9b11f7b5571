// Opens an RDMA device and its port, and finds out by trial the properties that the device does not report.
#include "common/fabric/verbs/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "common/fabric/verbs/ports.h"

namespace loch::fabric::verbs {
namespace {

constexpr std::uint32_t send_depth = 128, receive_depth = 512;
constexpr std::uint32_t inline_wanted[] = {256, 220, 188, 128, 96, 64, 32, 16, 0};
constexpr std::uint32_t software_vendor = 0xffffff;  // vendor ID of Soft-RoCE (rxe) devices

}  // namespace

Result<std::unique_ptr<Device>> Device::open(const Chosen& chosen, const VerbsConfig& config) {
  const DeviceList devices;
  const std::string& name = chosen.device;
  ibv_device* found = devices.find(name);
  if (found == nullptr) return fail(ErrorCode::unavailable, fmt::format("verbs: {} is gone", name));
  std::unique_ptr<Device> device(new Device);
  device->context_.reset(ibv_open_device(found));
  if (device->context_ == nullptr) {
    return fail(ErrorCode::unsupported,
                fmt::format("verbs: cannot open {}: {} (are /dev/infiniband/uverbs* open to you?)", name,
                            std::strerror(errno)));
  }
  device->pd_.reset(ibv_alloc_pd(device->context()));
  if (device->pd_ == nullptr)
    return fail(ErrorCode::exhausted,
                fmt::format("verbs: {}: no protection domain: {}", name, std::strerror(errno)));
  device->capabilities_.fabric = "verbs";
  device->capabilities_.device = name;
  device->name_ = name;
  LOCH_TRY(device->take_port(chosen));
  device->port_.service_level = config.service_level;
  device->port_.flow_label = config.flow_label;
  LOCH_TRY(device->query());
  LOCH_TRY(device->try_queue_pairs());
  if (!config.post_send_alone) device->try_extended();
  if (device->capabilities_.rc) {
    LOCH_TRY(device->ask_order());
    LOCH_TRY(device->try_atomics());
  } else {
    device->capabilities_.atomic_scope = AtomicScope::none;
  }
  return device;
}

Result<> Device::take_port(const Chosen& chosen) {
  ibv_port_attr state{};
  port_.number = static_cast<std::uint8_t>(chosen.port);
  if (ibv_query_port(context(), port_.number, &state) != 0 || state.state != IBV_PORT_ACTIVE)
    return fail(ErrorCode::unavailable,
                fmt::format("verbs: port {} of {} is down", chosen.port, chosen.device));
  port_.is_roce = chosen.is_roce;
  port_.pkey_index = chosen.pkey_index;
  port_.address.lid = state.lid;
  port_.address.mtu_bytes = mtu_bytes(state.active_mtu);
  port_.address.needs_grh = (state.flags & IBV_QPF_GRH_REQUIRED) != 0;
  if (!chosen.gid) return {};
  port_.gid_index = static_cast<std::uint8_t>(chosen.gid->index);
  port_.address.gid = chosen.gid->gid;
  capabilities_.link = chosen.gid->kind == GidKind::roce_v2   ? LinkFormat::roce_v2
                       : chosen.gid->kind == GidKind::roce_v1 ? LinkFormat::roce_v1
                                                              : LinkFormat::infiniband;
  return {};
}

Result<> Device::query() {
  ibv_device_attr attributes{};
  if (ibv_query_device(context(), &attributes) != 0)
    return fail(ErrorCode::unsupported, fmt::format("verbs: {} does not answer", capabilities_.device));
  firmware_ = std::string(attributes.fw_ver, strnlen(attributes.fw_ver, sizeof attributes.fw_ver));
  Capabilities& can = capabilities_;
  if (attributes.vendor_id == software_vendor) {
    can.device += " (Soft-RoCE)";
    is_software_ = true;
    port_.ack_timeout = 17;  // an ACK may take 0.54 s: 4.096 us * 2^17
    // RNR timer code for 164 ms: a receiver without a posted buffer may be waiting for a core
    port_.not_ready_timer = 28;
  }
  can.atomic_scope = attributes.atomic_cap == IBV_ATOMIC_GLOB  ? AtomicScope::global
                     : attributes.atomic_cap == IBV_ATOMIC_HCA ? AtomicScope::nic
                                                               : AtomicScope::none;
  can.max_rd_atomic = static_cast<std::uint32_t>(std::clamp(attributes.max_qp_init_rd_atom, 1, 128));
  // A request is sent up to seven times (six retries). After each time, a NIC may wait up to four times its
  // ACK timeout (InfiniBand 1.3, 9.7.6.1.3).
  can.request_lifetime = 7 * 4 * (Nanos{4'096} << port_.ack_timeout);
  rd_atomic_in_ = static_cast<std::uint32_t>(std::clamp(attributes.max_qp_rd_atom, 1, 128));
  can.mtu_bytes = port_.address.mtu_bytes;
  can.send_queue_depth =
      std::min<std::uint32_t>(send_depth, static_cast<std::uint32_t>(attributes.max_qp_wr));
  // The depth of the receive queues has to suit UD queue pairs and, if the device has them, shared receive
  // queues.
  const int recv_most = attributes.max_srq_wr > 0 ? std::min(attributes.max_qp_wr, attributes.max_srq_wr)
                                                  : attributes.max_qp_wr;
  can.recv_queue_depth = std::min<std::uint32_t>(receive_depth, static_cast<std::uint32_t>(recv_most));
  can.datagram_queue_pairs = ud_lanes_most;  // the UD queue pairs of one worker
  most_completions_ = attributes.max_cqe;
  return {};
}

// Creates queue pairs to find out which transports the device has and how many bytes it takes inline, and a
// shared receive queue to find out whether the device has any.
Result<> Device::try_queue_pairs() {
  const CompletionQueue cq(ibv_create_cq(context(), 16, nullptr, nullptr, 0));
  if (cq == nullptr)
    return fail(ErrorCode::exhausted, fmt::format("verbs: no completion queue: {}", std::strerror(errno)));
  Capabilities& can = capabilities_;
  std::string reason;
  const auto attempt = [&](Transport transport, std::uint32_t inline_bytes) -> Result<QueuePair> {
    return QueuePair::create(pd(),
                             {transport, cq.get(), cq.get(), nullptr, can.send_queue_depth, 1, inline_bytes});
  };
  const auto try_inline = [&](Transport transport) {
    for (const std::uint32_t bytes : inline_wanted) {
      auto made = attempt(transport, bytes);
      if (made) {
        can.max_inline_bytes = std::min(made->inline_bytes(), inline_wanted[0]);
        return true;
      }
      reason = made.error().message;
    }
    return false;
  };
  can.rc = try_inline(Transport::rc);
  if (!can.rc && !try_inline(Transport::ud)) return fail(ErrorCode::unsupported, reason);
  can.uc = can.rc && attempt(Transport::uc, can.max_inline_bytes).has_value();
  can.ud = attempt(Transport::ud, can.max_inline_bytes).has_value();
  ibv_srq_init_attr shared{};
  shared.attr.max_wr = can.recv_queue_depth;
  shared.attr.max_sge = 1;
  can.receives_connected = SharedReceiveQueue(ibv_create_srq(pd(), &shared)) != nullptr;
  return {};
}

// Finds out for which transports the device's library has ibv_wr_* with all operations that requests need. On
// Soft-RoCE they are not used: its doorbell is a system call, beside which what they save does not count.
void Device::try_extended() {
  const Capabilities& can = capabilities_;
  const CompletionQueue cq(ibv_create_cq(context(), 4, nullptr, nullptr, 0));
  if (is_software_ || cq == nullptr) return;
  for (const auto& [has, transport] : {std::pair{can.rc, Transport::rc}, std::pair{can.uc, Transport::uc},
                                       std::pair{can.ud, Transport::ud}}) {
    if (!has) continue;
    const std::uint64_t all = send_operations(transport, can.atomic_scope != AtomicScope::none);
    const auto made = QueuePair::create(
        pd(), {transport, cq.get(), cq.get(), nullptr, can.send_queue_depth, 1, can.max_inline_bytes, all});
    if (made && made->extended() != nullptr) operations_[static_cast<std::size_t>(transport)] = all;
  }
}

// Creates a queue pair that is connected to itself and ready to send.
Result<QueuePair> Device::connect_to_itself(Transport transport, ibv_cq* cq) const {
  LOCH_ASSIGN(QueuePair qp, QueuePair::create(pd(), {transport, cq, cq, nullptr, 1, 1, 0}));
  LOCH_TRY(qp.restart(port_));
  const LinkRecord self{{}, qp.qpn(), qp.psn()};
  LOCH_TRY(qp.receive_from(port_, address(), self, 1));
  LOCH_TRY(qp.make_sender(port_, 1));
  return qp;
}

// Asks the device whether it places the bytes of a message in the order of their addresses. That is a
// property of a connected queue pair: libmlx5 answers "no" for one that is not ready to send. WRITEs have to
// be in order on RC and, if the device has it, on UC. Every process asks its own device; open_together()
// (opening.cc) combines the answers.
Result<> Device::ask_order() {
  const CompletionQueue cq(ibv_create_cq(context(), 4, nullptr, nullptr, 0));
  if (cq == nullptr)
    return fail(ErrorCode::exhausted, fmt::format("verbs: no completion queue: {}", std::strerror(errno)));
  Capabilities& can = capabilities_;
  const auto keeps_order = [](const QueuePair& qp, ibv_wr_opcode verb) {
    return ibv_query_qp_data_in_order(qp.get(), verb, 0) == 1;
  };
  LOCH_ASSIGN(const QueuePair reliable, connect_to_itself(Transport::rc, cq.get()));
  can.in_order_reads = keeps_order(reliable, IBV_WR_RDMA_READ);
  can.in_order_placement = keeps_order(reliable, IBV_WR_RDMA_WRITE);
  if (!can.uc || !can.in_order_placement) return {};
  LOCH_ASSIGN(const QueuePair unreliable, connect_to_itself(Transport::uc, cq.get()));
  can.in_order_placement = keeps_order(unreliable, IBV_WR_RDMA_WRITE);
  return {};
}

WorkerDomain Device::make_worker_domain() const {
  WorkerDomain made;
  ibv_td_init_attr thread{};
  made.thread.reset(ibv_alloc_td(context(), &thread));
  if (made.thread == nullptr) return made;
  ibv_parent_domain_init_attr parent{};
  parent.pd = pd();
  parent.td = made.thread.get();
  made.domain.reset(ibv_alloc_parent_domain(context(), &parent));
  if (made.domain == nullptr) {
    const int reason = errno;
    made.thread.reset();
    errno = reason;
  }
  return made;
}

CompletionQueue Device::make_private_queue(int entries, ibv_pd* domain) const {
  ibv_cq_init_attr_ex asked{};
  asked.cqe = static_cast<std::uint32_t>(entries);
  asked.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  asked.parent_domain = domain;
  // Providers may omit locks for the flag SINGLE_THREADED (some only in the extended polling functions) or
  // for a parent domain. Some providers refuse a parent domain here; they get SINGLE_THREADED alone.
  for (const std::uint32_t mask : {std::uint32_t{IBV_CQ_INIT_ATTR_MASK_FLAGS} | IBV_CQ_INIT_ATTR_MASK_PD,
                                   std::uint32_t{IBV_CQ_INIT_ATTR_MASK_FLAGS}}) {
    if (domain == nullptr && (mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0) continue;
    asked.comp_mask = mask;
    if (ibv_cq_ex* made = ibv_create_cq_ex(context(), &asked); made != nullptr)
      return CompletionQueue(ibv_cq_ex_to_cq(made));
  }
  return CompletionQueue(ibv_create_cq(context(), entries, nullptr, nullptr, 0));
}

// Executes a fetch-and-add of zero on a word of this process, to find out whether the device returns the old
// word as it is or with its bytes reversed.
Result<> Device::try_atomics() {
  if (capabilities_.atomic_scope == AtomicScope::none) return {};
  constexpr std::uint64_t pattern = 0x0102030405060708;
  alignas(64) std::uint64_t words[2] = {pattern, 0};
  const CompletionQueue cq(ibv_create_cq(context(), 4, nullptr, nullptr, 0));
  const MemoryRegion memory(
      ibv_reg_mr(pd(), words, sizeof words, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC));
  if (cq == nullptr || memory == nullptr) {
    return fail(ErrorCode::exhausted,
                fmt::format("verbs: cannot register memory: {} (memlock limit: ./loch doctor)",
                            std::strerror(errno)));
  }
  LOCH_ASSIGN(QueuePair qp, connect_to_itself(Transport::rc, cq.get()));
  ibv_sge landing{reinterpret_cast<std::uintptr_t>(&words[1]), 8, memory->lkey};
  ibv_send_wr request{}, *bad = nullptr;
  request.sg_list = &landing;
  request.num_sge = 1;
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.atomic.remote_addr = reinterpret_cast<std::uintptr_t>(&words[0]);
  request.wr.atomic.rkey = memory->rkey;
  if (const int reason = ibv_post_send(qp.get(), &request, &bad); reason != 0)
    return fail(ErrorCode::unsupported, fmt::format("verbs: {}: an atomic cannot be posted: {}",
                                                    capabilities_.device, std::strerror(reason)));
  ibv_wc done{};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (ibv_poll_cq(cq.get(), 1, &done) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      (void)qp.cut();
      return fail(ErrorCode::unavailable,
                  fmt::format("verbs: {} does not reach itself by {} (GID {}): is its network interface up?",
                              capabilities_.device, to_text(address().gid), port_.gid_index));
    }
    std::this_thread::yield();
  }
  const std::uint64_t seen = std::atomic_ref(words[1]).load();
  swaps_atomic_replies_ = seen == std::byteswap(pattern);
  if (done.status != IBV_WC_SUCCESS || (seen != pattern && !swaps_atomic_replies_))
    capabilities_.atomic_scope = AtomicScope::none;
  return {};
}

}  // namespace loch::fabric::verbs
