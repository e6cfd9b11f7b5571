// The responder's side of a request: from its link to memory and back, and what the weak behaviours
// of faults.h make of it.
#include <algorithm>

#include "common/fabric/sim/simulation.h"
#include "common/fabric/sim/tracing.h"
#include "common/fabric/sim/worker.h"

namespace loch::fabric::sim {
namespace {
constexpr std::uint32_t grh_bytes = 40;

bool takes_receive(const SimRequest& r) {
  return r.verb == Verb::send || (r.verb == Verb::write && r.wr->has_immediate);
}
// A small payload that travels in its completion (inline receive).
bool is_in_completion(const SimRequest& r) {
  return r.verb == Verb::send && r.wr->length > 0 &&
         r.wr->length <= r.sim->config.hardware.nic.inline_receive_bytes;
}
// How long the responding units of the NIC are busy with an arriving request.
Picos responding_gap(const SimRequest& r) {
  const Timing& timing = r.sim->timing;
  if (r.verb == Verb::read) {
    return timing.respond[gap_read] + static_cast<Picos>(r.wr->length) * timing.respond_femtos_byte / 1000;
  }
  if (!takes_receive(r)) return timing.respond[gap_of(r.verb)];
  if (r.wr->length == 0) return timing.respond[gap_send];
  return timing.respond[gap_send] + (is_in_completion(r) ? timing.inline_receive : timing.payload);
}
// The context in the responder's NIC: the connection's, or of the datagram queue that it is sent to.
CachedContext* context_at(const SimRequest& r, const SimNode& node) {
  if (r.qp->transport != Transport::ud) return &r.qp->responder;
  const std::uint16_t index = r.wr->peer_worker;
  if (index >= node.workers.size() || node.workers[index] == nullptr) return nullptr;
  return node.workers[index]->datagram_context();
}
}  // namespace

// Draws whether the message is torn, and then into how many pieces, in what order, how far apart. What counts
// are the lines of the memory that begins at `offset`: 8 bytes may lie in two of them.
void Stages::plan_pieces(SimRequest* r, std::uint64_t offset, double probability) {
  Simulation& sim = *r->sim;
  r->pieces = 1;
  r->piece = 0;
  const auto lines = static_cast<std::uint32_t>((offset % 64 + r->wr->length + 63) / 64);
  if (r->wr->length == 0 || lines < 2 || !sim.strikes(probability)) return;
  const std::uint32_t most = std::min({most_pieces, sim.config.faults.torn_chunks, lines});
  if (most < 2) return;
  r->pieces = static_cast<std::uint8_t>(2 + sim.fault_rng.below(most - 1));
  for (std::uint8_t i = 0; i < r->pieces; ++i) r->order[i] = i;
  for (std::uint32_t i = r->pieces; i-- > 1;) {
    std::swap(r->order[i], r->order[sim.fault_rng.below(i + 1)]);
  }
  r->piece_gap = std::max<Nanos>(1, sim.up_to(sim.config.faults.torn_span) / (r->pieces - 1));
}

// The part of the message that is touched now, in memory that begins at `offset`: whole aligned lines of 64
// bytes, but for the message's ends.
void Stages::touch_piece(SimRequest* r, std::uint64_t offset, std::uint32_t* begin, std::uint32_t* end) {
  const std::uint32_t length = r->wr->length;
  if (r->pieces == 1) {
    *begin = 0;
    *end = length;
    return;
  }
  const std::uint64_t skew = offset % 64;  // bytes of the first line that are not the message's
  const std::uint64_t lines = (skew + length + 63) / 64;
  const auto start = [&](std::uint64_t piece) {
    const std::uint64_t at = lines * piece / r->pieces * 64;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(at > skew ? at - skew : 0, length));
  };
  const std::uint32_t which = r->order[r->piece];
  *begin = which == 0 ? 0 : start(which);
  *end = which + 1u == r->pieces ? length : start(which + 1);
}

