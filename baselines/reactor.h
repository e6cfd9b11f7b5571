// Waiting for sockets on a worker: coroutines register what they wait for, and one coroutine polls for all.
//
// A worker has one Reactor, used only on the worker's thread. While every client of the worker waits for a
// reply, the thread blocks in the kernel, so that it leaves its core to the servers of this machine. While
// some clients sleep until their next operation is due, the thread blocks for at most 20 us at a time, so
// that an operation begins at most about 20 us late. While a client can run, polling does not block.
#pragma once

#include <coroutine>
#include <cstdint>
#include <vector>

#include "common/coro/task.h"
#include "common/fabric/fabric.h"

struct pollfd;

namespace loch::baselines {

class Reactor {
 public:
  // A file descriptor that is polled for `events` while it is registered.
  struct Source {
    int fd = -1;
    short events = 0;
    void (*ready)(Source* self, short events) = nullptr;
  };
  // Something a coroutine waits for. finish() ends the wait; if it has not been called by the deadline,
  // `expired` is called, which has to cause a call of finish().
  struct Wait {
    Nanos deadline = fabric::forever;
    void (*expired)(Wait* self) = nullptr;
    bool is_done = false;
    std::coroutine_handle<> waiter;
    Wait* next = nullptr;
  };

  explicit Reactor(fabric::Worker& worker);
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  void add(Source* source);
  void remove(Source* source);
  void add_client() { ++clients_; }
  void remove_client() { --clients_; }

  void begin(Wait* wait);
  void finish(Wait* wait);
  // Suspends the caller until the wait is finished.
  [[nodiscard]] auto finished(Wait* wait) {
    struct Awaiter {
      Wait* wait;
      bool await_ready() const noexcept { return wait->is_done; }
      void await_suspend(std::coroutine_handle<> self) noexcept { wait->waiter = self; }
      void await_resume() const noexcept {}
    };
    return Awaiter{wait};
  }

  // Polls on behalf of all waiting coroutines. Runs as one coroutine of the worker beside its clients, and
  // returns soon after *done is set.
  [[nodiscard]] coro::Task<void> run(const bool* done);

 private:
  struct Turn;      // awaited to let the worker's other coroutines run once
  struct NextWait;  // suspends until a wait is registered or the run ends
  coro::Task<void> pump();
  [[nodiscard]] bool poll(Nanos longest);
  [[nodiscard]] Nanos patience() const;
  void expire();

  fabric::Worker& worker_;
  std::vector<Source*> sources_;
  std::vector<pollfd> polled_;
  std::uint64_t changes_ = 0;  // number of changes of sources_
  Wait* waits_ = nullptr;
  std::uint32_t waiting_ = 0, clients_ = 0;
  std::uint32_t fruitless_ = 0;  // number of polls in a row without an event
  std::coroutine_handle<> idle_;
  bool is_ending_ = false;
};

}  // namespace loch::baselines
