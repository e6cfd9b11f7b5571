// The data path of a simulated worker: posting, receive buffers, stores, and the start of waits. Polling and
// resuming coroutines are in worker_run.cc.
#include "common/fabric/sim/worker.h"

#include <algorithm>
#include <bit>

#include "common/base/check.h"
#include "common/fabric/memory.h"
#include "common/fabric/sim/scheduler_costs.h"
#include "common/fabric/sim/stage_costs.h"

namespace loch::fabric::sim {

SimWorker::SimWorker(Simulation& sim, SimNode& node, const WorkerSpec& spec, const Capabilities& capabilities)
    : Worker(spec,
             node.incarnation == 1 ? sim.config.seed : sub_seed(sim.config.seed, "life", node.incarnation),
             &run_queue_),
      sim_(sim),
      node_(node),
      capabilities_(capabilities),
      poll_rng_(sim.config.seed, "poll", (std::uint64_t{spec.node} << 16) | spec.index),
      interrupt_rng_(sim.config.seed, "interrupts", (std::uint64_t{spec.node} << 16) | spec.index) {
  const CpuProfile& cpu = sim.config.hardware.cpu;
  cpu_costs_ = {cpu.hash_fixed_ns, cpu.hash_byte_ns, cpu.compare_fixed_ns, cpu.compare_byte_ns,
                cpu.copy_fixed_ns, cpu.copy_byte_ns, cpu.crc_byte_ns,      cpu.memory_ns,
                cpu.line_ns,       cpu.operation_ns};
  set_costs(&cpu_costs_);
  if (sim.config.trace != nullptr) set_traced();
  const SimFaults& weak = sim.config.faults;
  late_by_ = weak.jitter;
  if (weak.stragglers > 0 && spec.index >= weak.first_straggler) {
    Rng chosen(sim.config.seed, "laggards", (std::uint64_t{spec.node} << 16) | spec.index);
    // the product of two random numbers: most stragglers (workers that are starved of their core) have a
    // small lag, and few a large one
    const double share = chosen.uniform() * chosen.uniform();
    if (chosen.chance(weak.stragglers)) late_by_ += static_cast<Nanos>(share * static_cast<double>(weak.lag));
  }
  wake_.worker = this;
  wake_.fire = &SimWorker::on_wake;
  wake_.needs[2] = &polled_for_;
  ThreadSpec thread;
  thread.name = spec.name;
  thread.role = spec.role == Role::client ? ThreadRole::client : ThreadRole::server;
  if (spec.core >= 0) thread.allowed = one_core(static_cast<std::uint32_t>(spec.core));
  thread_ = node.cpu->add_thread(thread, {&SimWorker::on_scheduled, &SimWorker::on_descheduled, this});
}

SimWorker::~SimWorker() { end_task(); }

Nanos SimWorker::node_clock() const {
  const Nanos at = now();
  return at + node_.skew + at / 1'000'000'000 * node_.drift_ppb +
         at % 1'000'000'000 * node_.drift_ppb / 1'000'000'000;
}

void SimWorker::connect_all() {
  peers_.assign(sim_.nodes.size(), Peer{});
  queue_pairs_.assign(sim_.nodes.size() * 2, nullptr);
  datagram_queue_pairs_.assign(most_lanes, nullptr);
}

QueuePair* SimWorker::queue_pair(const WorkRequest& wr) {
  LOCH_CHECK(wr.peer < peers_.size(), "node {} posts to node {} of {}", node(), wr.peer, peers_.size());
  LOCH_CHECK(wr.lane < most_lanes, "lane {} of {}", wr.lane, most_lanes);
  const bool is_datagram = wr.transport == Transport::ud;
  if (!is_datagram && wr.lane >= lanes()) [[unlikely]]
    queue_pairs_.resize((wr.lane + std::size_t{1}) * 2 * peers_.size(), nullptr);
  const std::size_t row = wr.lane * std::size_t{2} + (wr.transport == Transport::uc ? 1 : 0);
  QueuePair*& qp = is_datagram ? datagram_queue_pairs_[wr.lane] : queue_pairs_[row * peers_.size() + wr.peer];
  if (qp == nullptr) [[unlikely]] {
    qp = sim_.queue_pairs.take();
    *qp = QueuePair{};
    qp->owner = this;
    qp->home = &node_;
    qp->is_fenced = is_fenced_;
    qp->transport = wr.transport;
    qp->peer = wr.peer;
    qp->lane = wr.lane;
    qp->target = sim_.nodes[wr.peer].get();
    qp->target_incarnation = qp->target->incarnation;
    qp->doorbell = node_.doorbells.assign();
    count_queue_pair(*qp, 1);
  }
  return qp;
}

// Adds a queue pair to those in use at its node and, if it is connected, at the node at its other end.
void SimWorker::count_queue_pair(const QueuePair& qp, std::uint32_t by) {
  node_.queue_pairs_in_use += by;
  // Where the simulation has several parts, no latency depends on this count, and the other node may belong
  // to another part.
  if (sim_.is_divisible()) return;
  if (qp.transport != Transport::ud && qp.target != &node_) qp.target->queue_pairs_in_use += by;
}

void SimWorker::fence() {
  is_fenced_ = true;
  forget_posted();
  for (const std::vector<QueuePair*>* all : {&queue_pairs_, &datagram_queue_pairs_}) {
    for (QueuePair* qp : *all) {
      if (qp == nullptr || qp->is_fenced) continue;
      qp->is_fenced = true;
      count_queue_pair(*qp, ~std::uint32_t{0});
    }
  }
}

void SimWorker::forget_posted() {
  for (const std::vector<QueuePair*>* all : {&queue_pairs_, &datagram_queue_pairs_}) {
    for (const QueuePair* qp : *all) {
      if (qp == nullptr || qp->is_fenced) continue;
      for (SimRequest* r = qp->oldest; r != nullptr; r = r->next_in_qp) Stages::unpost(r);
    }
  }
}

void SimWorker::charge(Nanos span) { busy_until_ = std::max(busy_until_, sim_.now()) + slowed(span); }

Nanos SimWorker::slowed_by_others(Nanos span) const {
  return crowded(span, sim_.timing.crowding[node_.cpu->busy_cores()]);
}

bool SimWorker::local_buffer_is_good(const WorkRequest& wr) const {
  const Region* region = wr.local.region;
  if (region == nullptr) return wr.length == 0 || is_atomic(wr.verb);
  const std::uint64_t length = is_atomic(wr.verb) ? 8 : wr.length;
  return region->node() == node() && wr.local.offset <= region->bytes() &&
         length <= region->bytes() - wr.local.offset;
}

void SimWorker::post_one(QueuePair* qp, const WorkRequest& posted, WorkRequest* awaited, bool has_mmio,
                         Nanos at) {
  SimRequest* r = sim_.new_request(qp, posted);
  if (awaited != nullptr) {
    r->refer_to(awaited);
  } else {
    r->own(posted);
    r->copy.next = nullptr;
    r->copy.sink = nullptr;
    r->copy.stats = nullptr;
  }
  WorkRequest* const wr = r->wr;
  r->has_mmio = has_mmio;
  r->is_fetched = has_mmio && qp->used_slots > 0;
  r->sequence = qp->next_sequence++;
  const bool is_full = qp->used_slots >= capabilities_.send_queue_depth;
  (qp->oldest == nullptr ? qp->oldest : qp->newest->next_in_qp) = r;
  qp->newest = r;
  ++qp->used_slots;
  if (wr->sink != nullptr) begin_wait(outstanding_);
  wr->status = WcStatus::success;
  if (wr->transport == Transport::rc && (qp->is_error || !peers_[wr->peer].is_connected)) {
    return sim_.refuse(r, WcStatus::flushed);
  }
  if (is_full || !local_buffer_is_good(*wr) ||
      (wr->is_inline && wr->length > capabilities_.max_inline_bytes) ||
      (wr->transport == Transport::ud && wr->length > capabilities_.mtu_bytes)) {
    return sim_.refuse(r, WcStatus::local_error);
  }
  if (wr->is_inline && wr->length > 0) {
    r->data = sim_.staging.take(*wr->local.region, wr->local.offset, wr->length);
    gather(r->data, 0, wr->length);
  }
  r->is_posted = true;
  ++node_.posted;
  sim_.submit(r, at);
}

// Hands a work request to the NIC: the CPU writes it by MMIO, line by line, or rings the doorbell. Returns
// when the NIC has it.
Nanos SimWorker::hand_over(const WorkRequest& first, const QueuePair& qp, bool has_mmio) {
  const Timing& timing = sim_.timing;
  const auto lines = [&] { return work_request_lines(first.transport, first.length, first.is_inline); };
  const HandOver cost = has_mmio ? hand_over_by_mmio(timing, lines()) : hand_over_by_doorbell(timing);
  charge(cost.cpu);
  busy_until_ = node_.doorbells.ring(timing, qp.doorbell, this, busy_until_);
  return handed_over_at(timing, sim_.now(), busy_until_, node_.pcie_read.turn(sim_.now_ps(), cost.bus));
}

void SimWorker::do_post(WorkRequest* chain) {
  if (is_dead_) return;
  prefetch_queue_pair(chain->peer);
  const bool is_alone = chain->next == nullptr;
  const bool has_mmio = is_alone && is_written_by_mmio(sim_.config.hardware.nic, *chain);
  for (WorkRequest* wr = chain; wr != nullptr; wr = wr->next) charge(sim_.timing.post);
  QueuePair* qp = queue_pair(*chain);
  const Nanos at = hand_over(*chain, *qp, has_mmio);
  while (chain != nullptr) {
    WorkRequest* next = chain->next;
    post_one(qp, *chain, chain, has_mmio, at);
    chain = next;
    if (chain != nullptr) qp = queue_pair(*chain);
  }
}

void SimWorker::do_post_detached(const WorkRequest& request) {
  if (is_dead_) return;
  prefetch_queue_pair(request.peer);
  const bool has_mmio = is_written_by_mmio(sim_.config.hardware.nic, request);
  charge(sim_.timing.post);
  QueuePair* const qp = queue_pair(request);
  const Nanos at = hand_over(request, *qp, has_mmio);
  post_one(qp, request, nullptr, has_mmio, at);
}

void SimWorker::post_recv(Transport transport, LocalSlice buffer, std::uint32_t length, std::uint64_t user) {
  Ring<PostedReceive>& posted = posted_[index_of(transport)];
  LOCH_CHECK(posted.size() < capabilities_.recv_queue_depth,
             "the receive queue of {} holds {} buffers already", spec().name, posted.size());
  posted.push({buffer, length, user});
  if (is_inside_) charge(sim_.timing.post_recv);  // before the run, posting RECVs takes no CPU time
}

void SimWorker::store_word(Region& region, std::uint64_t offset, std::uint64_t value) {
  store_word_release(region.at(offset), value);
  sim_.note(Effect::stored, node(), now(), offset);
  memory_changed(static_cast<SimRegion*>(&region), offset, offset + 8);
}

void SimWorker::begin_timer(TimerWait* wait) {
  if (wait->is_spinning)
    begin_wait(spinning_);
  else
    ++sleeping_;
  alarm(std::max(wait->at, now()), wait);
}

void SimWorker::begin_compute(Nanos span, std::coroutine_handle<> waiter) {
  LOCH_CHECK(!computing_, "one coroutine of a worker computes at a time");
  const SimFaults& weak = sim_.config.faults;
  if (weak.interrupted > 0 && sim_.may_fault() && interrupt_rng_.chance(weak.interrupted))
    span += static_cast<Nanos>(interrupt_rng_.below(static_cast<std::uint64_t>(weak.interrupted_span) + 1));
  charge(span);
  computing_ = waiter;
  wake_.needs[0] = waiter.address();
  wake(busy_until_);
}

void SimWorker::begin_watch(WatchWait* wait) {
  std::uint32_t index = 0;
  const Region* region = wait->set.count > 0 ? wait->set.region : wait->word.region;
  LOCH_CHECK(region->node() == node(), "node {} watches memory of node {}", node(), region->node());
  const auto end_at_once = [&](WatchOutcome outcome) {
    wait->result = {outcome, index};
    run_queue_.push(wait->waiter);
    wake(now());
  };
  if (is_ready(*wait, &index)) return end_at_once(WatchOutcome::ready);
  if (wait->set.count == 0 && wait->word.peer && !connected(*wait->word.peer)) {
    return end_at_once(WatchOutcome::link_down);
  }
  if (sim_.stopping) return end_at_once(WatchOutcome::stopping);
  if (wait->deadline <= now()) return end_at_once(WatchOutcome::timed_out);
  SimWatch* watch = sim_.watches.take();
  *watch = SimWatch{};
  watch->wait = wait;
  watch->worker = this;
  watch->region = static_cast<SimRegion*>(const_cast<Region*>(region));
  // A wait for a set of slots is checked when any word of a slot changes, because the words before a slot's
  // polled word may be written after the polled word.
  const std::uint64_t first = wait->set.offset + 8;
  const std::uint64_t begin =
      wait->set.count > 0 ? first - std::min<std::uint64_t>(first, wait->set.stride) : wait->word.offset;
  const std::uint64_t last =
      wait->set.count > 0 ? std::uint64_t{wait->set.stride} * (wait->set.count - 1) : 0;
  wait->fabric = watch;
  const std::uint64_t end = (wait->set.count > 0 ? wait->set.offset + last : wait->word.offset) + 8;
  watch->region->add_watch({begin, end, watch});
  watch->next_of_worker = watches_;
  if (watches_ != nullptr) watches_->previous_of_worker = watch;
  watches_ = watch;
  begin_wait(watching_);
  need_alarm(wait->deadline);
}

bool SimWorker::is_ready(const WatchWait& wait, std::uint32_t* index) const {
  if (wait.set.count == 0) {
    const bool equal =
        (load_word(wait.word.region->at(wait.word.offset)) & wait.word.mask) == wait.word.value;
    return equal == wait.word.until_equal;
  }
  const WatchSet& set = wait.set;
  for (std::uint32_t i = 0; i < set.count; ++i) {
    std::uint32_t at = wait.start + i;
    if (at >= set.count) at %= set.count;
    const std::uint64_t word = load_word(set.region->at(set.offset + std::uint64_t{set.stride} * at));
    if (set.known != nullptr && (word == 0 || word == set.known[at])) continue;
    if (set.ready(set.context, at, word)) {
      *index = at;
      return true;
    }
  }
  return false;
}

void SimWorker::begin_receive(ReceiveWait* wait) {
  if (Ring<Received>& messages = received_[index_of(wait->transport)]; !messages.empty() && receiving_ == 0) {
    // the poll that found the preceding message also found this one, so that no further poll is charged
    wait->result = messages.pop();
    charge(sim_.timing.completion);
    run_queue_.push(wait->waiter);
    return wake(busy_until_);
  }
  ReceiveWait** last = &receive_first_;
  while (*last != nullptr) last = &(*last)->next;
  wait->next = nullptr;
  *last = wait;
  begin_wait(receiving_);
  if (sim_.stopping || !received_[index_of(wait->transport)].empty() || wait->deadline <= now())
    notice();
  else
    need_alarm(wait->deadline);
}

void SimWorker::begin_reconnect(ReconnectWait* wait) {
  wait->next = reconnects_;
  reconnects_ = wait;
  begin_wait(reconnecting_);
  need_alarm(now() + 1);
}

void SimWorker::received(Transport transport, const Received& message) {
  received_[index_of(transport)].push(message);
  if (receiving_ > 0) notice();
}

void SimWorker::completed(SimRequest* r) {
  sim_.note(Effect::completed, node(), sim_.now(), static_cast<std::uint64_t>(r->status));
  if (is_dead_ || r->wr->sink == nullptr || r->owns_wr) {
    if (!is_dead_ && !r->owns_wr) {
      r->wr->status = r->status;
      if (r->status == WcStatus::success) r->wr->result = r->result;
    }
    return Stages::release(r);
  }
  r->next_waiting = nullptr;
  (completions_first_ == nullptr ? completions_first_ : completions_last_->next_waiting) = r;
  completions_last_ = r;
  wake_.needs[1] = r->wr;
  notice();
}

void SimWorker::connection_failed(NodeId peer) {
  Peer& link = peers_[peer];
  if (!link.is_connected) return;
  link.is_connected = false;
  for (SimWatch* watch = watches_; watch != nullptr;) {
    SimWatch* next = watch->next_of_worker;
    const WatchWait& wait = *watch->wait;
    if (wait.set.count == 0 && wait.word.peer == peer) finish(watch, WatchOutcome::link_down, 0);
    watch = next;
  }
  // An error of one RC queue pair breaks the connection: all queue pairs of the worker to this peer go into
  // error.
  for (std::uint32_t lane = 0; lane < lanes(); ++lane) {
    QueuePair* qp = rc_queue_pair(peer, lane);
    if (qp == nullptr || qp->is_error) continue;
    qp->is_error = true;
    Stages::retire(sim_, qp);
  }
}

void SimWorker::memory_changed(SimRegion* region, std::uint64_t begin, std::uint64_t end) {
  const std::vector<SimRegion::Watched>& polled = region->watches();
  std::size_t left = polled.size();
  while (left > 0) {
    // Compares [begin, end) with the ranges that up to 64 waits poll, without branches, which would be
    // unpredictable.
    const std::size_t first = left > 64 ? left - 64 : 0;
    std::uint64_t changed = 0;
// SSE2 has no shifts and compares of 64-bit words, so that vectorized code would be slower
#pragma clang loop vectorize(disable)
    for (std::size_t i = first; i < left; ++i) {
      // [begin, end) overlaps the polled range if begin < polled.end and polled.begin < end: then both
      // differences are negative.
      changed |= ((begin - polled[i].end) & (polled[i].begin - end)) >> 63 << (i - first);
    }
    for (; changed != 0; changed &= ~(std::uint64_t{1} << (std::bit_width(changed) - 1))) {
      SimWatch* const latest = polled[first + static_cast<std::size_t>(std::bit_width(changed)) - 1].watch;
      latest->worker->candidate(latest);
    }
    left = first;
  }
}

void SimWorker::candidate(SimWatch* watch) {
  if (is_dead_ || watch->is_candidate) return;
  std::uint32_t index = 0;
  if (watch->wait->set.count == 0 && !is_ready(*watch->wait, &index)) return;
  watch->is_candidate = true;
  watch->next_candidate = nullptr;
  (candidates_first_ == nullptr ? candidates_first_ : candidates_last_->next_candidate) = watch;
  candidates_last_ = watch;
  wake_.needs[0] = watch->wait->waiter.address();
  wake_.needs[1] = watch->wait;
  notice();
}

}  // namespace loch::fabric::sim
