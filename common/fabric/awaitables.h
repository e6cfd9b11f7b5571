// The awaitables that Worker's functions return: each holds a WorkRequest or one of the wait structs of
// waits.h. Included by worker.h; include worker.h instead.
#pragma once

#include "common/base/check.h"
#include "common/fabric/worker.h"

namespace loch::fabric {

// Awaits a request's completion. A request that the worker executes at once has none: the coroutine goes on,
// or queues up behind the others that are ready.
class Worker::Operation : CompletionSink {
 public:
  Operation(Worker& worker, const WorkRequest& request) : worker_(worker), request_(request) {}
  // Builds the request of one_sided() inside this awaitable, so that no request is copied.
  Operation(Worker& worker, Verb verb, const RemoteRegion& remote, std::uint64_t offset, LocalSlice local,
            std::uint32_t length, OpStats* stats)
      : worker_(worker), request_(one_sided(verb, remote, offset, local, length, stats)) {}
  Operation(const Operation&) = delete;
  bool await_ready() {
    is_done_ = worker_.execute_at_once(request_);
    return is_done_ && worker_.goes_on();
  }
  void await_suspend(std::coroutine_handle<> waiter) {
    if (is_done_) return worker_.run_queue().push(waiter);
    waiter_ = waiter;
    fn = [](CompletionSink* self, WorkRequest&) {
      auto* operation = static_cast<Operation*>(self);
      operation->worker_.run_queue().push(operation->waiter_);
    };
    request_.is_signaled = true;
    request_.next = nullptr;
    request_.sink = this;
    worker_.post(&request_);
  }
  [[nodiscard]] Completion await_resume() const noexcept {
    if (is_done_) return {};
    return {request_.status, request_.result};
  }

 private:
  Worker& worker_;
  WorkRequest request_;
  std::coroutine_handle<> waiter_;
  bool is_done_ = false;  // whether the request was executed at once
};

class Worker::Chain : CompletionSink {
 public:
  Chain(Worker& worker, std::span<WorkRequest> requests) : worker_(worker), requests_(requests) {}
  Chain(const Chain&) = delete;
  bool await_ready() const noexcept { return requests_.empty(); }
  void await_suspend(std::coroutine_handle<> waiter) {
    waiter_ = waiter;
    fn = [](CompletionSink* self, WorkRequest&) {
      auto* chain = static_cast<Chain*>(self);
      if (--chain->left_ == 0) chain->worker_.run_queue().push(chain->waiter_);
    };
    LOCH_CHECK(requests_.back().is_signaled, "the last request of a chain is signaled");
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      WorkRequest& request = requests_[i];
      request.next = i + 1 < requests_.size() ? &requests_[i + 1] : nullptr;
      request.sink = request.is_signaled ? this : nullptr;
      if (request.is_signaled) ++left_;
    }
    worker_.post(&requests_.front());
  }
  [[nodiscard]] WcStatus await_resume() const noexcept {
    for (const WorkRequest& request : requests_) {
      if (request.status != WcStatus::success) return request.status;
    }
    return WcStatus::success;
  }

 private:
  Worker& worker_;
  std::span<WorkRequest> requests_;
  std::coroutine_handle<> waiter_;
  std::size_t left_ = 0;
};

class Worker::Sleep {
 public:
  Sleep(Worker& worker, Nanos at, bool is_spinning) : worker_(worker) {
    wait_.at = at;
    wait_.is_spinning = is_spinning;
  }
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    wait_.waiter = waiter;
    worker_.begin_timer(&wait_);
  }
  void await_resume() const noexcept {}

 private:
  Worker& worker_;
  TimerWait wait_;
};

class Worker::Compute {
 public:
  Compute(Worker& worker, Nanos span) : worker_(worker), span_(span) {}
  bool await_ready() const noexcept { return span_ <= 0; }
  void await_suspend(std::coroutine_handle<> waiter) { worker_.begin_compute(span_, waiter); }
  void await_resume() const noexcept {}

 private:
  Worker& worker_;
  Nanos span_;
};

