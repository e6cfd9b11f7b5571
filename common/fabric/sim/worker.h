// A simulated worker: one thread of its node. Its coroutines run at the instants at which it polls. Posting
// and computing keep it busy, and it does not poll while its thread is not on a core.
#pragma once

#include <coroutine>
#include <cstdint>
#include <string>
#include <vector>

#include "common/coro/root.h"
#include "common/fabric/fabric.h"
#include "common/fabric/sim/simulation.h"
#include "common/fabric/sim/tracing.h"

namespace loch::fabric::sim {

// A ring buffer that grows as needed.
template <typename T>
class Ring {
 public:
  void push(const T& item) {
    if (size_ == items_.size()) grow();
    items_[(head_ + size_++) & (items_.size() - 1)] = item;
  }
  [[nodiscard]] T pop() {
    const T item = items_[head_];
    head_ = (head_ + 1) & (items_.size() - 1);
    --size_;
    return item;
  }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }

 private:
  void grow() {
    std::vector<T> larger(items_.empty() ? 16 : items_.size() * 2);
    for (std::size_t i = 0; i < size_; ++i) larger[i] = items_[(head_ + i) & (items_.size() - 1)];
    items_ = std::move(larger);
    head_ = 0;
  }
  std::vector<T> items_;
  std::size_t head_ = 0, size_ = 0;
};

struct PostedReceive {
  LocalSlice buffer;
  std::uint32_t length = 0;
  std::uint64_t user = 0;
};

class SimWorker final : public Worker {
 public:
  // upper bound of a worker's queue pairs to one peer; also the number of its datagram queues
  static constexpr std::uint32_t most_lanes = 64;

  SimWorker(Simulation& sim, SimNode& node, const WorkerSpec& spec, const Capabilities& capabilities);
  ~SimWorker() override;

  Nanos now() const override { return busy_until_ > sim_.now() ? busy_until_ : sim_.now(); }
  Nanos node_clock() const override;
  bool stopping() const override { return sim_.stopping; }
  const Capabilities& capabilities() const override { return capabilities_; }
  void do_post(WorkRequest* chain) override;
  void do_post_detached(const WorkRequest& request) override;
  void post_recv(Transport transport, LocalSlice buffer, std::uint32_t length, std::uint64_t user) override;
  void store_word(Region& region, std::uint64_t offset, std::uint64_t value) override;
  void do_mark(std::string_view what, Nanos start) override {
    write_mark(sim_, *this, what, start, now() - start);
  }
  bool connected(NodeId peer) const override { return peers_[peer].is_connected; }
  std::uint32_t epoch(NodeId peer) const override { return peers_[peer].epoch; }
  void begin_timer(TimerWait* wait) override;
  void begin_watch(WatchWait* wait) override;
  void begin_receive(ReceiveWait* wait) override;
  void begin_reconnect(ReconnectWait* wait) override;
  void begin_compute(Nanos span, std::coroutine_handle<> waiter) override;

  // ---- Called by other parts of the simulation -----------------------------------------------
  void connect_all();
  void start(coro::Task<void> main);
  void end_task();  // at the end of a run: destroys coroutines that have not finished
  void kill();      // kills the worker between two instructions, as a crash does
  // ends the worker's waits for memory words and messages, so that servers leave their loops
  void tell_to_stop();
  void completed(
      SimRequest* request);         // a request has ended: queues its completion if a coroutine waits for it
  void candidate(SimWatch* watch);  // called when the memory word for which `watch` waits has changed
  // Called when the bytes [begin, end) of a region have changed: notifies the workers that poll them, first
  // the one that began to poll last.
  static void memory_changed(SimRegion* region, std::uint64_t begin, std::uint64_t end);
  void received(Transport transport, const Received& message);
  void connection_failed(NodeId peer);
  [[nodiscard]] Ring<PostedReceive>& receives(Transport transport) { return posted_[index_of(transport)]; }
  [[nodiscard]] bool is_dead() const { return is_dead_; }
  [[nodiscard]] bool is_running() const { return is_started_ && !has_ended_ && !is_dead_; }
  void fence();  // from now on none of the worker's posted requests takes effect
  // takes the worker's requests out of the count SimNode::posted (posted and unanswered) when its node's NIC
  // lost them
  void forget_posted();
  [[nodiscard]] std::string waits_for() const;  // what the worker waits for, for reporting a deadlock
  [[nodiscard]] SimNode& home() { return node_; }
  // Prefetches the worker's cache lines that are read when a completion arrives and is polled.
  void prefetch() const {
    for (std::size_t at = 0; at < 320; at += 64) prefetch_line(&wake_, at);
  }
  [[nodiscard]] SimThread* thread() { return thread_; }
  // The context of the worker's first datagram queue in its own NIC, used for sending to and receiving from
  // all peers.
  [[nodiscard]] CachedContext* datagram_context() { return &datagram_context_; }

 private:
  struct Wake : Event {
    SimWorker* worker = nullptr;
  };
  struct Peer {
    bool is_connected = true;
    std::uint32_t epoch = 0;
  };
  static std::size_t index_of(Transport transport) { return static_cast<std::size_t>(transport); }
  static void on_wake(Event* event);
  static void on_alarm(Event* event);
  static void on_scheduled(SimThread* thread);
  static void on_descheduled(SimThread* thread);
  // Runs the worker's main coroutine, which end_task() may destroy at any time.
  static coro::Root own(coro::Task<void> main, SimWorker* worker);

