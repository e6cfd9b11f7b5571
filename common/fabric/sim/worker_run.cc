// Runs a simulated worker: decides when it polls, handles what a poll finds, and yields or blocks its core.
#include <algorithm>

#include <fmt/format.h>

#include "common/coro/scope.h"
#include "common/fabric/sim/stage_costs.h"
#include "common/fabric/sim/worker.h"

namespace loch::fabric::sim {
namespace {
constexpr Nanos reconnect_try = 50'000;  // ns between attempts to connect
}  // namespace

coro::Root SimWorker::own(coro::Task<void> main, SimWorker* worker) {
  co_await std::move(main);
  worker->main_ended();
}

void SimWorker::start(coro::Task<void> main) {
  LOCH_CHECK(!is_started_, "worker {} is started once", spec().name);
  is_started_ = true;
  main_ = own(std::move(main), this).handle;
  run_queue_.push(main_);
  ++sim_.live_tasks;
  if (spec().role == Role::client) ++sim_.live_clients;
  has_work_ = true;
  node_.cpu->wake(thread_);
}

void SimWorker::main_ended() {
  has_ended_ = true;
  --sim_.live_tasks;
  if (spec().role == Role::client) --sim_.live_clients;
}

void SimWorker::end_task() {
  if (!main_) return;
  coro::Abandon abandon;  // with it, destroying `main` also destroys the coroutines of its open scopes
  const std::coroutine_handle<> main = std::exchange(main_, {});
  main.destroy();
}

void SimWorker::kill() {
  if (is_dead_) return;
  if (is_running()) {
    --sim_.live_tasks;
    if (spec().role == Role::client) --sim_.live_clients;
  }
  is_dead_ = true;
  is_on_core_ = false;
  node_.cpu->end(thread_);
  while (watches_ != nullptr) {
    SimWatch* watch = watches_;
    watches_ = watch->next_of_worker;
    watch->region->remove_watch(watch);
  }
}

void SimWorker::on_scheduled(SimThread* thread) {
  auto* self = static_cast<SimWorker*>(thread->owner());
  Simulation& sim = self->sim_;
  if (self->spec().role == Role::client) sim.has_client_on_core = true;
  self->is_on_core_ = true;
  if (self->work_left_ > 0) self->busy_until_ = sim.now() + self->work_left_;
  self->work_left_ = 0;
  if (self->has_work_ || !self->run_queue_.empty() || self->computing_) self->wake(sim.now());
}

void SimWorker::on_descheduled(SimThread* thread) {
  auto* self = static_cast<SimWorker*>(thread->owner());
  self->is_on_core_ = false;
  self->work_left_ = std::max<Nanos>(0, self->busy_until_ - self->sim_.now());
  self->has_work_ = true;
}

void SimWorker::notice() {
  // A completion or message is seen at the worker's next poll and handled after that; a busy worker does not
  // poll.
  Nanos at = handled_at(sim_.timing, sim_.now(), busy_until_);
  at += slowed(sim_.timing.completion) - sim_.timing.completion;
  if (sim_.has_faults && late_by_ > 0 && sim_.may_fault()) {
    at += static_cast<Nanos>(poll_rng_.below(static_cast<std::uint64_t>(late_by_) + 1));
  }
  if (!is_inside_ && !wake_is_pending_) has_paid_ = true;
  wake(at);
}

void SimWorker::wake(Nanos at) {
  if (is_dead_ || is_inside_) return;  // run() is active, and itself schedules the next call at its end
  if (!is_on_core_) {
    has_work_ = true;
    if (thread_->state() == ThreadState::blocked) node_.cpu->wake(thread_);
    return;
  }
  if (wake_is_pending_) return;
  wake_is_pending_ = true;
  constexpr std::size_t line = 64 / sizeof(QueuePair*);
  // Prefetches the table of queue pairs, because the resumed coroutine will probably post a request.
  __builtin_prefetch(queue_pairs_.data());
  prefetch_line(queue_pairs_.data(), line * sizeof queue_pairs_[0]);
  sim_.queue.push(&wake_, std::max({at, busy_until_, sim_.now()}));
}

void SimWorker::wake_or_run() {
  const bool is_free = is_on_core_ && !wake_is_pending_ && busy_until_ <= sim_.now();
  if (is_free && sim_.queue.is_next_at_now()) {
    sim_.queue.leave_out();
    return run();
  }
  wake(sim_.now());
}

void SimWorker::on_wake(Event* event) {
  SimWorker* self = static_cast<Wake*>(event)->worker;
  self->wake_is_pending_ = false;
  self->run();
}

void SimWorker::run() {
  if (is_dead_) return;
  if (!is_on_core_) {
    has_work_ = true;
    return;
  }
  if (busy_until_ > sim_.now()) return wake(busy_until_);
  has_work_ = false;
  is_inside_ = true;
  if (computing_)
    std::exchange(computing_, {}).resume();
  else
    poll();
  // Resumes one coroutine after another, until one takes CPU time.
  while (!run_queue_.empty() && busy_until_ <= sim_.now() && !is_dead_) run_queue_.pop().resume();
  is_inside_ = false;
  if (is_dead_) return;
  if (computing_ || !run_queue_.empty()) return wake(busy_until_);
  if (completions_first_ != nullptr || candidates_first_ != nullptr) return notice();
  if (receiving_ > 0) {
    for (const ReceiveWait* wait = receive_first_; wait != nullptr; wait = wait->next) {
      const bool is_due = sim_.stopping || wait->deadline <= now();
      if (is_due || !received_[index_of(wait->transport)].empty()) return notice();
    }
  }
  update_thread();
}

void SimWorker::poll() {
  Nanos handling = std::exchange(has_paid_, false) ? -sim_.timing.completion : 0;
  while (completions_first_ != nullptr) {
    handling += sim_.timing.completion;
    SimRequest* r = completions_first_;
    completions_first_ = r->next_waiting;
    WorkRequest* wr = r->wr;
    wr->status = r->status;
    if (r->status == WcStatus::success) wr->result = r->result;
    end_wait(outstanding_);
    sim_.note(Effect::handled, node(), sim_.now(), index());
    Stages::release(r);
    wr->sink->fn(wr->sink, *wr);
  }
  if (handling > 0) charge(handling);
  if (candidates_first_ != nullptr) poll_watches();
  if (receiving_ > 0) poll_receives();
}

void SimWorker::poll_watches() {
  SimWatch* watch = std::exchange(candidates_first_, nullptr);
  while (watch != nullptr) {
    SimWatch* next = watch->next_candidate;
    watch->is_candidate = false;
    std::uint32_t index = 0;
    if (is_ready(*watch->wait, &index)) finish(watch, WatchOutcome::ready, index);
    watch = next;
  }
}

// Ends a wait for a memory word: unlinks it and makes the waiting coroutine ready.
void SimWorker::finish(SimWatch* watch, WatchOutcome outcome, std::uint32_t index) {
  watch->region->remove_watch(watch);
  (watch->previous_of_worker != nullptr ? watch->previous_of_worker->next_of_worker : watches_) =
      watch->next_of_worker;
  if (watch->next_of_worker != nullptr) watch->next_of_worker->previous_of_worker = watch->previous_of_worker;
  // The wait ends for another reason than a change of the awaited memory, and must leave the list of waits
  // whose memory has changed.
  if (watch->is_candidate) {
    SimWatch** link = &candidates_first_;
    SimWatch* before = nullptr;
    while (*link != watch) {
      before = *link;
      link = &(*link)->next_candidate;
    }
    *link = watch->next_candidate;
    if (candidates_last_ == watch) candidates_last_ = before;
  }
  watch->wait->result = {outcome, index};
  sim_.note(Effect::watched, node(), sim_.now(),
            std::uint64_t{this->index()} << 8 | static_cast<std::uint64_t>(outcome));
  run_queue_.push(watch->wait->waiter);
  end_wait(watching_);
  sim_.watches.give(watch);
  wake(sim_.now());
}

void SimWorker::poll_receives() {
  for (ReceiveWait** link = &receive_first_; *link != nullptr;) {
    ReceiveWait* wait = *link;
    Ring<Received>& messages = received_[index_of(wait->transport)];
    if (!messages.empty()) {
      wait->result = messages.pop();
      wait->result.outcome = Received::Outcome::message;
      sim_.note(Effect::taken, node(), sim_.now(), index());
    } else if (sim_.stopping) {
      wait->result.outcome = Received::Outcome::stopping;
    } else if (wait->deadline <= sim_.now()) {
      wait->result.outcome = Received::Outcome::timed_out;
    } else {
      link = &wait->next;
      continue;
    }
    *link = wait->next;
    end_wait(receiving_);
    run_queue_.push(wait->waiter);
  }
}

void SimWorker::poll_reconnects() {
  for (ReconnectWait** link = &reconnects_; *link != nullptr;) {
    ReconnectWait* wait = *link;
    Peer& peer = peers_[wait->peer];
    SimNode& target = *sim_.nodes[wait->peer];
    const bool can = sim_.reachable(node_, target) && !is_fenced_;
    if (!peer.is_connected && can) {
      for (std::uint32_t lane = 0; lane < lanes(); ++lane) {
        QueuePair* qp = rc_queue_pair(wait->peer, lane);
        if (qp != nullptr) sim_.reset(qp);
      }
      peer.is_connected = true;
      ++peer.epoch;
    }
    wait->connected = peer.is_connected;
    if (!peer.is_connected && wait->deadline > sim_.now() && !sim_.stopping) {
      link = &wait->next;
      continue;
    }
    *link = wait->next;
    end_wait(reconnecting_);
    run_queue_.push(wait->waiter);
  }
  if (reconnects_ != nullptr) need_alarm(sim_.now() + reconnect_try);
}

void SimWorker::alarm(Nanos at, TimerWait* timer) {
  WorkerAlarm* alarm = sim_.alarms.take();
  alarm->worker = this;
  alarm->timer = timer;
  alarm->fire = &SimWorker::on_alarm;
  alarm->needs[0] = &wake_;
  alarm->needs[1] = timer;
  alarm->needs[2] = &polled_for_;
  sim_.queue.push(alarm, at);
}

// One pending alarm, the earliest, serves all deadlines of a worker, because most deadlines are never
// reached.
void SimWorker::need_alarm(Nanos deadline) {
  if (deadline >= next_alarm_) return;
  next_alarm_ = deadline;
  alarm(std::max(deadline, sim_.now()), nullptr);
}

void SimWorker::on_alarm(Event* event) {
  auto* alarm = static_cast<WorkerAlarm*>(event);
  SimWorker* self = alarm->worker;
  TimerWait* timer = alarm->timer;
  const Nanos at = alarm->at;
  self->sim_.alarms.give(alarm);
  if (self->is_dead_) return;
  if (timer != nullptr) {
    if (timer->is_spinning)
      self->end_wait(self->spinning_);
    else
      --self->sleeping_;
    self->run_queue_.push(timer->waiter);
    return self->wake_or_run();
  }
  if (at != self->next_alarm_) return;  // another alarm with an earlier deadline has replaced this one
  self->next_alarm_ = forever;
  self->expire_waits();
}

void SimWorker::expire_waits() {
  const Nanos at = sim_.now();
  for (SimWatch* watch = watches_; watch != nullptr;) {
    SimWatch* next = watch->next_of_worker;
    if (watch->wait->deadline <= at)
      finish(watch, WatchOutcome::timed_out, 0);
    else
      need_alarm(watch->wait->deadline);
    watch = next;
  }
  if (reconnects_ != nullptr) poll_reconnects();
  for (const ReceiveWait* wait = receive_first_; wait != nullptr; wait = wait->next) {
    if (wait->deadline > at) need_alarm(wait->deadline);
  }
  poll_receives();
  if (!run_queue_.empty()) wake(at);
}

void SimWorker::tell_to_stop() {
  if (is_dead_) return;
  for (SimWatch* watch = watches_; watch != nullptr;) {
    SimWatch* next = watch->next_of_worker;
    finish(watch, WatchOutcome::stopping, 0);
    watch = next;
  }
  poll_receives();
  if (!run_queue_.empty()) wake(sim_.now());
}

void SimWorker::update_thread() {
  if (!has_ended_ && polled_for_ > 0) return;
  is_on_core_ = false;
  if (has_ended_)
    node_.cpu->end(thread_);
  else
    node_.cpu->block(thread_);
}

std::string SimWorker::waits_for() const {
  return fmt::format("{} of node {}: {} completions, {} watches, {} receives, {} reconnections, {} timers",
                     spec().name, node(), outstanding_, watching_, receiving_, reconnecting_,
                     spinning_ + sleeping_);
}

}  // namespace loch::fabric::sim