class Worker::WatchOne {
 public:
  WatchOne(Worker& worker, const WatchWord& word, Nanos deadline) : worker_(worker) {
    wait_.word = word;
    wait_.deadline = deadline;
  }
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    wait_.waiter = waiter;
    worker_.begin_watch(&wait_);
  }
  [[nodiscard]] WatchOutcome await_resume() const noexcept { return wait_.result.outcome; }

 private:
  Worker& worker_;
  WatchWait wait_;
};

class Worker::WatchMany {
 public:
  WatchMany(Worker& worker, const WatchSet& set, std::uint32_t start, Nanos deadline) : worker_(worker) {
    wait_.set = set;
    wait_.start = start;
    wait_.deadline = deadline;
  }
  bool await_ready() { return worker_.watch_at_once(wait_); }
  void await_suspend(std::coroutine_handle<> waiter) {
    wait_.waiter = waiter;
    worker_.begin_watch(&wait_);
  }
  // By its parts, as they were stored: a load of both at once would wait until the store buffer is empty, and
  // thus for cache lines of other cores that are to be written.
  [[nodiscard]] WatchAny await_resume() const noexcept {
    return {.outcome = wait_.result.outcome, .index = wait_.result.index};
  }

 private:
  Worker& worker_;
  WatchWait wait_;
};

class Worker::Receive {
 public:
  Receive(Worker& worker, Transport transport, Nanos deadline) : worker_(worker) {
    wait_.transport = transport;
    wait_.deadline = deadline;
  }
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    wait_.waiter = waiter;
    worker_.begin_receive(&wait_);
  }
  [[nodiscard]] Received await_resume() const noexcept { return wait_.result; }

 private:
  Worker& worker_;
  ReceiveWait wait_;
};

class Worker::Reconnect {
 public:
  Reconnect(Worker& worker, NodeId peer, Nanos deadline) : worker_(worker) {
    wait_.peer = peer;
    wait_.deadline = deadline;
  }
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    wait_.waiter = waiter;
    worker_.begin_reconnect(&wait_);
  }
  [[nodiscard]] bool await_resume() const noexcept { return wait_.connected; }

 private:
  Worker& worker_;
  ReconnectWait wait_;
};

inline Worker::Operation Worker::execute(const WorkRequest& request) { return Operation(*this, request); }
inline Worker::Operation Worker::read(const RemoteRegion& source, std::uint64_t offset,
                                      LocalSlice destination, std::uint32_t length, OpStats* stats) {
  return {*this, Verb::read, source, offset, destination, length, stats};
}
inline Worker::Operation Worker::write(const RemoteRegion& target, std::uint64_t offset, LocalSlice source,
                                       std::uint32_t length, OpStats* stats) {
  return {*this, Verb::write, target, offset, source, length, stats};
}
inline Worker::Operation Worker::cas(const RemoteRegion& target, std::uint64_t offset, std::uint64_t expected,
                                     std::uint64_t desired, OpStats* stats) {
  WorkRequest request = one_sided(Verb::cas, target, offset, {}, 8, stats);
  request.compare = expected;
  request.operand = desired;
  return Operation(*this, request);
}
inline Worker::Operation Worker::faa(const RemoteRegion& target, std::uint64_t offset, std::uint64_t add,
                                     OpStats* stats) {
  WorkRequest request = one_sided(Verb::faa, target, offset, {}, 8, stats);
  request.operand = add;
  return Operation(*this, request);
}
inline Worker::Chain Worker::post_and_wait(std::span<WorkRequest> requests) { return Chain(*this, requests); }
inline Worker::Sleep Worker::sleep_until(Nanos at) { return Sleep(*this, at, false); }
inline Worker::Sleep Worker::spin_until(Nanos at) { return Sleep(*this, at, true); }
inline Worker::Compute Worker::compute(Nanos span) { return Compute(*this, span); }
inline Worker::WatchOne Worker::watch(const WatchWord& word, Nanos deadline) {
  return WatchOne(*this, word, deadline);
}
inline Worker::WatchMany Worker::watch_any(const WatchSet& set, std::uint32_t start, Nanos deadline) {
  return WatchMany(*this, set, start, deadline);
}
inline Worker::Receive Worker::receive(Transport transport, Nanos deadline) {
  return Receive(*this, transport, deadline);
}
inline Worker::Reconnect Worker::reconnect(NodeId peer, Nanos deadline) {
  return Reconnect(*this, peer, deadline);
}

}  // namespace loch::fabric
