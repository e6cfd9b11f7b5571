// The responder's side of a request: from its link to memory and back, and the weak behaviours of faults.h.
#include <fmt/format.h>

#include <algorithm>

#include "common/fabric/sim/simulation.h"
#include "common/fabric/sim/stage_costs.h"
#include "common/fabric/sim/tracing.h"
#include "common/fabric/sim/worker.h"

namespace loch::fabric::sim {
namespace {
constexpr std::uint32_t grh_bytes = 40;

bool takes_receive(const SimRequest& r) {
  return r.verb == Verb::send || (r.verb == Verb::write && r.wr->has_immediate);
}
// Whether the payload is so small that the NIC writes it into the completion queue entry (inline receive).
bool is_in_completion(const SimRequest& r) {
  return r.verb == Verb::send && r.wr->length > 0 &&
         r.wr->length <= r.sim->config.hardware.nic.inline_receive_bytes;
}
Receives receives_of(const SimRequest& r) {
  if (!takes_receive(r)) return Receives::nothing;
  return is_in_completion(r) ? Receives::in_completion : Receives::placed;
}
// The lock of the responder's NIC that this atomic has to take.
Server& lock_of(const SimRequest& r, SimNode& node) {
  return node.atomic_locks[atomic_lock(r.wr->remote_offset, node.atomic_locks.size())];
}
// Whether a WRITE may overtake the request: READs and atomics keep their order only among themselves.
bool may_be_overtaken(const SimRequest& r) { return r.verb == Verb::read || is_atomic(r.verb); }
// The cached context in the responder's NIC: the context of the connection, or of the datagram queue to which
// the message was sent.
CachedContext* context_at(const SimRequest& r, const SimNode& node) {
  if (r.qp->transport != Transport::ud) return &r.qp->responder;
  const std::uint16_t index = r.wr->peer_worker;
  if (index >= node.workers.size() || node.workers[index] == nullptr) return nullptr;
  return node.workers[index]->datagram_context();
}
}  // namespace

// Draws whether the message is torn, and if so into how many pieces, in which order and how far apart. Pieces
// are made of the cache lines of the memory that begins at `offset`; even 8 bytes may lie in two lines.
void Stages::plan_pieces(SimRequest* r, std::uint64_t offset, double probability) {
  Simulation& sim = *r->sim;
  r->pieces = 1;
  r->piece = 0;
  const auto lines = static_cast<std::uint32_t>(lines_touched(offset, r->wr->length));
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

// Sets [begin, end) to the part of the message that is read or written now, in memory that begins at
// `offset`: whole aligned lines of 64 bytes, except at the message's ends.
void Stages::touch_piece(SimRequest* r, std::uint64_t offset, std::uint32_t* begin, std::uint32_t* end) {
  const std::uint32_t length = r->wr->length;
  if (r->pieces == 1) {
    *begin = 0;
    *end = length;
    return;
  }
  const std::uint32_t which = r->order[r->piece];
  *begin = which == 0 ? 0 : piece_begin(offset, length, which, r->pieces);
  *end = which + 1u == r->pieces ? length : piece_begin(offset, length, which + 1, r->pieces);
}

namespace {
// Decides whether an arriving message is processed now. Returns false if the message is lost, and then
// releases it, or if it is delayed, and then schedules its next event.
bool is_let_in(SimRequest* r) {
  Simulation& sim = *r->sim;
  const SimFaults& faults = sim.config.faults;
  QueuePair* qp = r->qp;
  SimNode& node = *r->to;
  SimNode& source = *r->from;
  if (r->is_cancelled || qp->is_fenced) return Stages::release(r), false;
  // A node that belongs to another part always delivers; its state is left to its own thread.
  if ((!sim.is_divisible() && !sim.delivers(source, node)) || (sim.has_faults && sim.is_lost(source, node)) ||
      (qp->transport != Transport::ud && node.incarnation != qp->target_incarnation)) {
    return Stages::unreachable(r, &Stages::depart), false;
  }
  if (sim.timing.port_buffer != 0 && !sim.is_divisible() && r->from != r->to &&
      Stages::paused_at_switch(r, source))
    return false;
  if (sim.now() < node.stalled_until) {
    const Nanos again = node.stalled_until + ++node.stall_order;
    if (qp->blocker == r) qp->blocked_until = again;  // later requests of the queue pair wait too
    sim.queue.push(r, again);
    return false;
  }
  // where nothing may fail, the responder's thread leaves the requester's members of the queue pair alone
  if (sim.is_divisible()) return true;
  if (Stages::held_back(r, &Stages::depart)) return false;
  if (qp->blocker == r) qp->blocker = nullptr;
  if (qp->transport == Transport::ud && sim.has_faults && !r->is_delayed && sim.strikes(faults.ud_reorder)) {
    r->is_delayed = true;
    sim.queue.push(r, sim.now() + sim.up_to(faults.ud_reorder_span));
    return false;
  }
  return true;
}

// Stops the unit that takes what arrives if something that the message needs is not in the NIC's cache.
void stop_receiving(const SimRequest& r, bool is_miss, Picos now) {
  const Picos stall = receive_stall(r.sim->timing, is_miss);
  if (stall > 0) r.to->responder.serve(now, stall);
}

// Queues the request at the units of the responder's NIC; `span` is its message's time on the link. A READ or
// an atomic is queued at the unit that transmits if requests and answers share one, since its answer leaves
// there.
void pass_units(SimRequest* r, Receives receives, Picos span, Passage* way) {
  const Timing& timing = r->sim->timing;
  SimNode& node = *r->to;
  const std::uint32_t length = r->wr->length;
  CachedContext* const receiver = context_at(*r, node);
  const Picos miss = receiver != nullptr ? Stages::context(*r->sim, node, receiver) : 0;
  const bool is_answered = r->verb == Verb::read || is_atomic(r->verb);
  const Picos stall = is_answered ? context_stall(timing, miss > 0) : 0;
  Picos gap = responding_gap(timing, r->verb, length, receives) + segments_gap(timing, r->verb, length);
  if (timing.is_transmit_shared && is_answered) {
    const Picos answer = r->from != r->to ? link_span(timing, r->response_wire, response_payload(*r)) : 0;
    way->wait(Stages::transmit_turn(*r->sim, node, *r->qp, way->now, transmit_hold(gap, answer) + stall));
    gap = timing.response;
  } else {
    gap += stall;
  }
  way->visit(node.responder, {gap, span + pass_latency(timing, node.queue_pairs_in_use) + miss});
  stop_receiving(*r, miss > 0, way->now);
}

// Takes an atomic to a place of the NIC and to its lock. One that finds all places taken holds up what
// arrives behind it.
void update_word(SimRequest* r, SimNode& node, Passage* way) {
  const bool is_known = r->wr->remote.id < node.regions.size();
  const Visit update = atomic_update(r->sim->timing, is_known ? node.regions[r->wr->remote.id]->extent() : 0);
  if (node.atomic_places.empty()) return way->visit(lock_of(*r, node), update);
  const Picos reached = std::max(way->now, node.responder.free_at);
  Picos& place = *std::ranges::min_element(node.atomic_places);
  const Picos taken_up = atomic_taken_up(reached, place);
  if (taken_up > reached) {
    node.held_until = taken_up;
    node.held_by_atomics += taken_up - reached;
  }
  place = lock_of(*r, node).serve(taken_up, update.busy);
  way->wait(place - update.busy - way->now);
  way->delay += update.latency;
}

// Takes the request through the responder's link, NIC and bus, with their queues and latencies. Returns the
// time in picoseconds at which the whole message has arrived.
Picos pass_responder(SimRequest* r, Passage* way) {
  Simulation& sim = *r->sim;
  const Timing& timing = sim.timing;
  SimNode& node = *r->to;
  const Picos now = way->now;
  Picos span = 0;
  if (r->from != r->to) {
    span = link_span(timing, r->request_wire, request_payload(*r));
    way->turn = node.ingress.turn(now, span);
    if (timing.port_buffer != 0) way->turn += Stages::meet_port(sim, *r->from, node, way->turn, span);
    node.rx_bytes += r->request_wire;
    trace_stage(sim, *r, Track::ingress, node.id, (now + way->turn) / 1000, span / 1000);
  }
  const Picos done = now + way->turn + span;  // when the whole message has arrived
  const Receives receives = receives_of(*r);
  const std::uint32_t length = r->wr->length;
  way->hold(node.held_until);
  pass_units(r, receives, span, way);
  if (r->verb != Verb::send && r->wr->remote.id < node.regions.size()) {
    const SimRegion& region = *node.regions[r->wr->remote.id];
    const std::uint64_t touched = std::min<std::uint64_t>(length, region.bytes());
    prefetch_kept(region, r->wr->remote_offset, touched);
    const Picos miss = Stages::translation(sim, node, region, r->wr->remote_offset, touched);
    stop_receiving(*r, miss > 0, way->now);
    way->delay += miss;
  }
  if (r->verb == Verb::read) {
    way->visit(node.pcie_read, memory_read(timing, r->wr->remote_offset, length));
  } else if (is_atomic(r->verb)) {
    update_word(r, node, way);
  } else if (receives == Receives::in_completion) {
    way->visit(node.pcie_write, write_in_completion(timing, length));
  } else {
    way->visit(node.pcie_write, memory_write(timing, length));
    if (receives !=
        // the completion entry crosses PCIe right after the payload, so that it has no queueing delay of its
        // own
        Receives::nothing) {
      node.pcie_write.serve(way->now, timing.completion_entry);
      way->delay += timing.completion_entry;
    }
  }
  // The NIC fetches RECV requests in advance, which takes bus time but adds no latency to this message.
  if (receives != Receives::nothing) node.pcie_read.serve(way->now, timing.recv_fetch);
  return done;
}

// Draws which faults of faults.h strike a request that would be executed at `at`: it is torn, becomes visible
// late, or is overtaken. Returns when it is executed; `last` becomes the time after which later requests of
// its queue pair are executed.
Nanos weaken(SimRequest* r, Nanos at, Nanos* last) {
  Simulation& sim = *r->sim;
  const SimFaults& faults = sim.config.faults;
  QueuePair* qp = r->qp;
  if (r->verb == Verb::read) Stages::plan_pieces(r, r->wr->remote_offset, faults.torn_read);
  if (r->verb == Verb::write) Stages::plan_pieces(r, r->wr->remote_offset, faults.torn_write);
  if (r->verb == Verb::send) Stages::plan_pieces(r, 0, faults.torn_write);
  *last = at + r->piece_gap * (r->pieces - 1);
  if (r->verb == Verb::write && qp->transport == Transport::rc && !r->wr->has_immediate &&
      r->wr->length > 0 && sim.strikes(faults.late_write)) {
    r->late_by = sim.up_to(faults.late_write_span);
    *last += r->late_by;
  }
  if (!may_be_overtaken(*r)) return at;
  if (sim.strikes(faults.overtaking_write)) {
    at += sim.up_to(faults.overtaking_span);
    *last = qp->executed_at;
  }
  qp->read_at = at;
  return at;
}
}  // namespace

void Stages::arrive(Event* event) {
  auto* r = static_cast<SimRequest*>(event);
  Simulation& sim = *r->sim;
  QueuePair* qp = r->qp;
  if (!is_let_in(r)) return;
  Passage way{.now = sim.now_ps()};
  const Picos done = pass_responder(r, &way);
  Nanos at = std::max(nanos_up(way.end()) + slow(sim), qp->executed_at + 1);
  if (may_be_overtaken(*r)) at = std::max(at, qp->read_at + 1);
  Nanos last = at;
  if (sim.has_faults) at = weaken(r, at, &last);
  if (qp->transport != Transport::ud) qp->executed_at = last;
  trace_stage(sim, *r, Track::responder, r->to->id, done / 1000, at - done / 1000);
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

// Takes a receive buffer for a SEND or a WRITE with immediate, and informs the receiver when the message is
// in memory. Returns false if no buffer was taken; the request has then been retried, refused or dropped.
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
    if (sim.is_divisible()) return sim.give_up(fmt::format("node {} has no RECV for a SEND", node.id)), false;
    qp->blocker = r;
    qp->blocked_until = sim.now() + sim.timing.rnr;
    qp->executed_at =
        std::max(qp->executed_at, qp->blocked_until + static_cast<Nanos>(qp->next_sequence - r->sequence));
    sim.queue.push(r, qp->blocked_until);
    return false;
  }
  const PostedReceive buffer = posted.pop();
  sim.note(Effect::received, node.id, sim.now(), r->wr->length);
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
      posted.push(buffer);  // puts the buffer back: the message does not fit into it
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
  const Effect effect = r->verb == Verb::read    ? Effect::read
                        : r->verb == Verb::write ? Effect::written
                                                 : Effect::atomic;
  sim.note(effect, r->to->id, sim.now(), offset + begin);
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

namespace {
// Returns whether the responder executes the request; if not, it was refused or, on UC and UD, lost.
bool is_admitted(SimRequest* r) {
  Simulation& sim = *r->sim;
  const SimFaults& faults = sim.config.faults;
  QueuePair* qp = r->qp;
  const bool is_rc = qp->transport == Transport::rc;
  const WcStatus status = Stages::validate(r);
  if (status != WcStatus::success) {
    if (!is_rc) return Stages::release(r), false;
    r->status = status;
    qp->is_broken = true;
    return Stages::respond(r), false;
  }
  if (is_rc || !sim.has_faults) return true;
  if (!sim.strikes(qp->transport == Transport::uc ? faults.uc_loss : faults.ud_loss)) return true;
  ++r->to->lost;
  if (r->verb == Verb::write && r->wr->length > 64 && sim.fault_rng.chance(0.5)) {
    r->pieces = 2;  // the first half of the WRITE arrived, and the rest was lost
    r->order[0] = static_cast<std::uint8_t>(sim.fault_rng.below(2));
    Stages::touch_memory(r);
  }
  return Stages::release(r), false;
}

// An atomic that is split by a fault holds one of the NIC's locks and the target region between its read and
// its write: other atomics on the region wait, CPU stores and WRITEs do not.
void begin_split_atomic(SimRequest* r) {
  Simulation& sim = *r->sim;
  QueuePair* qp = r->qp;
  const Nanos span = sim.up_to(sim.config.faults.split_span);
  lock_of(*r, *r->to).serve(sim.now_ps(), picos(span));
  r->target->hold_until(sim.now() + span + 1);
  std::memcpy(&r->result, r->target->at(r->wr->remote_offset), 8);
  r->has_lock = true;
  qp->executed_at = std::max(qp->executed_at, sim.now() + span);
  sim.queue.push(r, sim.now() + span);
}

// Acknowledges a WRITE now; a copy of the request makes its bytes visible later.
void acknowledge_early(SimRequest* r) {
  Simulation& sim = *r->sim;
  SimRequest* late = sim.requests.take();
  *late = *r;
  late->own(*r->wr);
  late->is_carrier = true;
  late->is_posted = false;
  r->data = nullptr;
  late->fire = &Stages::land_late;
  ++sim.late_writes;
  sim.queue.push(late, sim.now() + r->late_by);
  r->is_executed = true;
  Stages::respond(r);
}
}  // namespace

void Stages::execute(Event* event) {
  auto* r = static_cast<SimRequest*>(event);
  Simulation& sim = *r->sim;
  QueuePair* qp = r->qp;
  SimNode& node = *r->to;
  if (r->is_cancelled) return release(r);
  const bool is_rc = qp->transport == Transport::rc;
  if (qp->is_fenced) return release(r);
  if (!node.is_up || (qp->transport != Transport::ud && node.incarnation != qp->target_incarnation)) {
    return unreachable(r, &Stages::depart);
  }
  // An atomic that a fault splits into a read and a later write is not delayed at its write by the retry of
  // an earlier request, because it holds the target region only for a fixed time.
  if (!sim.is_divisible()) {
    if (is_rc && r->piece == 0 && !r->has_lock && held_back(r, &Stages::execute)) return;
    if (qp->blocker == r) qp->blocker = nullptr;
  }
  // a request that was already executed or refused is only answered
  if (r->is_executed || r->status != WcStatus::success) return respond(r);
  // Requests after a refused one are not executed; the requester flushes them.
  if (is_rc && qp->is_broken) {
    r->status = WcStatus::flushed;
    return respond(r);
  }
  if (r->piece == 0 && !r->has_lock) {
    if (!is_admitted(r)) return;
    if (is_atomic(r->verb)) {
      // Also where no fault strikes any more: an atomic that was split just before holds its region still.
      if (r->target->held_until() > sim.now()) return sim.queue.push(r, r->target->held_until());
      if (sim.config.faults.split_atomics && sim.may_fault()) return begin_split_atomic(r);
    }
    if (r->late_by > 0 && r->data != nullptr) return acknowledge_early(r);
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
  if (r->status != WcStatus::success) r->response_wire = refusal_bytes(sim.config.hardware.link.format);
  r->fire = &Stages::answered;
  // The response is lost: the requester's timer makes it retry, and the response is sent again.
  if (sim.has_faults && sim.strikes(sim.config.faults.rc_loss)) return unreachable(r, &Stages::depart);
  if (r->from == r->to) {
    sim.queue.push(r, sim.now() + nanos_up(sim.timing.pipeline));
    return;
  }
  const Picos span = link_span(sim.timing, r->response_wire, response_payload(*r));
  if (!node.port.notices.empty()) take_notices(sim, node);
  const Picos left = node.egress.serve(sim.now_ps(), span);
  node.tx_bytes += r->response_wire;
  trace_stage(sim, *r, Track::egress, node.id, (left - span) / 1000, span / 1000);
  r->paused_seen = node.port.paused_ns;
  sim.send(r, node, *r->from, first_bytes_at(sim.timing, left, span));
}

}  // namespace loch::fabric::sim
