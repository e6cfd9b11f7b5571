// Waiting for sockets on a worker: its coroutines hand in what they wait for, one of them polls.
//
// A worker has one Reactor, and all of it is used on the worker's thread. While every client of the worker
// waits, the thread waits in the kernel, so that it takes no core from the servers of this machine; while
// some of them sleep until their next operation is due, it waits 20 us at a time, by which such an
// operation may begin late; while one of them works, it looks and goes on.
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
  // A descriptor that is polled while it is registered and has `events`.
  struct Source {
    int fd = -1;
    short events = 0;
    void (*ready)(Source* self, short events) = nullptr;
  };
  // Something a coroutine waits for. Whoever knows its end calls finish(); if nobody has done so at the
  // deadline, `expired` is called, which sees to it that somebody does.
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
  // Suspends until the wait is finished.
  [[nodiscard]] auto finished(Wait* wait) {
    struct Awaiter {
      Wait* wait;
      bool await_ready() const noexcept { return wait->is_done; }
      void await_suspend(std::coroutine_handle<> self) noexcept { wait->waiter = self; }
      void await_resume() const noexcept {}
    };
    return Awaiter{wait};
  }

  // Polls for all the others: one coroutine of the worker, alongside its clients, until soon after *done.
  [[nodiscard]] coro::Task<void> run(const bool* done);

 private:
  struct Turn;      // lets the worker's other coroutines go on
  struct NextWait;  // suspends until something is waited for, or the end
  coro::Task<void> pump();
  [[nodiscard]] bool poll(Nanos longest);
  [[nodiscard]] Nanos patience() const;
  void expire();

  fabric::Worker& worker_;
  std::vector<Source*> sources_;
  std::vector<pollfd> polled_;
  std::uint64_t changes_ = 0;  // of sources_
  Wait* waits_ = nullptr;
  std::uint32_t waiting_ = 0, clients_ = 0;
  std::uint32_t fruitless_ = 0;  // polls in a row
  std::coroutine_handle<> idle_;
  bool is_ending_ = false;
};

}  // namespace loch::baselines