void Stages::arrive(Event* event) {
  auto* r = static_cast<SimRequest*>(event);
  Simulation& sim = *r->sim;
  const Timing& timing = sim.timing;
  const SimFaults& faults = sim.config.faults;
  QueuePair* qp = r->qp;
  SimNode& node = *r->to;
  SimNode& source = *r->from;
  sim.note(kind_arrive, node.id);
  if (r->is_cancelled) return release(r);
  if (qp->is_fenced) return release(r);
  if (!sim.delivers(source, node) || (sim.has_faults && sim.is_lost(source, node)) ||
      (qp->transport != Transport::ud && node.incarnation != qp->target_incarnation)) {
    return unreachable(r, &Stages::depart);
  }
  if (timing.port_buffer != 0 && r->from != r->to && paused_at_switch(r, source)) return;
  if (sim.now() < node.stalled_until) {
    const Nanos again = node.stalled_until + ++node.stall_order;
    if (qp->blocker == r) qp->blocked_until = again;  // later requests wait too
    sim.queue.push(r, again);
    return;
  }
  if (held_back(r, &Stages::depart)) return;
  if (qp->blocker == r) qp->blocker = nullptr;
  if (qp->transport == Transport::ud && sim.has_faults && !r->is_delayed && sim.strikes(faults.ud_reorder)) {
    r->is_delayed = true;
    return sim.queue.push(r, sim.now() + sim.up_to(faults.ud_reorder_span));
  }
  // Its turns at what it passes: while it queues at one it moves up at the next, so that the longest counts.
  const Picos now = sim.now_ps();
  Picos turn = 0, span = 0;
  if (r->from != r->to) {
    span = timing.link(r->request_wire, request_payload(*r));
    turn = node.ingress.turn(now, span);
    if (timing.port_buffer != 0) wait_at_switch(sim, source, turn, span);
    node.rx_bytes += r->request_wire;
    trace_stage(sim, *r, Track::ingress, node.id, (now + turn) / 1000, span / 1000);
  }
  const Picos done = now + turn + span;  // the whole message has arrived
  turn = std::max(turn, node.responder.turn(now, responding_gap(*r)));
  Picos delay = span + timing.pipeline;
  if (CachedContext* const receiver = context_at(*r, node)) delay += context(sim, node, receiver);
  const std::uint64_t length = r->wr->length;
  if (r->verb != Verb::send && r->wr->remote.id < node.regions.size()) {
    const SimRegion& region = *node.regions[r->wr->remote.id];
    const std::uint64_t touched = std::min<std::uint64_t>(length, region.bytes());
    prefetch_kept(region, r->wr->remote_offset, touched);
    delay += translation(sim, node, region, r->wr->remote_offset, touched);
  }
  const std::uint64_t packet = std::min<std::uint64_t>(length, sim.config.hardware.link.mtu_bytes);
  if (r->verb == Verb::read) {
    turn = std::max(turn, node.pcie_read.turn(now, timing.dma_read(length)));
    delay += timing.pcie_read + timing.dma_read(packet);
  } else if (is_atomic(r->verb)) {
    Server& lock = node.atomic_locks[r->wr->remote_offset & (node.atomic_locks.size() - 1)];
    turn = std::max(turn, lock.turn(now, timing.atomic_hold));
    delay += timing.atomic_hold;
  } else if (is_in_completion(*r)) {
    const Picos entry = timing.dma_write(sim.config.hardware.pcie.completion_bytes + length);
    turn = std::max(turn, node.pcie_write.turn(now, entry));
    delay += entry + timing.pcie_write;
  } else {
    turn = std::max(turn, node.pcie_write.turn(now, timing.dma_write(length)));
    delay += timing.pcie_write + timing.dma_write(packet);
    if (takes_receive(*r)) {
      node.pcie_write.serve(now, timing.completion_entry);
      delay += timing.completion_entry;
    }
  }
  if (takes_receive(*r)) node.pcie_read.serve(now, timing.recv_fetch);  // was fetched before it was needed
  // READs and atomics keep their order among themselves, though WRITEs may overtake them.
  const bool may_be_overtaken = r->verb == Verb::read || is_atomic(r->verb);
  Nanos at = std::max(nanos_up(now + turn + delay) + slow(sim), qp->executed_at + 1);
  if (may_be_overtaken) at = std::max(at, qp->read_at + 1);
  Nanos last = at;
  if (sim.has_faults) {
    if (r->verb == Verb::read) plan_pieces(r, r->wr->remote_offset, faults.torn_read);
    if (r->verb == Verb::write) plan_pieces(r, r->wr->remote_offset, faults.torn_write);
    if (r->verb == Verb::send) plan_pieces(r, 0, faults.torn_write);
    last = at + r->piece_gap * (r->pieces - 1);
    if (r->verb == Verb::write && qp->transport == Transport::rc && !r->wr->has_immediate &&
        r->wr->length > 0 && sim.strikes(faults.late_write)) {
      r->late_by = sim.up_to(faults.late_write_span);
      last += r->late_by;
    }
    if (may_be_overtaken && sim.strikes(faults.overtaking_write)) {
      at += sim.up_to(faults.overtaking_span);
      last = qp->executed_at;
    }
    if (may_be_overtaken) qp->read_at = at;
  }
  if (qp->transport != Transport::ud) qp->executed_at = last;
  trace_stage(sim, *r, Track::responder, node.id, done / 1000, at - done / 1000);
  r->fire = &Stages::execute;
  sim.queue.push(r, at);
}

