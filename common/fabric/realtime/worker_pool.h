// The workers of this process with the threads that run their main coroutines during run(), one for each
// worker, and the CPU time of these threads. Control path: called by a real-time fabric on its set-up thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/fabric/fabric.h"
#include "common/fabric/realtime/worker.h"

namespace loch::fabric::realtime {

// Nanoseconds that the CPU clock of a thread shows; 0 if the thread has ended.
[[nodiscard]] Nanos read_clock(clockid_t clock);

class WorkerPool {
 public:
  // `pin`: pins each worker to the core that its spec names, if any. `shared` has to outlive the pool.
  WorkerPool(Shared* shared, std::uint32_t nodes, bool pin);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Adds a worker; returns null if the node already has a worker with this index.
  RealtimeWorker* add(std::unique_ptr<RealtimeWorker> worker);
  // A node's workers, in the order in which they were added.
  [[nodiscard]] std::vector<RealtimeWorker*> workers(NodeId node) const;
  void start(Worker& worker, coro::Task<void> main);
  // Number of workers that were given a main coroutine by start() and whose thread has not been joined since.
  [[nodiscard]] std::uint32_t started() const;
  // Runs every main coroutine on a thread of its own. `await_clients` returns when the clients of all
  // processes have ended; then servers are told to stop, and all threads are joined. `shares_cores`: workers
  // whose polling finds nothing yield their cores.
  [[nodiscard]] RunEnd run(bool shares_cores, const std::function<void()>& await_clients);
  // Like run(), but if workers have not ended `ended_most` ns after `await_clients` returned (3 s after an
  // interrupt), the process ends with one line that names them and the fabric.
  [[nodiscard]] RunEnd run_bounded(std::string_view fabric, bool shares_cores, Nanos ended_most,
                                   const std::function<void()>& await_clients);
  // The nodes, in ascending order, of this process's clients whose main coroutines have not ended.
  [[nodiscard]] std::vector<std::uint32_t> nodes_of_running_clients() const;
  // Number of this process's clients whose main coroutines have not ended.
  [[nodiscard]] std::uint32_t clients_left() const { return clients_left_; }
  // For run() of a fabric whose clients all belong to this process: returns true when the main coroutines of
  // all clients have ended, and false after `within` ns.
  bool await_own_clients(Nanos within = forever) const;

  // Number of workers whose threads are pinned to the core that their spec names.
  [[nodiscard]] std::uint32_t pinned() const { return pinned_; }

  void reset_counters();
  // Reports for a node which fraction of the time its workers had a core, and the counters "PREFIX.yields"
  // and "PREFIX.sleeps".
  [[nodiscard]] NodeReport report(NodeId node, const std::string& prefix) const;

 private:
  struct Member;
  void thread_body(Member& member);
  [[nodiscard]] std::string running() const;
  void join();
  template <typename Visit>
  void each(Visit visit) const {
    for (const auto& node : workers_) {
      for (const auto& member : node) visit(*member);
    }
  }

  Shared* shared_;
  bool pin_;
  // for each node, its workers in the order in which they were added
  std::vector<std::vector<std::unique_ptr<Member>>> workers_;
  std::atomic<std::uint32_t> clients_left_ = 0;
  std::atomic<std::uint32_t> pinned_ = 0;
  mutable std::mutex ending_;
  mutable std::condition_variable ended_;  // signaled when the main coroutine of the last client ends
};

}  // namespace loch::fabric::realtime
