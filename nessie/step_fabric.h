// A fabric for tests that executes work requests one at a time, when the test says so: interleavings
// are scripts. Memory is sequentially consistent; a clock tick is one microsecond a request. Clients
// can be killed between any two requests, requests can fail with or without having executed, and
// each node's clock can be skewed.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/fabric/fabric.h"

namespace loch::nessie::testing {

class StepFabric;

class StepWorker final : public fabric::Worker {
 public:
  StepWorker(StepFabric& fabric, const fabric::WorkerSpec& spec, std::uint64_t seed);
  ~StepWorker() override;

  [[nodiscard]] coro::RunQueue& run_queue() override { return ready_; }
  [[nodiscard]] Nanos now() const override;
  [[nodiscard]] Nanos node_clock() const override;
  [[nodiscard]] bool stopping() const override { return false; }
  [[nodiscard]] const fabric::Capabilities& capabilities() const override;
  void post(fabric::WorkRequest* chain) override;
  void post_detached(const fabric::WorkRequest& request) override;
  void post_recv(fabric::Transport, fabric::LocalSlice, std::uint32_t, std::uint64_t) override;
  void store_word(fabric::Region& region, std::uint64_t offset, std::uint64_t value) override;
  [[nodiscard]] bool connected(fabric::NodeId peer) const override;
  [[nodiscard]] std::uint32_t epoch(fabric::NodeId peer) const override;
  void begin_timer(fabric::TimerWait* wait) override { timers_.push_back(wait); }
  void begin_watch(fabric::WatchWait* wait) override;
  void begin_receive(fabric::ReceiveWait*) override;
  void begin_reconnect(fabric::ReconnectWait* wait) override;
  void begin_compute(Nanos, std::coroutine_handle<> waiter) override { ready_.push(waiter); }

 private:
  friend StepFabric;
  struct Parked {
    fabric::WorkRequest request;             // a copy
    fabric::WorkRequest* awaited = nullptr;  // signaled: the original
  };
  // The main coroutine; destroying it destroys every frame that it waits for.
  struct Root {
    struct promise_type {
      Root get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
      std::suspend_always initial_suspend() noexcept { return {}; }
      std::suspend_always final_suspend() noexcept { return {}; }
      void return_void() noexcept {}
      void unhandled_exception() noexcept { std::terminate(); }
    };
    std::coroutine_handle<promise_type> handle;
  };
  static Root run(coro::Task<void> task) { co_await std::move(task); }
  void settle();

  StepFabric& fabric_;
  coro::RunQueue ready_;
  std::deque<Parked> parked_;
  std::vector<fabric::WatchWait*> watches_;
  std::vector<fabric::TimerWait*> timers_;
  std::map<fabric::NodeId, std::uint32_t> epochs_;
  std::map<fabric::NodeId, bool> broken_;
  std::coroutine_handle<Root::promise_type> main_;
  bool is_killed_ = false;
};

class StepFabric final : public fabric::Fabric {
 public:
  explicit StepFabric(std::uint32_t nodes, std::uint64_t seed = 1);
  ~StepFabric() override;

  // ---- scripts
  // Runs the worker until it has executed one more work request. False: its main has ended (or only
  // waits for time, and `lets_time_pass` is false).
  bool step(fabric::Worker& worker, bool lets_time_pass = true);
  // Runs until the main has ended; aborts after a million requests.
  void finish(fabric::Worker& worker);
  [[nodiscard]] bool is_done(fabric::Worker& worker) const;
  // The request that step() would execute next, or null.
  [[nodiscard]] const fabric::WorkRequest* next(fabric::Worker& worker);
  // The next request fails, and with it the connection to its peer.
  void fail_next(fabric::Worker& worker, bool takes_effect);
  // The worker never runs again; what it posted and was not executed is lost.
  void kill(fabric::Worker& worker);
  void advance(Nanos span) { now_ += span; }
  void skew(fabric::NodeId node, Nanos ahead) { skews_[node] = ahead; }
  void cut_off(fabric::NodeId node, bool is_cut) { cut_[node] = is_cut; }
  void set_in_order(bool in_order) { capabilities_.in_order_placement = in_order; }
  [[nodiscard]] Nanos now() const { return now_; }
  [[nodiscard]] std::uint64_t executed() const { return executed_; }

  // ---- the contract
  [[nodiscard]] const fabric::Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] std::uint32_t nodes() const override { return nodes_; }
  [[nodiscard]] bool is_local(fabric::NodeId) const override { return true; }
  [[nodiscard]] Result<fabric::Region*> register_region(fabric::NodeId node,
                                                        const fabric::RegionSpec& spec) override;
  [[nodiscard]] Result<fabric::Worker*> add_worker(const fabric::WorkerSpec& spec) override;
  [[nodiscard]] Result<> exchange(Nanos) override { return {}; }
  [[nodiscard]] Result<fabric::RemoteRegion> lookup(fabric::NodeId node,
                                                    std::string_view region) const override;
  [[nodiscard]] fabric::Region* direct(fabric::NodeId node, std::string_view region) override;
  [[nodiscard]] Result<> barrier(std::string_view, Nanos) override { return {}; }
  [[nodiscard]] Result<std::vector<std::string>> gather(const std::string& mine, Nanos) override {
    return std::vector<std::string>{mine};
  }
  void start(fabric::Worker& worker, coro::Task<void> main) override;
  [[nodiscard]] Result<fabric::RunEnd> run() override;
  void interrupt() override {}
  void reset_counters() override {}
  [[nodiscard]] fabric::FabricReport report() const override { return {}; }

 private:
  friend StepWorker;
  struct OwnedRegion {
    fabric::RegionSpec spec;
    std::vector<std::uint64_t> memory;
    std::unique_ptr<fabric::Region> region;
  };
  void execute(fabric::WorkRequest& request);
  void complete(StepWorker& worker, StepWorker::Parked& parked, fabric::WcStatus status);
  [[nodiscard]] StepWorker& own(fabric::Worker& worker) const { return static_cast<StepWorker&>(worker); }

  std::uint32_t nodes_;
  std::uint64_t seed_;
  fabric::Capabilities capabilities_;
  Nanos now_ = 1'000'000;
  std::uint64_t executed_ = 0;
  std::map<fabric::NodeId, Nanos> skews_;
  std::map<fabric::NodeId, bool> cut_;
  std::vector<std::vector<std::unique_ptr<OwnedRegion>>> regions_;  // by node and id
  std::vector<std::unique_ptr<StepWorker>> workers_;
};

}  // namespace loch::nessie::testing
