// Simulates the parts of a cluster (SimConfig::threads) by one thread each, or by as many as there are
// processors for this process, each of which takes several parts in turn. All threads run the same windows
// of virtual time one after another and meet at the end of each: a window is no longer than the least delay
// of a message between two nodes, so that what a part sends to another one within a window arrives after its
// end.
//
// The result does not depend on the number of parts: the events of a node are ordered by what the node can
// compute (EventQueue::order_by_sender), events of different nodes at one instant do not concern each other,
// and whatever concerns all nodes (the end of the clients, a reset of the counters, an interrupt, the end of
// the run) happens at multiples of a fixed span, at which every window ends.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/sim/report.h"
#include "common/fabric/sim/simulation.h"

namespace loch::fabric::sim {

// Refuses what cannot be simulated with SimConfig::threads.
[[nodiscard]] Result<> check_threads(const SimConfig& config);

class Threads {
 public:
  // The objects have to outlive the run.
  Threads(Cluster& cluster, const std::vector<std::unique_ptr<Simulation>>& parts,
          const std::atomic<bool>& is_interrupted, Books* books);
  [[nodiscard]] Result<RunEnd> run();
  void end_tasks();  // destroys the coroutines of all workers that have not finished
  [[nodiscard]] bool is_running() const { return is_running_; }
  // Resets all counters at the next multiple of `control`. May be called by any of the threads.
  void want_reset() { resets_wanted_.fetch_add(1, std::memory_order_relaxed); }

 private:
  // What a thread tells the others of its parts at the end of a window, or what all of them tell.
  struct Sum {
    Nanos next = forever;  // lower bound of the time of the next event, of these parts or by their messages
    std::uint32_t tasks = 0, clients = 0, resets = 0;
    bool is_interrupted = false, has_client_on_core = false, has_given_up = false;
  };
  // With the number of windows that the thread has ended, in one cache line, for which the others wait.
  struct alignas(64) Told : Sum {
    std::atomic<std::uint64_t> windows{0};
  };
  // They are used in turn: one thread may tell already what another one will read after the next windows.
  struct Place {
    Told told[Outbox::windows];
  };
  static_assert(sizeof(Told) == 64);
  // A thread's position in virtual time; equal in all threads at the end of the same window.
  struct Position {
    std::uint64_t window = 0;  // number of the window, which also says which slot of the outboxes is filled
    std::uint64_t taken = 0;   // what was sent in the windows before this one has been taken in
    Nanos end = 0;             // end of the window
    Nanos control_at = 0;      // the next multiple of `control`
    std::uint32_t resets_done = 0;
    bool is_stopping = false, has_begun = false;
  };
  enum class Next : std::uint8_t { window, finished, deadlock, given_up };

  RunEnd run_parts(std::size_t thread);
  void run_window(Simulation& part, const Position& at);
  void reset(const Simulation& part);
  void tell(std::size_t thread, const std::vector<Simulation*>& own, const Position& at);
  [[nodiscard]] static bool is_meeting(const Position& at);
  void await(std::uint64_t window);
  [[nodiscard]] Sum meet(std::uint64_t window);
  void sleep_until_ended(const Told& told, std::uint64_t window);
  void take_in(Simulation& part, std::uint64_t window) const;
  [[nodiscard]] Next next_window(const Sum& all, Position* at) const;
  void stop_workers(Simulation& part);

  Cluster& cluster_;
  const std::vector<std::unique_ptr<Simulation>>& parts_;
  const std::atomic<bool>& is_interrupted_;
  Books* books_;
  // Length of a window: half of the least delay of a message between two nodes.
  const Nanos step_;
  // Every multiple of this span is the end of a window at which all threads meet.
  const Nanos control_;
  std::vector<std::uint64_t> allocations_;  // by part: what its pools had allocated at the latest reset
  std::vector<Place> places_;               // one for each thread
  std::atomic<std::uint32_t> resets_wanted_{0};
  bool is_running_ = false;
  // threads that sleep until another one ends its window
  alignas(64) std::atomic<std::uint32_t> sleepers_{0};
  alignas(64) std::mutex mutex_;
  std::condition_variable has_ended_;
};

}  // namespace loch::fabric::sim