WcStatus Stages::validate(SimRequest* r) {
  if (r->verb == Verb::send) return WcStatus::success;
  SimNode& node = *r->to;
  const RemoteRegion& remote = r->wr->remote;
  if (remote.id >= node.regions.size()) return WcStatus::remote_access;
  SimRegion* region = node.regions[remote.id].get();
  const SimRegion::Rights& rights = region->rights;
  const std::uint64_t offset = r->wr->remote_offset;
  const bool has_right = r->verb == Verb::read    ? rights.read
                         : r->verb == Verb::write ? rights.write
                                                  : rights.atomic;
  if (remote.rkey != region->rkey || !has_right || offset > region->bytes() ||
      r->wr->length > region->bytes() - offset || (is_atomic(r->verb) && offset % 8 != 0)) {
    return WcStatus::remote_access;
  }
  r->target = region;
  return WcStatus::success;
}

// Gives a SEND (or an immediate) its receive buffer and, when the message is in memory, its receiver
// the news. False: there is none, and the request was dealt with.
bool Stages::take_receive(SimRequest* r) {
  Simulation& sim = *r->sim;
  QueuePair* qp = r->qp;
  SimNode& node = *r->to;
  SimWorker* receiver = r->wr->peer_worker < node.workers.size() ? node.workers[r->wr->peer_worker] : nullptr;
  const bool is_rc = qp->transport == Transport::rc;
  if (receiver == nullptr || receiver->is_dead()) {
    if (!is_rc) return release(r), false;
    return unreachable(r, &Stages::depart), false;
  }
  Ring<PostedReceive>& posted = receiver->receives(qp->transport);
  const bool fails_once = is_rc && r->rnr_tries == 0 && sim.has_faults && sim.strikes(sim.config.faults.rnr);
  if (posted.empty() || fails_once || sim.now() < node.no_buffers_until) {
    if (!is_rc) {
      ++node.lost;
      return release(r), false;
    }
    if (++r->rnr_tries > sim.config.hardware.nic.rnr_retry_count) {
      r->status = WcStatus::rnr_exceeded;
      qp->is_broken = true;
      return respond(r), false;
    }
    qp->blocker = r;
    qp->blocked_until = sim.now() + sim.timing.rnr;
    qp->executed_at =
        std::max(qp->executed_at, qp->blocked_until + static_cast<Nanos>(qp->next_sequence - r->sequence));
    sim.queue.push(r, qp->blocked_until);
    return false;
  }
  const PostedReceive buffer = posted.pop();
  Received message;
  message.from = qp->owner->node();
  message.from_worker = qp->owner->index();
  message.length = r->wr->length;
  message.has_immediate = r->wr->has_immediate;
  message.immediate = r->wr->immediate;
  message.buffer = buffer.buffer;
  message.user = buffer.user;
  if (r->verb == Verb::send && r->wr->length > 0) {
    const std::uint32_t head = qp->transport == Transport::ud ? grh_bytes : 0;
    if (r->wr->length + head > buffer.length) {
      posted.push(buffer);  // unused: the message does not fit
      if (!is_rc) return release(r), false;
      r->status = WcStatus::remote_access;
      qp->is_broken = true;
      return respond(r), false;
    }
    auto* region = static_cast<SimRegion*>(buffer.buffer.region);
    const std::uint64_t to = buffer.buffer.offset + head;
    scatter(r->data, *region, to, 0, r->wr->length);
    SimWorker::memory_changed(region, to, to + r->wr->length);
  }
  receiver->received(qp->transport, message);
  return true;
}

