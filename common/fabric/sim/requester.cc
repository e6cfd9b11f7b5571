// The requester's side of a request: from the doorbell to the link, and from the response to the
// completion in memory.
#include <fmt/format.h>

#include <algorithm>

#include "common/fabric/sim/simulation.h"
#include "common/fabric/sim/stage_costs.h"
#include "common/fabric/sim/tracing.h"
#include "common/fabric/sim/worker.h"

namespace loch::fabric::sim {
namespace {
std::uint32_t lines_of(const SimRequest& r) {
  return work_request_lines(r.qp->transport, r.wr->length, r.wr->is_inline);
}
bool is_read_or_atomic(Verb verb) { return verb == Verb::read || is_atomic(verb); }
void uncount(SimRequest* r, SimNode& node) {
  if (!r->is_counted) return;
  r->is_counted = false;
  --node.reads_on_the_way;
  if (r->qp->outstanding_reads > 0) --r->qp->outstanding_reads;
}
bool has_payload(Verb verb) { return verb == Verb::write || verb == Verb::send; }
std::uint64_t page_key(std::uint32_t region, std::uint64_t page) {
  return (std::uint64_t{region} + 1) << 48 | page;
}
// Prefetches the entries of the context and translation caches that the responder's NIC will look up.
void prefetch_contexts(const SimRequest& r, const Timing& timing) {
  r.to->contexts.prefetch(r.qp->responder);
  // A SEND names no memory; the pages of a part of a data set are drawn when the message arrives.
  if (r.verb == Verb::send || r.sim->config.data_scale != 1) return;
  const auto [first, last] = pages_of(timing, r.wr->remote_offset, r.wr->length);
  for (std::uint64_t at = first; at <= last; ++at) r.to->translations.prefetch(page_key(r.wr->remote.id, at));
}
// The memory that the responder will read or write, for prefetching; null if the message names none.
const void* target_of(const SimRequest& r) {
  const std::uint64_t offset = r.wr->remote_offset;
  if (r.verb == Verb::send || r.wr->remote.id >= r.to->regions.size()) return nullptr;
  const SimRegion& region = *r.to->regions[r.wr->remote.id];
  return offset < region.bytes() ? region.kept_at(region.kept_before(offset)) : nullptr;
}
// The region that the request's bytes come from or go to at the requester.
const SimRegion& local_region(const SimRequest& r) {
  return static_cast<const SimRegion&>(*r.wr->local.region);
}
// Prefetches the entries of the translation cache that the requester's NIC will look up when a READ's data
// arrive.
void prefetch_landing_pages(const SimRequest& r, const Timing& timing) {
  if (r.verb != Verb::read || r.wr->local.region == nullptr || r.sim->config.data_scale != 1) return;
  const auto [first, last] = pages_of(timing, r.wr->local.offset, r.wr->length);
  for (std::uint64_t at = first; at <= last; ++at)
    r.from->translations.prefetch(page_key(r.wr->local.region->id(), at));
}
// Whether the request's completion makes an entry in the completion queue.
bool makes_entry(const SimRequest& r) { return r.wr->is_signaled && !r.owns_wr; }
// The cached context of the request's queue pair. A worker's first datagram queue uses one context for
// sending and receiving.
CachedContext* context_of(const SimRequest& r) {
  const bool receives = r.qp->transport == Transport::ud && r.qp->lane == 0;
  return receives ? r.qp->owner->datagram_context() : &r.qp->requester;
}
// Prefetches the copy of a READ's data that is under way, and the memory into which it will be copied.
void prefetch_landing(const SimRequest& r) {
  const auto& region = static_cast<const SimRegion&>(*r.wr->local.region);
  const std::uint64_t offset = r.wr->local.offset;
  prefetch_kept(region, offset, r.wr->length);
  for (std::uint64_t at = 0; at < 256; at += 64) __builtin_prefetch(r.data->bytes() + at);
}
}  // namespace

SimRequest* Simulation::new_request(QueuePair* qp, const WorkRequest& wr) {
  SimRequest* r = requests.take();
  *r = SimRequest{};
  r->sim = this;
  r->part = part;
  r->qp = qp;
  r->from = qp->home;
  r->to = nodes[wr.peer].get();
  r->needs[0] = r->needs[2] = qp;
  r->verb = wr.verb;
  const WireBytes wire = wire_bytes(wr.verb, wr.transport, wr.length, config.hardware.link.mtu_bytes,
                                    config.hardware.link.format, wr.has_immediate);
  r->request_wire = static_cast<std::uint32_t>(wire.request);
  r->response_wire = static_cast<std::uint32_t>(wire.response);
  return r;
}

void Simulation::submit(SimRequest* r, Nanos at) {
  r->qp->submitted_at = std::max(at, r->qp->submitted_at + 1);
  r->fire = &Stages::at_requester;
  queue.push(r, r->qp->submitted_at);
}

void Simulation::refuse(SimRequest* r, WcStatus status) {
  r->status = status;
  Stages::complete(r);
}

void Stages::unpost(SimRequest* r) {
  if (!r->is_posted) return;
  r->is_posted = false;
  --r->from->posted;
}

void Stages::release(SimRequest* r) {
  Simulation& sim = *r->sim;
  unpost(r);
  if (r->data != nullptr) sim.give(r->data);
  r->data = nullptr;
  sim.give(r);
}

// Latency of a context look-up: a context that is not in the NIC's cache takes one PCIe read, of which
// several can be outstanding.
Picos Stages::context(Simulation& sim, SimNode& node, CachedContext* context) {
  if (node.contexts.touch(context)) return 0;
  ++node.context_misses;
  return cache_miss(sim.timing, node.fetch.turn(sim.now_ps(), sim.timing.fetch_gap));
}

Picos Stages::transmit_turn(Simulation& sim, SimNode& node, const QueuePair& qp, Picos now, Picos gap) {
  if (node.transmit_units.empty()) return node.requester.turn(now, gap);
  node.requester.busy += gap;  // busy time as the mean over the node's transmitting units
  std::uint32_t number = qp.owner->index() + qp.lane;
  if (qp.transport != Transport::ud) {
    const NodeId other = qp.home == &node ? qp.peer : qp.home->id;
    number = connection_number(qp.owner->index(), node.id, other, qp.lane,
                               static_cast<std::uint32_t>(sim.nodes.size()));
  }
  return node.transmit_units[unit_of(sim.timing, number)].turn(now, unit_span(sim.timing, gap));
}

// Latency of translating the pages of a buffer: the NIC waits for the first page's translation, and fetches
// the others while data are transferred.
Picos Stages::translation(Simulation& sim, SimNode& node, const SimRegion& region, std::uint64_t offset,
                          std::uint64_t length) {
  const auto [first, last] = pages_of(sim.timing, region.place_in_extent(offset, sim.now()), length);
  Picos delay = 0;
  for (std::uint64_t at = first; at <= last; ++at) {
    const std::uint64_t key = page_key(region.id(), at);
    if (node.translations.touch(key)) continue;
    ++node.translation_misses;
    const Picos wait = cache_miss(sim.timing, node.fetch.turn(sim.now_ps(), sim.timing.fetch_gap));
    if (at == first) delay = wait;
  }
  return delay;
}

void Stages::at_requester(Event* event) {
  auto* r = static_cast<SimRequest*>(event);
  Simulation& sim = *r->sim;
  QueuePair* qp = r->qp;
  SimNode& node = *r->from;
  if (r->is_cancelled || qp->is_fenced) return release(r);
  if (!node.is_up) return;  // the posting node has crashed, and its request with it
  if (sim.now() < node.stalled_until) {
    sim.queue.push(r, node.stalled_until + ++node.stall_order);
    return;
  }
  const bool counts = is_read_or_atomic(r->verb);
  const bool must_wait = qp->stalled_first != nullptr || (r->wr->is_fenced && qp->outstanding_reads > 0) ||
                         (counts && qp->outstanding_reads >= sim.config.hardware.nic.max_rd_atomic);
  if (!must_wait) return start(r);
  r->next_waiting = nullptr;
  (qp->stalled_first == nullptr ? qp->stalled_first : qp->stalled_last->next_waiting) = r;
  qp->stalled_last = r;
}

// Continues with requests that were stalled in the send queue, after a READ or atomic has completed.
void Stages::resume_stalled(Simulation& sim, QueuePair* qp) {
  while (SimRequest* r = qp->stalled_first) {
    if (r->wr->is_fenced && qp->outstanding_reads > 0) return;
    if (is_read_or_atomic(r->verb) && qp->outstanding_reads >= sim.config.hardware.nic.max_rd_atomic) return;
    qp->stalled_first = r->next_waiting;
    start(r);
  }
}

void Stages::start(SimRequest* r) {
  Simulation& sim = *r->sim;
  const Timing& timing = sim.timing;
  QueuePair* qp = r->qp;
  SimNode& node = *r->from;
  const Picos now = sim.now_ps();
  ++node.requests;
  const std::uint32_t lines = lines_of(*r);
  const bool fetches_payload = has_payload(r->verb) && !r->wr->is_inline && r->wr->length > 0;
  Picos gap = requesting_gap(timing, r->verb, qp->transport, lines, fetches_payload) +
              posted_gap(timing, r->verb, node.posted) + segments_gap(timing, r->verb, r->wr->length);
  if (timing.is_transmit_shared && r->to != r->from)
    gap = transmit_hold(gap, link_span(timing, r->request_wire, request_payload(*r)));
  Passage way{.now = now};
  const Picos miss = context(sim, node, context_of(*r));
  way.wait(transmit_turn(sim, node, *qp, now, gap + context_stall(timing, miss > 0)));
  way.delay += pass_latency(timing, node.queue_pairs_in_use) + miss;
  if (r->is_fetched) way.delay += timing.busy_fetch;
  if (!r->has_mmio) {
    const Picos unit = unit_wait(qp->unit_until, now);
    qp->unit_until = now + unit + timing.queue_pair;
    way.wait(unit);
    way.visit(node.pcie_read, work_request_fetch(timing, lines));
  }
  if (is_read_or_atomic(r->verb)) {
    ++qp->outstanding_reads;
    ++node.reads_on_the_way;
    r->is_counted = true;
  }
  if (fetches_payload) {
    way.delay += translation(sim, node, local_region(*r), r->wr->local.offset, r->wr->length);
    way.visit(node.pcie_read, payload_fetch(timing, r->wr->local.offset, r->wr->length));
  }
  const Nanos at = std::max(nanos_up(way.end()) + slow(sim), qp->departed_at + 1);
  qp->departed_at = at;
  trace_stage(sim, *r, Track::requester, node.id, sim.now(), at - sim.now());
  r->fire = &Stages::depart;
  sim.queue.push(r, at);
}

bool Stages::is_behind_blocker(SimRequest* r, void (*stage)(Event*)) {
  QueuePair* qp = r->qp;
  if (qp->blocker == r || r->is_carrier) return false;
  Simulation& sim = *r->sim;
  const auto behind = static_cast<Nanos>(r->sequence - qp->blocker->sequence);
  if (behind > (Nanos{1} << 31)) return false;  // the request was posted before the one that is being retried
  if (!r->from->is_up) return true;  // the posting node is down, so that no retry will end the wait
  r->fire = stage;
  sim.queue.push(r, std::max(qp->blocked_until, sim.now()) + behind);
  return true;
}

// Handles a peer that does not answer: RC retries after a timer and finally gives up; UC and UD lose the
// message.
void Stages::unreachable(SimRequest* r, void (*again)(Event*)) {
  Simulation& sim = *r->sim;
  QueuePair* qp = r->qp;
  SimNode& node = *r->from;
  if (sim.is_divisible()) return sim.give_up(fmt::format("node {} does not answer", r->to->id));
  ++node.lost;
  if (qp->transport != Transport::rc) return release(r);
  ++node.retries;
  const Nanos timer = sim.now() + sim.timing.retry;
  if (++r->tries > sim.config.hardware.nic.retry_count) {
    if (qp->blocker == r) qp->blocker = nullptr;
    qp->is_broken = true;
    r->status = WcStatus::retry_exceeded;
    uncount(r, node);
    r->fire = &Stages::land;
    sim.queue.push(r, timer);
    return;
  }
  qp->blocker = r;
  qp->blocked_until = timer;
  qp->departed_at = std::max(qp->departed_at, timer + static_cast<Nanos>(qp->next_sequence - r->sequence));
  r->fire = again;
  sim.queue.push(r, timer);
}

void Stages::depart(Event* event) {
  auto* r = static_cast<SimRequest*>(event);
  Simulation& sim = *r->sim;
  QueuePair* qp = r->qp;
  SimNode& node = *r->from;
  if (r->is_cancelled || qp->is_fenced) return release(r);
  if (!node.is_up) return;
  if (held_back(r, &Stages::depart)) return;
  if (r->to->part == sim.part) {
    prefetch_contexts(*r, sim.timing);
    prefetch_landing_pages(*r, sim.timing);
    r->needs[2] = target_of(*r);
  }
  if (has_payload(r->verb) && r->data == nullptr && r->wr->length > 0) {
    const LocalSlice& local = r->wr->local;
    r->data = sim.staging.take(*local.region, local.offset, r->wr->length);
    gather(r->data, 0, r->wr->length);
  }
  if (qp->transport == Transport::rc && sim.has_faults && sim.strikes(sim.config.faults.rc_loss)) {
    return unreachable(r, &Stages::depart);
  }
  SimRequest* message = r;
  // On UC and UD, a copy of the request carries the message; the request itself ends when the message has
  // left the node.
  if (qp->transport != Transport::rc) {
    message = sim.requests.take();
    *message = *r;
    message->own(*r->wr);
    message->is_carrier = true;
    message->is_posted = false;
    message->next_in_qp = nullptr;
    r->data = nullptr;
  }
  const Picos now = sim.now_ps();
  Picos left = now;
  Nanos first_bytes = sim.now() + nanos_up(sim.timing.pipeline);
  if (r->to != r->from) {
    const Picos span = link_span(sim.timing, r->request_wire, request_payload(*r));
    if (!node.port.notices.empty()) take_notices(sim, node);
    left = node.egress.serve(now, span);
    node.tx_bytes += r->request_wire;
    first_bytes = first_bytes_at(sim.timing, left, span);
    message->paused_seen = node.port.paused_ns;
    trace_stage(sim, *r, Track::egress, node.id, (left - span) / 1000, span / 1000);
  }
  message->fire = &Stages::arrive;
  sim.send(message, node, *r->to, first_bytes);
  if (message == r) return;
  if (makes_entry(*r)) node.pcie_write.serve(now, sim.timing.completion_entry);
  r->fire = &Stages::land;
  sim.queue.push(r, nanos_up(left + sim.timing.pcie_write));
}

void Stages::answered(Event* event) {
  auto* r = static_cast<SimRequest*>(event);
  Simulation& sim = *r->sim;
  const Timing& timing = sim.timing;
  QueuePair* qp = r->qp;
  SimNode& node = *r->from;
  if (r->is_cancelled || qp->is_fenced) return release(r);
  if (!node.is_up) return;
  const Picos now = sim.now_ps();
  Passage way{.now = now};
  Picos span = 0;
  if (r->to != r->from) {
    if ((!sim.is_divisible() && !sim.delivers(*r->to, node)) || (sim.has_faults && sim.is_lost(*r->to, node)))
      return unreachable(r, &Stages::depart);
    if (timing.port_buffer != 0 && !sim.is_divisible() && paused_at_switch(r, *r->to)) return;
    span = link_span(timing, r->response_wire, response_payload(*r));
    way.turn = node.ingress.turn(now, span);
    if (timing.port_buffer != 0) way.turn += meet_port(sim, *r->to, node, way.turn, span);
    node.rx_bytes += r->response_wire;
    trace_stage(sim, *r, Track::ingress, node.id, (now + way.turn) / 1000, span / 1000);
  }
  qp->owner->prefetch();
  const Picos done = now + way.turn + span;
  ++node.responses;
  const Picos gap =
      timing.response + (is_read_or_atomic(r->verb) ? answer_gap(timing, node.reads_on_the_way) : 0);
  way.hold(node.held_until);
  way.visit(node.responder, {gap, span + pass_latency(timing, node.queue_pairs_in_use)});
  unpost(r);
  way.delay += context(sim, node, &qp->requester);
  if (is_read_or_atomic(r->verb)) {
    if (sim.config.hardware.nic.work_request_entries != 0 &&
        node.reads_on_the_way > sim.config.hardware.nic.work_request_entries) {
      ++node.work_request_misses;
      way.delay += cache_miss(timing, node.fetch.turn(now, timing.fetch_gap));
    }
    uncount(r, node);
    if (r->status == WcStatus::success && r->wr->local.region != nullptr && r->wr->length > 0) {
      if (r->data != nullptr) prefetch_landing(*r);
      way.delay += translation(sim, node, local_region(*r), r->wr->local.offset, r->wr->length);
      // The earlier packets of the data have crossed the PCIe bus while the later ones came from the link;
      // only the last packet still has to cross it.
      way.visit(node.pcie_write, data_landing(timing, r->wr->length));
    }
  }
  // the completion entry crosses PCIe right after the data, so that it has no queueing delay of its own
  if (makes_entry(*r)) {
    node.pcie_write.serve(now, timing.completion_entry);
    way.delay += timing.completion_entry;
  }
  way.delay += timing.pcie_write;
  const Nanos at = nanos_up(way.end()) + slow(sim);
  if (sim.has_faults && r->verb == Verb::read)
    plan_pieces(r, r->wr->local.offset, sim.config.faults.torn_landing);
  trace_stage(sim, *r, Track::response, node.id, done / 1000, at - done / 1000);
  r->fire = &Stages::land;
  sim.queue.push(r, at);
  if (is_read_or_atomic(r->verb)) resume_stalled(sim, qp);
}

void Stages::land(Event* event) {
  auto* r = static_cast<SimRequest*>(event);
  Simulation& sim = *r->sim;
  SimNode& node = *r->from;
  if (r->is_cancelled || r->qp->is_fenced) return release(r);
  if (!node.is_up) return;
  if (r->status == WcStatus::success && r->wr->local.region != nullptr) {
    auto* region = static_cast<SimRegion*>(r->wr->local.region);
    const std::uint64_t offset = r->wr->local.offset;
    if (r->verb == Verb::read && r->data != nullptr) {
      std::uint32_t begin = 0, end = 0;
      touch_piece(r, offset, &begin, &end);
      scatter(r->data, *region, offset, begin, end);
      sim.note(Effect::landed, node.id, sim.now(), offset + begin);
      SimWorker::memory_changed(region, offset + begin, offset + end);
      if (++r->piece < r->pieces) return sim.queue.push(r, sim.now() + r->piece_gap);
    } else if (is_atomic(r->verb)) {
      std::memcpy(region->at(offset), &r->result, 8);
      sim.note(Effect::landed, node.id, sim.now(), offset);
      SimWorker::memory_changed(region, offset, offset + 8);
    }
  }
  if (r->data != nullptr) sim.give(r->data);
  r->data = nullptr;
  complete(r);
}

// Ends the request. It is retired (taken off its queue pair) when all earlier requests of the queue pair have
// ended.
void Stages::complete(SimRequest* r) {
  unpost(r);
  // A request of a fenced worker is only released: no coroutine waits for its completion, and other requests
  // of its queue pair may not exist any more.
  if (r->qp->is_fenced) return release(r);
  r->is_done = true;
  retire(*r->sim, r->qp);
}

void Stages::retire(Simulation& sim, QueuePair* qp) {
  while (SimRequest* r = qp->oldest) {
    const bool is_flushed = qp->is_error;
    if (!r->is_done && !is_flushed) return;
    qp->oldest = r->next_in_qp;
    if (qp->oldest == nullptr) qp->newest = nullptr;
    // The request has not ended. If it is stalled in the send queue, it completes as flushed. Otherwise it is
    // in transit: a new request completes as flushed in its place, and its own pending event releases it.
    if (is_flushed && !r->is_done) {
      const bool is_stalled = qp->stalled_first == r;
      if (is_stalled) {
        qp->stalled_first = r->next_waiting;
      } else {
        SimRequest* stand_in = sim.new_request(qp, *r->wr);
        r->owns_wr ? stand_in->own(r->copy) : stand_in->refer_to(r->wr);
        r->is_cancelled = true;
        uncount(r, *r->from);
        unpost(r);
        r = stand_in;
      }
    }
    if (is_flushed) r->status = WcStatus::flushed;
    const bool is_failure = r->status != WcStatus::success;
    if (r->wr->is_signaled || r->owns_wr) {
      qp->used_slots -= 1 + qp->unretired;
      qp->unretired = 0;
    } else {
      ++qp->unretired;
    }
    if (is_failure && qp->transport == Transport::rc && !qp->is_error && sim.is_divisible()) {
      sim.give_up(fmt::format("a request of node {} failed", qp->home->id));
    } else if (is_failure && qp->transport == Transport::rc && !qp->is_error) {
      qp->is_error = true;
      qp->blocker = nullptr;
      qp->owner->connection_failed(qp->peer);
    }
    qp->owner->completed(r);
  }
}

void Simulation::reset(QueuePair* qp) {
  LOCH_CHECK(qp->oldest == nullptr, "a queue pair is reconnected with {} requests on it", qp->used_slots);
  qp->is_error = qp->is_broken = false;
  qp->outstanding_reads = qp->used_slots = qp->unretired = 0;
  qp->stalled_first = qp->stalled_last = nullptr;
  qp->blocker = nullptr;
  qp->target_incarnation = qp->target->incarnation;
}

}  // namespace loch::fabric::sim
