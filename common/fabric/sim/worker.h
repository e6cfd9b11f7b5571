// A simulated worker: one thread of its node. Its coroutines run at the instants at which it polls;
// posting and computing keep it busy; while it is not on a core it polls nothing.
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

// A ring that grows while it warms up.
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
  static constexpr std::uint32_t most_lanes = 16;  // queue pairs to a peer; and of datagrams, in all

  SimWorker(Simulation& sim, SimNode& node, const WorkerSpec& spec, const Capabilities& capabilities);
  ~SimWorker() override;

  coro::RunQueue& run_queue() override { return run_queue_; }
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

  // ---- For the rest of the simulation ---------------------------------------------------------
  void connect_all();
  void start(coro::Task<void> main);
  void end_task();                      // at the end of a run: destroys what did not finish
  void kill();                          // dies between two instructions
  void tell_to_stop();                  // watches and receives end
  void completed(SimRequest* request);  // a completion is in its queue
  void candidate(SimWatch* watch);      // memory under a watch has changed
  // Bytes [begin, end) of a region have changed: who polls them may look again, the latest first.
  static void memory_changed(SimRegion* region, std::uint64_t begin, std::uint64_t end);
  void received(Transport transport, const Received& message);
  void connection_failed(NodeId peer);
  [[nodiscard]] Ring<PostedReceive>& receives(Transport transport) { return posted_[index_of(transport)]; }
  [[nodiscard]] bool is_dead() const { return is_dead_; }
  [[nodiscard]] bool is_running() const { return is_started_ && !has_ended_ && !is_dead_; }
  void fence();                                 // no posted request takes effect any more
  [[nodiscard]] std::string waits_for() const;  // for the report of a deadlock
  [[nodiscard]] SimNode& home() { return node_; }
  // Prefetches the cache lines that a completion and the following turn read.
  void prefetch() const {
    prefetch_line(&wake_, 0);
    prefetch_line(&wake_, 64);
  }
  [[nodiscard]] SimThread* thread() { return thread_; }
  // Of its first datagram queue, which serves every peer: one context in its own NIC, sending and receiving.
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
  // Owns the worker's main; end_task() may destroy it at any time.
  static coro::Root own(coro::Task<void> main, SimWorker* worker);

  void main_ended();
  void wake(Nanos at);  // runs at `at`, or when it is free and on a core
  void notice();        // something arrived: polled after the poll's time
  void run();
  void poll();
  void poll_watches();
  void poll_receives();
  void poll_reconnects();
  void expire_waits();
  void update_thread();  // polling or asleep
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
  [[nodiscard]] Nanos hand_over(const WorkRequest& first, bool has_mmio);
  void post_one(WorkRequest* wr, bool owns, bool has_mmio, Nanos at);
  [[nodiscard]] QueuePair* queue_pair(const WorkRequest& wr);
  [[nodiscard]] QueuePair* rc_queue_pair(NodeId peer, std::uint32_t lane) const {
    return queue_pairs_[lane * peers_.size() + peer];
  }
  // What posting to the peer looks at, if that is on the first lane.
  void prefetch_queue_pair(NodeId peer) const {
    if (peer < peers_.size()) prefetch_line(rc_queue_pair(peer, 0), 0);
  }
  [[nodiscard]] bool local_buffer_is_good(const WorkRequest& wr) const;

  // The members that a turn reads come first, from the event that starts it on: three cache lines.
  alignas(64) Wake wake_;
  bool wake_is_pending_ = false;
  bool has_work_ = false;  // arrived while it was not on a core
  bool has_paid_ = false;  // the pending wake is a poll's, and includes handling one completion
  bool has_ended_ = false, is_dead_ = false;
  bool is_inside_ = false;   // the worker's coroutines are running
  bool is_on_core_ = false;  // copy of the thread's state, kept here for the cache
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
  std::vector<QueuePair*> queue_pairs_;  // [transport RC/UC][lane][peer]; the datagram queues are last
  bool is_started_ = false;
  SimWatch* watches_ = nullptr;
  std::uint32_t polled_for_ = 0;  // the sum of the counts below, sleeping_ excepted
  std::uint32_t outstanding_ = 0, watching_ = 0, receiving_ = 0, spinning_ = 0, sleeping_ = 0,
                reconnecting_ = 0;
  Nanos next_alarm_ = forever;  // the earliest deadline alarm that is pending
  const Capabilities& capabilities_;
  Nanos work_left_ = 0;  // CPU time left to charge when the worker was preempted
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
  Nanos late_by_ = 0;  // polls, at most: jitter, and a straggler's lag
};

}  // namespace loch::fabric::sim