void Stages::touch_memory(SimRequest* r) {
  Simulation& sim = *r->sim;
  const std::uint64_t offset = r->wr->remote_offset;
  std::uint32_t begin = 0, end = 0;
  touch_piece(r, offset, &begin, &end);
  if (r->verb == Verb::read) {
    if (r->data == nullptr) r->data = sim.staging.take(*r->target, offset, r->wr->length);
    gather(r->data, begin, end);
  } else if (r->verb == Verb::write && r->data != nullptr) {
    scatter(r->data, *r->target, offset, begin, end);
    SimWorker::memory_changed(r->target, offset + begin, offset + end);
  } else if (is_atomic(r->verb)) {
    std::byte* word = r->target->at(offset);
    if (!r->has_lock) std::memcpy(&r->result, word, 8);
    const bool swaps = r->verb == Verb::faa || r->result == r->wr->compare;
    const std::uint64_t fresh = r->verb == Verb::faa ? r->result + r->wr->operand : r->wr->operand;
    if (swaps) std::memcpy(word, &fresh, 8);
    if (swaps) SimWorker::memory_changed(r->target, offset, offset + 8);
  }
}

void Stages::execute(Event* event) {
  auto* r = static_cast<SimRequest*>(event);
  Simulation& sim = *r->sim;
  const SimFaults& faults = sim.config.faults;
  QueuePair* qp = r->qp;
  SimNode& node = *r->to;
  sim.note(kind_execute, node.id);
  if (r->is_cancelled) return release(r);
  const bool is_rc = qp->transport == Transport::rc;
  if (qp->is_fenced) return release(r);
  if (!node.is_up || (qp->transport != Transport::ud && node.incarnation != qp->target_incarnation)) {
    return unreachable(r, &Stages::depart);
  }
  // A split atomic that holds the lock ends: whatever stops the NIC meanwhile stops those who wait for it,
  // too.
  if (is_rc && r->piece == 0 && !r->has_lock && held_back(r, &Stages::execute)) return;
  if (qp->blocker == r) qp->blocker = nullptr;
  if (r->is_executed || r->status != WcStatus::success) return respond(r);  // a repeated try
  // What comes behind a refused request is not executed; the requester flushes it.
  if (is_rc && qp->is_broken) {
    r->status = WcStatus::flushed;
    return respond(r);
  }
  if (r->piece == 0 && !r->has_lock) {
    const WcStatus status = validate(r);
    if (status != WcStatus::success) {
      if (!is_rc) return release(r);
      r->status = status;
      qp->is_broken = true;
      return respond(r);
    }
    if (!is_rc && sim.has_faults &&
        sim.strikes(qp->transport == Transport::uc ? faults.uc_loss : faults.ud_loss)) {
      ++node.lost;
      if (r->verb == Verb::write && r->wr->length > 64 && sim.fault_rng.chance(0.5)) {
        r->pieces = 2;  // one half of a lost UC WRITE arrived
        r->order[0] = static_cast<std::uint8_t>(sim.fault_rng.below(2));
        touch_memory(r);
      }
      return release(r);
    }
    if (is_atomic(r->verb) && faults.split_atomics && sim.may_fault()) {
      // It holds the NIC's lock between reading and writing: the lock's server makes others wait,
      // CPU stores and WRITEs do not.
      Server& lock = node.atomic_locks[r->wr->remote_offset & (node.atomic_locks.size() - 1)];
      const Nanos span = sim.up_to(faults.split_span);
      if (r->target->held_until() > sim.now()) return sim.queue.push(r, r->target->held_until());
      lock.serve(sim.now_ps(), picos(span));
      r->target->hold_until(sim.now() + span + 1);
      std::memcpy(&r->result, r->target->at(r->wr->remote_offset), 8);
      r->has_lock = true;
      qp->executed_at = std::max(qp->executed_at, sim.now() + span);
      return sim.queue.push(r, sim.now() + span);
    }
    if (r->late_by > 0 && r->data != nullptr) {
      SimRequest* late = sim.requests.take();  // acknowledged now, visible later
      *late = *r;
      auto* copy = sim.copies.take();
      copy->request = *r->wr;
      late->wr = &copy->request;
      late->owns_wr = late->is_carrier = true;
      r->data = nullptr;
      late->fire = &Stages::land_late;
      ++sim.late_writes;
      sim.queue.push(late, sim.now() + r->late_by);
      r->is_executed = true;
      return respond(r);
    }
  }
  if (r->verb == Verb::send) {
    if (!take_receive(r)) return;
  } else {
    touch_memory(r);
    if (++r->piece < r->pieces) return sim.queue.push(r, sim.now() + r->piece_gap);
    if (takes_receive(*r) && !take_receive(r)) return;
  }
  r->is_executed = true;
  if (!is_rc) return release(r);
  respond(r);
}

