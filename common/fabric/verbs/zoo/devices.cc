// The table of emulated machines. Each entry names the card that it stands for and the source of the card's
// properties. No property was measured; where the source does not give one, that of `mlx5-ib` is used.
#include <algorithm>
#include <array>

#include "common/fabric/verbs/zoo/model.h"

namespace loch::fabric::verbs::zoo {
namespace {

constexpr std::uint8_t infiniband = IBV_LINK_LAYER_INFINIBAND;
constexpr std::uint32_t mellanox = 0x02c9, intel = 0x8086, broadcom = 0x14e4, microsoft = 0x1414,
                        amazon = 0x1d0f;

constexpr DeviceModel mlx5_ib[] = {{.name = "zoo_mlx5_0", .part = 4123, .link = infiniband}};
constexpr DeviceModel mlx5_vf[] = {
    {.name = "zoo_mlx5_0", .part = 4124, .link = infiniband, .requires_grh = true}};
constexpr DeviceModel mlx5_roce[] = {{.name = "zoo_mlx5_0", .part = 4125, .mtu_bytes = 1024}};
constexpr DeviceModel mlx5_lag[] = {{.name = "zoo_mlx5_bond_0",
                                     .part = 4125,
                                     .mtu_bytes = 4096,
                                     .has_vlan_gid = true,
                                     .in_order = InOrder::never}};
constexpr DeviceModel mlx5_adaptive[] = {
    {.name = "zoo_mlx5_0", .part = 4129, .in_order = InOrder::never, .shuffles = true}};
constexpr DeviceModel mlx5_big_endian[] = {{.name = "zoo_mlx5_0",
                                            .part = 4113,
                                            .link = infiniband,
                                            .reverses_replies = true,
                                            .has_domains = false,
                                            .has_extended = false}};
constexpr DeviceModel mlx4[] = {{.name = "zoo_mlx4_0",
                                 .part = 4099,
                                 .link = infiniband,
                                 .mtu_bytes = 2048,
                                 .in_order = InOrder::never,
                                 .max_srq_wr = 16383,
                                 .max_qp_wr = 16351,
                                 .max_inline = 928,
                                 .has_domains = false,
                                 .has_extended = false}};
constexpr DeviceModel irdma[] = {{.name = "zoo_irdma0",
                                  .vendor = intel,
                                  .part = 0x1592,
                                  .mtu_bytes = 1024,
                                  .uc = false,
                                  .atomics = IBV_ATOMIC_NONE,
                                  .in_order = InOrder::never,
                                  .max_srq = 0,
                                  .max_srq_wr = 0,
                                  .max_qp_wr = 4063,
                                  .max_sge = 13,
                                  .max_cqe = 1048574,
                                  .max_rd_atomic = 32,
                                  .max_inline = 101,
                                  .has_domains = false,
                                  .has_extended = false}};
constexpr DeviceModel mana[] = {{.name = "zoo_mana_0",
                                 .vendor = microsoft,
                                 .part = 2,
                                 .mtu_bytes = 4096,
                                 .uc = false,
                                 .ud = false,
                                 .atomics = IBV_ATOMIC_NONE,
                                 .in_order = InOrder::never,
                                 .max_srq = 0,
                                 .max_srq_wr = 0,
                                 .max_qp_wr = 4096,
                                 .max_sge = 8,
                                 .max_cqe = 8191,
                                 .max_rd_atomic = 8,
                                 .max_inline = 0,
                                 .has_domains = false,
                                 .has_extended = false}};
constexpr DeviceModel bnxt[] = {{.name = "zoo_bnxt_re0",
                                 .vendor = broadcom,
                                 .part = 0x1750,
                                 .mtu_bytes = 1024,
                                 .uc = false,
                                 .in_order = InOrder::never,
                                 .max_srq_wr = 8191,
                                 .max_qp_wr = 8191,
                                 .max_sge = 6,
                                 .max_cqe = 65535,
                                 .max_rd_atomic = 126,
                                 .max_inline = 96,
                                 .has_domains = false,
                                 .has_extended = false}};
constexpr DeviceModel efa[] = {{.name = "zoo_efa_0",
                                .node = IBV_NODE_UNSPECIFIED,
                                .transport = IBV_TRANSPORT_UNSPECIFIED,
                                .vendor = amazon,
                                .part = 0xefa1,
                                .link = IBV_LINK_LAYER_UNSPECIFIED,
                                .rc = false,
                                .uc = false,
                                .atomics = IBV_ATOMIC_NONE,
                                .in_order = InOrder::never,
                                .max_srq = 0,
                                .max_srq_wr = 0,
                                .max_qp_wr = 4096,
                                .max_sge = 2,
                                .max_cqe = 32768,
                                .max_rd_atomic = 0,
                                .max_inline = 32,
                                .has_domains = false}};
constexpr DeviceModel iwarp[] = {{.name = "zoo_cxgb4_0",
                                  .node = IBV_NODE_RNIC,
                                  .transport = IBV_TRANSPORT_IWARP,
                                  .vendor = 0x1425,
                                  .mtu_bytes = 1024,
                                  .uc = false,
                                  .ud = false,
                                  .atomics = IBV_ATOMIC_NONE,
                                  .in_order = InOrder::never,
                                  .has_domains = false,
                                  .has_extended = false}};
constexpr DeviceModel small[] = {{.name = "zoo_small_0",
                                  .mtu_bytes = 1024,
                                  .in_order = InOrder::always,
                                  .max_srq = 64,
                                  .max_srq_wr = 128,
                                  .max_qp_wr = 64,
                                  .max_sge = 1,
                                  .max_cqe = 511,
                                  .max_rd_atomic = 1,
                                  .max_inline = 28,
                                  .has_domains = false,
                                  .has_extended = false}};
constexpr DeviceModel no_srq[] = {{.name = "zoo_nosrq_0", .max_srq = 0, .max_srq_wr = 0}};
constexpr DeviceModel two_nics[] = {
    {.name = "zoo_mlx5_0", .part = 4120, .mtu_bytes = 1024, .speed = 2, .width = 1},
    {.name = "zoo_mlx5_1", .part = 4124, .link = infiniband, .pkeys = {0x7fff, 0x8005}}};

constexpr auto table = std::to_array<Machine>({
    {"mlx5-ib", "ConnectX-4 to ConnectX-7, InfiniBand", "rdma-core 44, providers/mlx5", mlx5_ib},
    {"mlx5-vf", "ConnectX-6 virtual function, InfiniBand port that requires a GRH",
     "rdma-core 44, mlx5_create_ah; the port flag IBV_QPF_GRH_REQUIRED", mlx5_vf},
    {"mlx5-roce", "ConnectX-6 Dx, RoCE v2, Ethernet MTU 1500", "rdma-core 44, providers/mlx5", mlx5_roce},
    {"mlx5-lag", "ConnectX-6 Dx, two ports bonded, tagged and untagged interfaces",
     "rdma-core 44, providers/mlx5; order: unknown, so none is claimed", mlx5_lag},
    {"mlx5-adaptive", "ConnectX-7 with adaptive routing: bytes of a message in any order",
     "the manual page of ibv_query_qp_data_in_order: without its 1, no order", mlx5_adaptive},
    {"mlx5-be", "Connect-IB whose atomics reply in big-endian order",
     "MLNX_OFED, IB_ATOMIC_HCA_REPLY_BE of mlx5_ib", mlx5_big_endian},
    {"mlx4", "ConnectX-3, InfiniBand; order unknown, as the provider has no answer",
     "rdma-core 44, providers/mlx4", mlx4},
    {"irdma", "Intel E810, RoCE v2: no UC, no SRQ, no atomics",
     "Linux 6, drivers/infiniband/hw/irdma, before its third generation", irdma},
    {"mana", "Microsoft Azure network adapter: RC alone for users, no SRQ, no inline data",
     "Linux 6, drivers/infiniband/hw/mana", mana},
    {"bnxt", "Broadcom P5, RoCE v2: no UC, 96 bytes inline", "rdma-core 44, providers/bnxt_re", bnxt},
    {"efa", "Amazon EFA: UD and a reliable datagram of its own, no RC, no UC, no atomics",
     "rdma-core 44, providers/efa", efa},
    {"iwarp", "Chelsio T6, iWARP", "rdma-core 44, providers/cxgb4", iwarp},
    {"small", "no card: every limit as low as a provider may set it", "InfiniBand 1.3 sets no lower ones",
     small},
    {"no-srq", "no card: mlx5 without shared receive queues", "max_srq is 0 where there are none", no_srq},
    {"azure-hb",
     "Azure HB virtual machine: Ethernet first in the list, InfiniBand second, P_Key table that begins "
     "with a limited membership",
     "Microsoft Learn, HPC virtual machines with accelerated networking", two_nics},
});
static_assert(mellanox == DeviceModel{}.vendor);

}  // namespace

std::span<const Machine> machines() { return table; }

const Machine* find_machine(std::string_view name) {
  const auto found = std::ranges::find(table, name, &Machine::name);
  return found == table.end() ? nullptr : &*found;
}

}  // namespace loch::fabric::verbs::zoo
