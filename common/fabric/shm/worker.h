// The data path of shm: one worker is one thread. post() carries a request out at once, on the
// issuing thread; its completion waits in the worker's queue until the worker's next turn. Nothing
// here allocates, locks, throws or enters the kernel per operation once warm; the kernel is entered
// to sleep (sleep_until), and, when there are more workers than cores, to give a core up after a
// number of fruitless polls.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/coro/run_queue.h"
#include "common/fabric/fabric.h"
#include "common/fabric/shm/job.h"
#include "common/fabric/shm/receive_ring.h"

namespace loch::fabric::shm {

// A region as a requester reaches it.
struct MappedRegion {
  enum Rights : std::uint32_t { can_read = 1, can_write = 2, can_atomic = 4 };
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint32_t rkey = 0;
  std::uint32_t rights = 0;
};

// A node as a requester reaches it; fixed by exchange().
struct NodeTable {
  std::vector<MappedRegion> regions;        // by region id
  std::vector<ReceiveArea*> receive_areas;  // by worker index
};

// What the workers of this process share; fixed while they run, the atomics excepted.
struct Shared {
  Capabilities capabilities;
  std::vector<NodeTable> nodes;
  Job* job = nullptr;  // several processes
  Nanos clock_base = 0;
  std::atomic<bool> stopping = false;
  std::atomic<bool> interrupted = false;
  std::atomic<bool> deadlocked = false;
  std::atomic<bool> is_crowded = false;  // more running workers than cores
  [[nodiscard]] bool is_lost(NodeId node) const { return job != nullptr && job->is_lost(node); }
  [[nodiscard]] Nanos now() const;
};

class ShmWorker final : public Worker {
 public:
  // An RC SEND to a peer without a receive buffer fails after this long.
  static constexpr Nanos rnr_patience = 1'000'000'000;
  static constexpr std::uint32_t max_inline_bytes = 256;

  ShmWorker(const WorkerSpec& spec, std::uint64_t seed, Shared* shared, ReceiveArea* receive_area);

  [[nodiscard]] coro::RunQueue& run_queue() override { return run_queue_; }
  [[nodiscard]] Nanos now() const override { return shared_->now(); }
  [[nodiscard]] Nanos node_clock() const override { return shared_->now(); }
  [[nodiscard]] bool stopping() const override { return shared_->stopping.load(std::memory_order_relaxed); }
  [[nodiscard]] const Capabilities& capabilities() const override { return shared_->capabilities; }

  void post(WorkRequest* chain) override;
  void post_detached(const WorkRequest& request) override;
  void post_recv(Transport transport, LocalSlice buffer, std::uint32_t length, std::uint64_t user) override;
  void store_word(Region& region, std::uint64_t offset, std::uint64_t value) override;
  [[nodiscard]] bool connected(NodeId peer) const override;
  [[nodiscard]] std::uint32_t epoch(NodeId peer) const override { return links_.at(peer).epoch; }
  void begin_timer(TimerWait* wait) override;
  void begin_watch(WatchWait* wait) override;
  void begin_receive(ReceiveWait* wait) override;
  void begin_reconnect(ReconnectWait* wait) override;
  void begin_compute(Nanos span, std::coroutine_handle<> waiter) override;

  // Control path. Called before the threads start.
  void connect(std::uint32_t nodes);
  void add_region(Region* region) { regions_.push_back(region); }  // by id, of this node
  // The thread's body: runs `main` to its end. False: nothing of this worker can ever go on again.
  [[nodiscard]] bool run(coro::Task<void>* main);

  // How often this worker gave its core up; readable from any thread.
  std::atomic<std::uint64_t> yields = 0, sleeps = 0;

 private:
  // The RC queue pairs to one peer, one bit a lane.
  struct Link {
    std::uint64_t failed_lanes = 0;
    std::uint64_t stalled_lanes = 0;  // a SEND waits for a receive buffer, later requests behind it
    std::uint32_t epoch = 1;
  };
  // What must outlive post(): a detached request, and inline data.
  struct Copy {
    WorkRequest request;
    std::byte inline_data[max_inline_bytes];
  };
  struct Stalled {
    WorkRequest* request;
    Copy* copy;      // null: the request's own memory holds everything
    Nanos deadline;  // 0: not tried yet
    bool is_detached;
  };
  enum class Attempt : std::uint8_t { done, not_ready };

  void submit(WorkRequest& request, bool is_detached);
  // Carries the request out; sets request.status when done. `inline_data`: where the payload is kept,
  // or null for the local buffer.
  [[nodiscard]] Attempt perform(WorkRequest& request, const std::byte* inline_data);
  [[nodiscard]] WcStatus one_sided(WorkRequest& request, const std::byte* inline_data);
  [[nodiscard]] Attempt deliver(WorkRequest& request, const std::byte* payload, std::uint32_t payload_bytes);
  [[nodiscard]] WcStatus check_local(const WorkRequest& request) const;
  void retire(WorkRequest& request, bool is_detached);
  void stall(WorkRequest& request, bool is_detached);

  bool poll_completions();
  bool poll_watches();
  bool poll_receives();
  bool poll_timers();
  bool poll_stalled();
  bool poll_reconnects();
  [[nodiscard]] bool watch_ended(WatchWait& wait);
  [[nodiscard]] bool find_ready(WatchWait& wait) const;
  bool poll_receive(std::size_t transport);
  void take(ReceiveWait& wait, const ReceiveSlot& slot);
  [[nodiscard]] bool turn();  // one round over everything; false when nothing moved
  [[nodiscard]] bool idle();  // nothing moved: pause, sleep, or false when nothing ever will
  void give_up_core();

  Shared* shared_;
  coro::RunQueue run_queue_;
  std::vector<Region*> regions_;
  std::vector<Link> links_;  // by node

  std::vector<WorkRequest*> completions_, completing_;  // swapped each turn
  std::vector<Stalled> stalled_;
  std::vector<std::unique_ptr<Copy>> copies_;
  std::vector<Copy*> free_copies_;
  ReceiveQueue receive_[3];
  std::uint32_t posted_receives_[3] = {};
  ReceiveWait* receivers_[3] = {};  // first in, first served
  WatchWait* watches_ = nullptr;
  TimerWait* timers_ = nullptr;  // soonest first
  std::uint32_t spinning_timers_ = 0;
  ReconnectWait* reconnects_ = nullptr;
  std::uint64_t turns_ = 0;
  std::uint32_t fruitless_turns_ = 0;
  Nanos time_ = 0;  // the clock as of a few turns ago
  bool main_ended_ = false;
};

}  // namespace loch::fabric::shm
