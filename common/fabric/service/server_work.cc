// Wraps server workers: a coroutine of the wrapper's own is resumed first when a wait for requests ends.
#include "common/fabric/service/server_work.h"

#include <algorithm>
#include <coroutine>
#include <exception>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/fabric/decorator.h"

namespace loch::fabric {
namespace {

class BusyWorker final : public WrappedWorker {
 public:
  BusyWorker(Worker* inner, Nanos work) : WrappedWorker(inner), work_(work), delay_(delay(this).handle) {}
  ~BusyWorker() override { delay_.destroy(); }
  BusyWorker(const BusyWorker&) = delete;
  BusyWorker& operator=(const BusyWorker&) = delete;

  void begin_watch(WatchWait* wait) override {
    if (wait->set.count != 0) {
      watch_ = wait;
      wait->waiter = instead_of(wait->waiter);
    }
    WrappedWorker::begin_watch(wait);
  }
  void begin_receive(ReceiveWait* wait) override {
    receive_ = wait;
    wait->waiter = instead_of(wait->waiter);
    WrappedWorker::begin_receive(wait);
  }

 private:
  // A coroutine that is never finished: it is destroyed with its worker.
  struct Delay {
    struct promise_type {
      Delay get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
      std::suspend_always initial_suspend() noexcept { return {}; }
      std::suspend_always final_suspend() noexcept { return {}; }
      void return_void() noexcept {}
      void unhandled_exception() noexcept { std::terminate(); }
    };
    std::coroutine_handle<> handle;
  };
  // Resumes the server, and suspends the delay until the server's next wait has ended.
  struct ToServer {
    BusyWorker& worker;
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> /*self*/) const noexcept {
      return std::exchange(worker.server_, {});
    }
    void await_resume() const noexcept {}
  };

  static Delay delay(BusyWorker* self) {
    for (;;) {
      if (self->has_request()) co_await self->inner().compute(self->work_);
      co_await ToServer{*self};
    }
  }
  std::coroutine_handle<> instead_of(std::coroutine_handle<> server) {
    LOCH_CHECK(server_ == nullptr);  // a server worker waits for requests in one place
    server_ = server;
    return delay_;
  }
  bool has_request() {
    const WatchWait* const watch = std::exchange(watch_, nullptr);
    const ReceiveWait* const receive = std::exchange(receive_, nullptr);
    return (watch != nullptr && watch->result.outcome == WatchOutcome::ready) ||
           (receive != nullptr && receive->result.outcome == Received::Outcome::message);
  }

  Nanos work_;
  std::coroutine_handle<> delay_, server_;
  WatchWait* watch_ = nullptr;
  ReceiveWait* receive_ = nullptr;
};

class BusyFabric final : public ForwardingFabric<> {
 public:
  BusyFabric(std::unique_ptr<Fabric> inner, Nanos work) : ForwardingFabric(std::move(inner)), work_(work) {}

  [[nodiscard]] Result<Worker*> add_worker(const WorkerSpec& spec) override {
    LOCH_ASSIGN(Worker * worker, inner().add_worker(spec));
    if (spec.role != Role::server) return worker;
    servers_.push_back(std::make_unique<BusyWorker>(worker, work_));
    return servers_.back().get();
  }
  void start(Worker& worker, coro::Task<void> main) override {
    const auto found =
        std::ranges::find(servers_, &worker, [](const auto& server) -> Worker* { return server.get(); });
    inner().start(found == servers_.end() ? worker : (*found)->inner(), std::move(main));
  }

 private:
  Nanos work_;
  std::vector<std::unique_ptr<BusyWorker>> servers_;
};

}  // namespace

std::unique_ptr<Fabric> assume_server_work(std::unique_ptr<Fabric> inner, Nanos work) {
  return std::make_unique<BusyFabric>(std::move(inner), work);
}

}  // namespace loch::fabric
