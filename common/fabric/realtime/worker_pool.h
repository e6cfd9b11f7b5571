// The threads of this process's workers: one each, from start() to the end of its main, with the CPU
// time that it took. Control path: used by a real-time fabric on its set-up thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "common/fabric/fabric.h"
#include "common/fabric/realtime/worker.h"

namespace loch::fabric::realtime {

// Cores that this process may run on.
[[nodiscard]] std::uint32_t usable_cores();
// 0 when the clock's thread is gone.
[[nodiscard]] Nanos read_clock(clockid_t clock);

class WorkerPool {
 public:
  // `pin`: a worker whose spec names a core stays on it. `shared` outlives the worker pool.
  WorkerPool(Shared* shared, std::uint32_t nodes, bool pin);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Null when the index is taken on its node.
  RealtimeWorker* add(std::unique_ptr<RealtimeWorker> worker);
  // A node's workers in order of adding.
  [[nodiscard]] std::vector<RealtimeWorker*> workers(NodeId node) const;
  void start(Worker& worker, coro::Task<void> main);
  // Mains that were started and have not run.
  [[nodiscard]] std::uint32_t started() const;
  // Runs every main on a thread of its own. `await_clients` returns when the clients of all processes
  // are done; then servers are told to stop and all threads are joined. `shares_cores`: workers that
  // poll in vain give their cores up.
  [[nodiscard]] RunEnd run(bool shares_cores, const std::function<void()>& await_clients);
  // Clients of this process whose mains have not ended.
  [[nodiscard]] std::uint32_t clients_left() const { return clients_left_; }
  // For run(): returns when their mains have ended, or after `within`. True: they have.
  bool await_own_clients(Nanos within = forever) const;

  void reset_counters();
  // Busy fractions, and "PREFIX.yields" and "PREFIX.sleeps".
  [[nodiscard]] NodeReport report(NodeId node, const std::string& prefix) const;

 private:
  struct Member;
  void thread_body(Member& member);
  void join();
  template <typename Visit>
  void each(Visit visit) const {
    for (const auto& node : workers_) {
      for (const auto& member : node) visit(*member);
    }
  }

  Shared* shared_;
  bool pin_;
  std::vector<std::vector<std::unique_ptr<Member>>> workers_;  // by node, in order of adding
  std::atomic<std::uint32_t> clients_left_ = 0;
  mutable std::mutex ending_;
  mutable std::condition_variable ended_;  // the last client's main
};

}  // namespace loch::fabric::realtime
