// The devices of the zoo as data: what each says of itself, what it refuses, and how it moves bytes.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace loch::fabric::verbs::zoo {

// What ibv_query_qp_data_in_order answers.
enum class InOrder : std::uint8_t {
  never,   // also a provider without the function: libibverbs answers 0 for it
  in_rts,  // libmlx5: 1 of a queue pair that is ready to send, 0 in every other state
  always,
};

inline constexpr std::uint32_t pkeys_most = 3;

// One device. Sizes are what ibv_query_device reports, and the limits that creating and posting keep to.
struct DeviceModel {
  const char* name = "";  // ibv_get_device_name
  ibv_node_type node = IBV_NODE_CA;
  ibv_transport_type transport = IBV_TRANSPORT_IB;
  std::uint32_t vendor = 0x02c9, part = 0;
  std::uint8_t link = IBV_LINK_LAYER_ETHERNET;
  ibv_port_state state = IBV_PORT_ACTIVE;
  bool requires_grh = false;  // an InfiniBand port that routes by GID alone (IBV_QPF_GRH_REQUIRED)
  std::uint32_t mtu_bytes = 4096;
  std::uint8_t speed = 32, width = 2;          // as ibv_port_attr: 32 is EDR a lane, width 2 is four lanes
  std::uint16_t pkeys[pkeys_most] = {0xffff};  // 0 ends the table; the highest bit says full member
  bool has_vlan_gid = false;                   // a tagged interface's GIDs stand before the untagged ones
  bool rc = true, uc = true, ud = true;
  ibv_atomic_cap atomics = IBV_ATOMIC_HCA;
  bool reverses_replies = false;  // the old word of an atomic lands with its bytes reversed
  InOrder in_order = InOrder::in_rts;
  bool shuffles = false;  // 64-byte lines are placed and fetched in random order
  int max_srq = 65536, max_srq_wr = 32767;
  int max_qp_wr = 32768, max_sge = 30, max_cqe = 4194303, max_rd_atomic = 16;
  std::uint32_t max_inline = 828;
  bool has_domains = true;   // ibv_alloc_td, ibv_alloc_parent_domain
  bool has_extended = true;  // ibv_create_cq_ex, ibv_create_qp_ex with ibv_wr_*
};

// A machine: what its list of devices holds, in its order.
struct Machine {
  std::string_view name;        // LOCH_ZOO=name
  std::string_view stands_for;  // the card or the host
  std::string_view source;      // where the properties come from
  std::span<const DeviceModel> devices;
};

[[nodiscard]] std::span<const Machine> machines();
[[nodiscard]] const Machine* find_machine(std::string_view name);

}  // namespace loch::fabric::verbs::zoo