void Stages::land_late(Event* event) {
  auto* r = static_cast<SimRequest*>(event);
  Simulation& sim = *r->sim;
  SimNode& node = *r->to;
  sim.note(kind_late, node.id);
  if (node.is_up && node.incarnation == r->qp->target_incarnation && !r->qp->is_fenced) {
    touch_memory(r);
    if (++r->piece < r->pieces) return sim.queue.push(r, sim.now() + r->piece_gap);
  }
  --sim.late_writes;
  release(r);
}

void Stages::respond(SimRequest* r) {
  Simulation& sim = *r->sim;
  SimNode& node = *r->to;
  const std::uint32_t refusal = packet_overhead(sim.config.hardware.link.format) + 4;  // a NAK: an AETH
  if (r->status != WcStatus::success) r->response_wire = refusal;
  r->fire = &Stages::answered;
  // A lost response is repeated when the requester's timer has made it ask again.
  if (sim.has_faults && sim.strikes(sim.config.faults.rc_loss)) return unreachable(r, &Stages::depart);
  if (r->from == r->to) {
    sim.queue.push(r, sim.now() + nanos_up(sim.timing.pipeline));
    return;
  }
  const Picos span = sim.timing.link(r->response_wire, response_payload(*r));
  const Picos left = node.egress.serve(sim.now_ps(), span);
  node.tx_bytes += r->response_wire;
  trace_stage(sim, *r, Track::egress, node.id, (left - span) / 1000, span / 1000);
  r->paused_seen = node.port.paused_ns;
  sim.queue.push(r, nanos_up(left - span + sim.timing.network));
}

}  // namespace loch::fabric::sim
