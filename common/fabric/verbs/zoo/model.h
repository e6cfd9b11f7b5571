// The emulated devices as data: the properties that each reports, the limits that it enforces, and the order
// in which it moves bytes.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace loch::fabric::verbs::zoo {

// What ibv_query_qp_data_in_order answers for a queue pair: 1 if WRITEs are placed in address order, else 0.
enum class InOrder : std::uint8_t {
  never,   // the answer is always 0, as from libibverbs if the provider lacks the function
  in_rts,  // the answer is 1 in state ready to send (RTS), else 0, as from libmlx5
  always,
};

// Which other accesses an atomic of the emulated device is really atomic against, whatever the device
// reports.
enum class Scope : std::uint8_t {
  none,  // atomic against nothing: the word is read and then written separately
  nic,   // atomic against other atomics of the same device
  node,  // against atomics of the same device and against the CPU's instructions
};

// The kinds of requests that can be set to take effect before a WRITE that was posted in front of them.
enum class Kind : std::uint8_t { write, read, atomic, send };
inline constexpr std::size_t kinds_count = 4;

inline constexpr std::uint32_t pkeys_most = 3;

// One emulated device. Its sizes are reported by ibv_query_device and are the limits when objects are created
// and requests posted.
struct DeviceModel {
  const char* name = "";  // the name that ibv_get_device_name returns
  ibv_node_type node = IBV_NODE_CA;
  ibv_transport_type transport = IBV_TRANSPORT_IB;
  std::uint32_t vendor = 0x02c9, part = 0;
  std::uint8_t link = IBV_LINK_LAYER_ETHERNET;
  ibv_port_state state = IBV_PORT_ACTIVE;
  bool requires_grh = false;  // true: an InfiniBand port that routes by GID alone (IBV_QPF_GRH_REQUIRED)
  std::uint32_t mtu_bytes = 4096;
  // ibv_port_attr's codes: speed 32 is EDR per lane, width 2 is four lanes
  std::uint8_t speed = 32, width = 2;
  std::uint16_t pkeys[pkeys_most] = {0xffff};  // P_Key table, ended by 0; highest bit: full member
  bool has_vlan_gid = false;  // whether the GIDs of a VLAN interface come first in the GID table
  bool rc = true, uc = true, ud = true;
  ibv_atomic_cap atomics = IBV_ATOMIC_HCA;
  bool reverses_replies = false;  // whether the old word of an atomic arrives with its bytes reversed
  InOrder in_order = InOrder::in_rts;
  bool shuffles = false;  // whether a message's 64-byte lines are placed and fetched in random order
  int max_srq = 65536, max_srq_wr = 32767;
  int max_qp_wr = 32768, max_sge = 30, max_cqe = 4194303, max_rd_atomic = 16;
  std::uint32_t max_inline = 828;
  bool has_domains = true;  // whether the device has ibv_alloc_td and ibv_alloc_parent_domain
  // Properties in which the emulated device deviates from what it reports (docs/zoo.md).
  Scope scope = Scope::node;
  // `unit`: aligned bytes that a READ fetches indivisibly; `write_unit`: those that a WRITE places
  // indivisibly; 0: as many as the CPU copies at once.
  std::uint32_t unit = 0, write_unit = 0;
  // ns that an access pauses between two units of `unit` or write_unit bytes, and an atomic between reading
  // and writing the word
  std::uint32_t pause_ns = 0;
  // Probability that a WRITE is overtaken by the next request on its queue pair, if that is of this kind.
  double overtaken[kinds_count] = {};
  // probability that a reliable request is executed late, as if its first transmission had been lost
  double retransmit = 0;
  // a WRITE may become visible to the CPU up to this many us after its completion
  std::uint32_t late_us = 0;
  bool has_extended = true;  // whether the device has ibv_create_cq_ex, and ibv_create_qp_ex with ibv_wr_*
};

// An emulated machine: the devices that ibv_get_device_list returns, in their order.
struct Machine {
  std::string_view name;        // value of the environment variable LOCH_ZOO that selects this machine
  std::string_view stands_for;  // the card or host that this machine emulates
  std::string_view source;      // where the emulated properties come from
  std::span<const DeviceModel> devices;
};

// Whether the model's WRITEs may be visible later than they complete.
[[nodiscard]] inline bool holds_writes(const DeviceModel& model) {
  for (const double each : model.overtaken) {
    if (each > 0) return true;
  }
  return model.late_us != 0;
}

[[nodiscard]] std::span<const Machine> machines();
[[nodiscard]] const Machine* find_machine(std::string_view name);

}  // namespace loch::fabric::verbs::zoo
