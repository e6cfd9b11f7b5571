// The switch drops no message: if a port's buffer is full, the switch pauses the link of the node at that
// port.
#include <algorithm>
#include <limits>

#include "common/fabric/sim/simulation.h"
#include "common/fabric/sim/stage_costs.h"

namespace loch::fabric::sim {

Picos SwitchPort::filled(Picos now) const {
  Picos sum = 0;
  for (const Waiting& each : waiting) sum += still_waiting(now, each.gone, each.amount);
  return sum;
}

void SwitchPort::remove_left(Picos now) {
  std::erase_if(waiting, [now](const Waiting& each) { return each.gone <= now; });
  at_most = 0;
  for (const Waiting& each : waiting) at_most += each.amount;
}

Picos SwitchPort::drained(Picos now, Picos amount) const {
  Picos soonest = std::numeric_limits<Picos>::max();
  for (const Waiting& each : waiting)
    soonest = std::min(soonest, part_gone_at(now, each.gone, each.amount, amount));
  return soonest;
}

namespace {
void hold(SimNode& sender, Picos now, Nanos span) {
  sender.port.paused_ns += static_cast<std::uint32_t>(span);
  sender.port.paused += picos(span);
  sender.egress.free_at = std::max(sender.egress.free_at, now) + picos(span);
}
}  // namespace

bool Stages::paused_at_switch(SimRequest* request, SimNode& sender) {
  Simulation& sim = *request->sim;
  SwitchPort& port = sender.port;
  // the unsigned difference is right even if paused_ns has wrapped around at 2^32 ns meanwhile
  Nanos wait = port.paused_ns - request->paused_seen;
  if (wait == 0) {
    const Picos packet = link_span(sim.timing, sim.config.hardware.link.mtu_bytes, 0);
    if (port.at_most + packet <= sim.timing.port_buffer) return false;
    const Picos now = sim.now_ps();
    port.remove_left(now);
    const Picos filled = port.filled(now);
    if (filled + packet <= sim.timing.port_buffer) return false;
    wait = std::max<Nanos>(1, nanos_up(port.drained(now, filled + packet - sim.timing.port_buffer) - now));
    hold(sender, now, wait);
  }
  request->paused_seen = port.paused_ns;
  sim.queue.push(request, sim.now() + wait);
  return true;
}

void Stages::wait_at_switch(Simulation& sim, SimNode& sender, Picos turn, Picos span) {
  if (turn <= 0) return;
  const Picos now = sim.now_ps();
  SwitchPort& port = sender.port;
  // once so many messages are listed, those that have left the buffer are removed before another one is added
  constexpr std::size_t many = 64;
  if (port.waiting.size() >= many) port.remove_left(now);
  Picos room = sim.timing.port_buffer - port.at_most;
  if (room < span) room = sim.timing.port_buffer - port.filled(now);
  const Picos amount = taken_by_port(span, turn, room);
  port.waiting.push_back({now + turn + span, amount});
  port.at_most += amount;
  const Picos held = link_held(span, turn, room);
  if (held > 0) hold(sender, now, nanos_up(held));
}

}  // namespace loch::fabric::sim
