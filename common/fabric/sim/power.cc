// Computes a node's watts from the busy time of its cores and the traffic of its NIC.
#include "common/fabric/sim/power.h"

namespace loch::fabric::sim {

PowerDraw power_draw(const PowerProfile& profile, const CpuUsage& cpu, const NicUsage& nic) {
  PowerDraw draw;
  if (cpu.span <= 0) return draw;
  const double span_ns = static_cast<double>(cpu.span);
  const double span_s = span_ns * 1e-9;
  draw.idle_w = profile.idle_w;
  // In idle periods that are too short for any idle state, a core spins and draws the power of a busy core.
  draw.busy_w = profile.core_busy_w * static_cast<double>(cpu.busy_ns + cpu.idle_shallow_ns) / span_ns;
  for (std::size_t i = 0; i < idle_states; ++i) {
    draw.sleeping_w +=
        profile.core_busy_w * profile.idle[i].power_fraction * static_cast<double>(cpu.idle_ns[i]) / span_ns;
  }
  draw.wake_w = profile.core_wake_j * static_cast<double>(cpu.wake_ups) / span_s;
  draw.package_w = profile.package_active_w * static_cast<double>(cpu.package_awake_ns) / span_ns;
  draw.nic_w = profile.nic_byte_nj * 1e-9 * nic.wire_bytes / span_s + profile.nic_busy_w * nic.utilization;
  return draw;
}

}  // namespace loch::fabric::sim
