// Chooses and opens an RDMA device and its port, and finds by trial which properties the device does not
// report.
#include "common/fabric/verbs/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace loch::fabric::verbs {
namespace {

constexpr std::uint32_t send_depth = 128, receive_depth = 512;
constexpr std::uint32_t inline_wanted[] = {256, 220, 188, 128, 64, 0};
constexpr std::uint32_t software_vendor = 0xffffff;  // the vendor id that Soft-RoCE (rxe) reports
constexpr std::size_t most_gids = 256;

struct DeviceList {
  DeviceList() : list(ibv_get_device_list(&count)) {}
  ~DeviceList() {
    if (list != nullptr) ibv_free_device_list(list);
  }
  int count = 0;
  ibv_device** list;
};

GidKind kind_of(std::uint32_t type) {
  if (type == IBV_GID_TYPE_ROCE_V2) return GidKind::roce_v2;
  return type == IBV_GID_TYPE_ROCE_V1 ? GidKind::roce_v1 : GidKind::infiniband;
}

std::vector<GidEntry> gids_of(ibv_context* context, std::uint32_t port) {
  std::vector<ibv_gid_entry> table(most_gids);
  const ssize_t count = ibv_query_gid_table(context, table.data(), table.size(), 0);
  std::vector<GidEntry> entries;
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& from = table[static_cast<std::size_t>(i)];
    if (from.port_num != port) continue;
    GidEntry entry{from.gid_index, {}, kind_of(from.gid_type)};
    std::copy(std::begin(from.gid.raw), std::end(from.gid.raw), entry.gid.begin());
    entries.push_back(entry);
  }
  return entries;
}

Result<ibv_device*> find_device(const DeviceList& devices, const std::string& wanted) {
  if (devices.list == nullptr || devices.count == 0) {
    return fail(
        ErrorCode::unsupported,
        "verbs: this machine has no RDMA device (./loch doctor says what is missing; ./loch softroce -- "
        "COMMAND runs it where there is one)");
  }
  std::string names;
  for (int i = 0; i < devices.count; ++i) {
    const char* name = ibv_get_device_name(devices.list[i]);
    if (wanted.empty() || wanted == name) return devices.list[i];
    names += fmt::format("{}{}", i == 0 ? "" : ", ", name);
  }
  return fail(ErrorCode::invalid_argument,
              fmt::format("--device {}: no such device; there are: {}", wanted, names));
}

bool has_active_port(ibv_device* device) {
  const Owned<ibv_context, ibv_close_device> context(ibv_open_device(device));
  ibv_device_attr attributes{};
  if (context == nullptr || ibv_query_device(context.get(), &attributes) != 0) return false;
  for (std::uint8_t port = 1; port <= attributes.phys_port_cnt; ++port) {
    ibv_port_attr state{};
    if (ibv_query_port(context.get(), port, &state) == 0 && state.state == IBV_PORT_ACTIVE) return true;
  }
  return false;
}

// The device named `wanted`, or the first device with an active port if `wanted` is empty.
Result<ibv_device*> pick_device(const DeviceList& devices, const std::string& wanted) {
  if (wanted.empty()) {
    for (int i = 0; i < devices.count; ++i) {
      if (has_active_port(devices.list[i])) return devices.list[i];
    }
  }
  return find_device(devices, wanted);
}

}  // namespace

Result<std::unique_ptr<Device>> Device::open(const DeviceChoice& choice) {
  const DeviceList devices;
  LOCH_ASSIGN(ibv_device * found, pick_device(devices, choice.device));
  std::unique_ptr<Device> device(new Device);
  const std::string name = ibv_get_device_name(found);
  device->context_.reset(ibv_open_device(found));
  if (device->context_ == nullptr) {
    return fail(ErrorCode::unsupported,
                fmt::format("verbs: cannot open {}: {} (are /dev/infiniband/uverbs* open to you?)", name,
                            std::strerror(errno)));
  }
  if (found->transport_type == IBV_TRANSPORT_IWARP) {
    return fail(
        ErrorCode::unsupported,
        fmt::format("verbs: {} is an iWARP device: no UC, no UD, no atomics; use InfiniBand or RoCE", name));
  }
  device->pd_.reset(ibv_alloc_pd(device->context()));
  if (device->pd_ == nullptr)
    return fail(ErrorCode::exhausted,
                fmt::format("verbs: {}: no protection domain: {}", name, std::strerror(errno)));
  device->capabilities_.fabric = "verbs";
  device->capabilities_.device = name;
  LOCH_TRY(device->choose_port(choice));
  LOCH_TRY(device->choose_gid(choice));
  LOCH_TRY(device->query());
  LOCH_TRY(device->try_queue_pairs());
  LOCH_TRY(device->try_atomics());
  return device;
}

