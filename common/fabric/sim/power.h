// The power of a node, computed from the activity of its cores and its NIC. Calibrated on two measured
// points, an idle node and a fully loaded one; everything between them is a prediction.
//
//   watts of the node
//     = idle + core_busy · (busy cores + idle cores by the power fraction of their idle state)
//       + package_active · awake packages + core_wake · wake-ups/s + NIC by bytes and utilization
//
// idle, core_busy and package_active in watts, and core_wake in joules, are fields of PowerProfile.
//
// The relation between load and power is not linear, because a core that sleeps briefly only reaches a
// shallow idle state, and because one awake core keeps its socket's uncore awake. A polling thread costs as
// much as a computing one.
#pragma once

#include "common/fabric/sim/cpu.h"
#include "common/fabric/sim/cpu_profile.h"

namespace loch::fabric::sim {

// Traffic of the node's NIC over the same span as CpuUsage.
struct NicUsage {
  double wire_bytes = 0;   // bytes on the wire, sent and received together
  double utilization = 0;  // mean fraction of the NIC's rate that was used, 0 to 1
};

// Mean watts over CpuUsage::span, by cause; all zero if the span is 0.
struct PowerDraw {
  double idle_w = 0;  // power of the idle node
  // power of cores that poll, compute, switch, wake, or idle too briefly for an idle state
  double busy_w = 0;
  double sleeping_w = 0;  // power of cores in idle states that are not the deepest
  double wake_w = 0;      // the energy of the cores' wake-ups, per second
  double package_w = 0;   // power of the uncores of the sockets of which some core is awake
  double nic_w = 0;
  [[nodiscard]] double total_w() const { return idle_w + busy_w + sleeping_w + wake_w + package_w + nic_w; }
};

[[nodiscard]] PowerDraw power_draw(const PowerProfile& profile, const CpuUsage& cpu, const NicUsage& nic);

}  // namespace loch::fabric::sim
