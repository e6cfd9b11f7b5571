// The switch drops no message: if a port's buffer is full, the switch pauses the link of the node at that
// port.
#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

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

Picos SwitchPort::falls_to(Picos from, Picos level) const {
  // what is in the buffer falls along straight lines, from corner to corner: where a message begins to leave,
  // and where it has left
  std::vector<Picos> corners;
  for (const Waiting& each : waiting) {
    corners.push_back(each.gone - each.amount);
    corners.push_back(each.gone);
  }
  std::ranges::sort(corners);
  Picos at = from, before = filled(from);
  if (before <= level) return from;
  for (const Picos corner : corners) {
    if (corner <= at) continue;
    const Picos after = filled(corner);
    if (after <= level) return at + (corner - at) * (before - level) / (before - after);
    at = corner;
    before = after;
  }
  return at;
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
    const Picos until_fits = sim.timing.port_buffer - packet;
    const Picos resumed =
        sim.timing.is_pause_plain
            ? port.drained(now, filled - until_fits)
            : port.falls_to(now, std::min(sim.timing.port_xon, until_fits)) + sim.timing.pause_delay;
    wait = std::max<Nanos>(1, nanos_up(resumed - now));
    hold(sender, now, wait);
  }
  request->paused_seen = port.paused_ns;
  sim.queue.push(request, sim.now() + wait);
  return true;
}

namespace {
// Holds the link of a sender whose message, the last one of its port's list, does not fit into the buffer,
// until the switch has let the link go on and this has taken effect; what waits in the meantime falls to the
// threshold. Returns for how long the output port has nothing of the message to send.
Picos pause_by_thresholds(const Simulation& sim, SimNode& sender, Picos now, Picos turn, Picos span,
                          Picos delay) {
  SwitchPort::Waiting& message = sender.port.waiting.back();
  const Picos room = message.amount;
  message.gone = now + turn + room;  // no more of the message comes until the link goes on
  const Picos resumed = sender.port.falls_to(now + turn, sim.timing.port_xon) + sim.timing.pause_delay - now;
  hold(sender, now + delay, nanos_up(resumed - room));
  const Picos starved = port_starved(turn, room, resumed);
  // What is left when the link goes on stays in the buffer until the end of the message, since as much comes
  // in as goes out.
  const Picos rest = still_waiting(now + resumed, message.gone, room);
  message.amount -= rest;
  message.gone -= rest;
  if (rest > 0) sender.port.waiting.push_back({now + turn + span + starved, rest});
  return starved;
}

// Queues a message at the switch at the time `now`: its transmission begins `turn` picoseconds later. If the
// sender's link is paused for it, the pause begins `delay` picoseconds from now. Returns for how long the
// transmission stands still because of the pause.
Picos wait_there(const Simulation& sim, SimNode& sender, Picos now, Picos turn, Picos span, Picos delay) {
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
  if (held > 0 && !sim.timing.is_pause_plain) return pause_by_thresholds(sim, sender, now, turn, span, delay);
  if (held > 0) hold(sender, now + delay, nanos_up(held));
  return 0;
}
}  // namespace

Picos Stages::wait_at_switch(Simulation& sim, SimNode& sender, Picos turn, Picos span) {
  return turn > 0 ? wait_there(sim, sender, sim.now_ps(), turn, span, 0) : 0;
}

Picos Stages::meet_port(Simulation& sim, SimNode& sender, const SimNode& receiver, Picos turn, Picos span) {
  if (!sim.is_divisible()) return wait_at_switch(sim, sender, turn, span);
  if (turn > 0) sim.notify({sim.now_ps() + sim.timing.network, turn, span, sender.id, receiver.id}, sender);
  return 0;
}

void SwitchPort::hear(const Notice& notice) {
  auto place = notices.end();
  while (place != notices.begin()) {
    const Notice& before = *std::prev(place);
    if (std::pair(before.at, before.receiver) <= std::pair(notice.at, notice.receiver)) break;
    --place;
  }
  notices.insert(place, notice);
}

void Stages::take_notices(Simulation& sim, SimNode& node) {
  std::vector<SwitchPort::Notice>& notices = node.port.notices;
  std::size_t heard = 0;
  for (; heard < notices.size() && notices[heard].at <= sim.now_ps(); ++heard) {
    const SwitchPort::Notice& notice = notices[heard];
    wait_there(sim, node, notice.at - sim.timing.network, notice.turn, notice.span, sim.timing.network);
  }
  notices.erase(notices.begin(), notices.begin() + static_cast<std::ptrdiff_t>(heard));
}

}  // namespace loch::fabric::sim