  void main_ended();
  void wake(Nanos at);  // schedules run() for `at`, or for when the worker is free and on a core
  // Wakes the worker now; to be called as the last action of an event. If the worker's wake-up would be the
  // next event anyway, calls run() directly instead of scheduling one.
  void wake_or_run();
  // a completion, a message or a change of awaited memory has arrived: schedules run() after the time of a
  // poll
  void notice();
  void run();
  void poll();
  void poll_watches();
  void poll_receives();
  void poll_reconnects();
  void expire_waits();
  // makes the thread runnable or blocked, depending on whether the worker polls or sleeps
  void update_thread();
  void begin_wait(std::uint32_t& kind) {
    ++kind;
    ++polled_for_;
  }
  void end_wait(std::uint32_t& kind) {
    --kind;
    --polled_for_;
  }
  void alarm(Nanos at, TimerWait* timer);
  void need_alarm(Nanos deadline);
  void finish(SimWatch* watch, WatchOutcome outcome, std::uint32_t index);
  bool is_ready(const WatchWait& wait, std::uint32_t* index) const;
  void charge(Nanos span);
  // CPU time of work that takes `span` on an idle node, given the hardware threads that are busy now.
  [[nodiscard]] Nanos slowed(Nanos span) const {
    return sim_.timing.crowding.empty() ? span : slowed_by_others(span);
  }
  [[nodiscard]] Nanos slowed_by_others(Nanos span) const;
  [[nodiscard]] Nanos hand_over(const WorkRequest& first, const QueuePair& qp, bool has_mmio);
  // `awaited`: the same work request, if a coroutine waits for it; null: the simulation keeps a copy
  void post_one(QueuePair* qp, const WorkRequest& posted, WorkRequest* awaited, bool has_mmio, Nanos at);
  [[nodiscard]] QueuePair* queue_pair(const WorkRequest& wr);
  void count_queue_pair(const QueuePair& qp, std::uint32_t by);
  [[nodiscard]] QueuePair* rc_queue_pair(NodeId peer, std::uint32_t lane) const {
    return queue_pairs_[lane * std::size_t{2} * peers_.size() + peer];
  }
  // Number of RC (and of UC) queue pairs that the worker may have to each peer; the table queue_pairs_ has
  // places for them.
  [[nodiscard]] std::uint32_t lanes() const {
    return static_cast<std::uint32_t>(queue_pairs_.size() / (2 * peers_.size()));
  }
  // Prefetches the worker's first RC queue pair to the peer, for posting on it.
  void prefetch_queue_pair(NodeId peer) const {
    if (peer >= peers_.size()) return;
    const QueuePair* const qp = rc_queue_pair(peer, 0);
    prefetch_line(qp, 0);
    prefetch_line(qp, 64);
  }
  [[nodiscard]] bool local_buffer_is_good(const WorkRequest& wr) const;

  // The members that run() reads are stored first, in three cache lines, beginning with the event that calls
  // run().
  alignas(64) Wake wake_;
  bool wake_is_pending_ = false;
  bool has_work_ = false;  // true: run() has to be called when the thread is on a core again
  // true: the delay of the scheduled run() includes a poll and the handling of one completion, so that poll()
  // does not charge them again
  bool has_paid_ = false;
  bool has_ended_ = false, is_dead_ = false;
  bool is_inside_ = false;  // run() is resuming the worker's coroutines
  // whether the thread is on a core; copied from the thread's object, because reading that would cost a cache
  // miss
  bool is_on_core_ = false;
  bool is_fenced_ = false;
  Simulation& sim_;
  SimNode& node_;
  SimThread* thread_ = nullptr;
  Nanos busy_until_ = 0;
  SimRequest* completions_first_ = nullptr;
  SimRequest* completions_last_ = nullptr;
  SimWatch* candidates_first_ = nullptr;
  SimWatch* candidates_last_ = nullptr;
  std::coroutine_handle<> computing_;
  coro::RunQueue run_queue_;
  // Indexed by lane (number among the queue pairs to one peer), transport (RC, UC) and peer; grows with the
  // lanes that are used.
  std::vector<QueuePair*> queue_pairs_;
  std::vector<QueuePair*> datagram_queue_pairs_;  // indexed by number of the UD queue pair
  bool is_started_ = false;
  SimWatch* watches_ = nullptr;
  // number of waits for which the worker has to poll: the sum of the counts below, without sleeping_
  std::uint32_t polled_for_ = 0;
  std::uint32_t outstanding_ = 0, watching_ = 0, receiving_ = 0, spinning_ = 0, sleeping_ = 0,
                reconnecting_ = 0;
  Nanos next_alarm_ = forever;  // time of the earliest alarm that is pending for a deadline
  const Capabilities& capabilities_;
  Nanos work_left_ = 0;  // CPU time of the current work that was left when the worker was preempted
  std::coroutine_handle<> main_;
  CpuCosts cpu_costs_;
  Ring<PostedReceive> posted_[3];
  Ring<Received> received_[3];
  ReceiveWait* receive_first_ = nullptr;
  ReconnectWait* reconnects_ = nullptr;
  CachedContext datagram_context_;
  std::vector<Peer> peers_;
  Rng poll_rng_;
  Rng interrupt_rng_;
  // largest delay of a poll: random jitter, and the lag of a worker that is starved of its core
  Nanos late_by_ = 0;
};

}  // namespace loch::fabric::sim