Result<> Device::choose_port(const DeviceChoice& choice) {
  ibv_device_attr attributes{};
  if (ibv_query_device(context(), &attributes) != 0)
    return fail(ErrorCode::unsupported, fmt::format("verbs: {} does not answer", capabilities_.device));
  for (std::uint8_t number = 1; number <= attributes.phys_port_cnt; ++number) {
    if (choice.port != 0 && choice.port != number) continue;
    ibv_port_attr state{};
    if (ibv_query_port(context(), number, &state) != 0 || state.state != IBV_PORT_ACTIVE) continue;
    port_.number = number;
    port_.is_roce = state.link_layer == IBV_LINK_LAYER_ETHERNET;
    port_.address.lid = state.lid;
    port_.address.mtu_bytes = mtu_bytes(state.active_mtu);
    return {};
  }
  return fail(ErrorCode::unsupported,
              choice.port == 0
                  ? fmt::format("verbs: no port of {} is active (cable, subnet manager, or ip link set … up)",
                                capabilities_.device)
                  : fmt::format("--port {}: not an active port of {}, which has {}", choice.port,
                                capabilities_.device, attributes.phys_port_cnt));
}

Result<> Device::choose_gid(const DeviceChoice& choice) {
  const std::vector<GidEntry> entries = gids_of(context(), port_.number);
  std::optional<GidEntry> chosen;
  if (choice.gid_index < 0) {
    chosen = choose(entries);
  } else {
    for (const GidEntry& entry : entries) {
      if (entry.index == static_cast<std::uint32_t>(choice.gid_index)) chosen = entry;
    }
  }
  if (!chosen && choice.gid_index >= 0) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--gid-index {}: port {} of {} has no such GID", choice.gid_index, port_.number,
                            capabilities_.device));
  }
  if (!chosen && port_.is_roce) {
    return fail(ErrorCode::unsupported,
                fmt::format("verbs: port {} of {} has no GID: give its network interface an IP address",
                            port_.number, capabilities_.device));
  }
  if (chosen) {
    port_.gid_index = static_cast<std::uint8_t>(chosen->index);
    port_.address.gid = chosen->gid;
  }
  return {};
}

Result<> Device::query() {
  ibv_device_attr attributes{};
  if (ibv_query_device(context(), &attributes) != 0)
    return fail(ErrorCode::unsupported, fmt::format("verbs: {} does not answer", capabilities_.device));
  Capabilities& can = capabilities_;
  if (attributes.vendor_id == software_vendor) {
    can.device += " (Soft-RoCE)";
    is_software_ = true;
    port_.ack_timeout = 17;      // an ACK may take 0.54 s: 4.096 us * 2^17
    port_.not_ready_timer = 28;  // code for 164 ms: the receiver may be waiting for a core
  }
  can.atomic_scope = attributes.atomic_cap == IBV_ATOMIC_GLOB  ? AtomicScope::global
                     : attributes.atomic_cap == IBV_ATOMIC_HCA ? AtomicScope::nic
                                                               : AtomicScope::none;
  can.max_rd_atomic = static_cast<std::uint32_t>(std::clamp(attributes.max_qp_init_rd_atom, 1, 128));
  // A request is sent seven times (six retries), and a NIC may wait up to four times its ACK timeout for each
  // (InfiniBand 1.3, 9.7.6.1.3).
  can.request_lifetime = 7 * 4 * (Nanos{4'096} << port_.ack_timeout);
  rd_atomic_in_ = static_cast<std::uint32_t>(std::clamp(attributes.max_qp_rd_atom, 1, 128));
  can.mtu_bytes = port_.address.mtu_bytes;
  can.send_queue_depth =
      std::min<std::uint32_t>(send_depth, static_cast<std::uint32_t>(attributes.max_qp_wr));
  can.recv_queue_depth =
      std::min<std::uint32_t>(receive_depth, static_cast<std::uint32_t>(attributes.max_srq_wr));
  can.datagram_queue_pairs = ud_lanes_most;  // a worker makes one UD queue pair for each of its lanes
  most_completions_ = attributes.max_cqe;
  return {};
}

// Creates queue pairs to find out which transports the device has, how many bytes it takes inline, and
// whether it places WRITEs in order.
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
  can.rc = false;
  for (const std::uint32_t bytes : inline_wanted) {
    auto made = attempt(Transport::rc, bytes);
    if (!made) {
      reason = made.error().message;
      continue;
    }
    can.rc = true;
    can.max_inline_bytes = std::min(made->inline_bytes(), inline_wanted[0]);
    can.in_order_placement = ibv_query_qp_data_in_order(made->get(), IBV_WR_RDMA_WRITE, 0) == 1;
    break;
  }
  if (!can.rc) return fail(ErrorCode::unsupported, reason);
  can.uc = attempt(Transport::uc, can.max_inline_bytes).has_value();
  can.ud = attempt(Transport::ud, can.max_inline_bytes).has_value();
  return {};
}

// Fetch-and-adds zero to a word of its own memory, and looks whether the old word arrives as it is or with
// its bytes reversed.
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
  LOCH_ASSIGN(QueuePair qp, QueuePair::create(pd(), {Transport::rc, cq.get(), cq.get(), nullptr, 1, 1, 0}));
  LOCH_TRY(qp.restart(port_));
  const LinkRecord self{{}, qp.qpn(), qp.psn()};
  LOCH_TRY(qp.receive_from(port_, address(), self, 1));
  LOCH_TRY(qp.make_sender(port_, 1));
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
