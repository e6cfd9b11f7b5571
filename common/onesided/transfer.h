// READs and CASes of tables on other nodes: awaited by watermark or by completion (Nessie, 2017, 4.1.1), and
// tried again once over a new connection.
#pragma once

#include <concepts>
#include <optional>
#include <variant>

#include "common/onesided/landing.h"

namespace loch::onesided {

// How a request ended, or that its watch ended before the request is known to have.
struct Ended {
  fabric::WcStatus status = fabric::WcStatus::success;         // valid if the request was settled
  fabric::WatchOutcome outcome = fabric::WatchOutcome::ready;  // of the watch, by watermark
  [[nodiscard]] bool is_settled() const { return outcome == fabric::WatchOutcome::ready; }
  [[nodiscard]] bool ok() const { return is_settled() && status == fabric::WcStatus::success; }
};

// Posts a request and waits for its end: by the watermark of the landing, or, without one, by its completion.
// An awaitable and no coroutine, for every operation awaits several.
class Transfer {
 public:
  Transfer(fabric::Worker& worker, fabric::WorkRequest request, const std::optional<Landing>& landing) {
    if (landing) {
      wait_.emplace<Watched>(worker, request, *landing);
    } else {
      wait_.emplace<Completed>(worker, request);
    }
  }
  Transfer(const Transfer&) = delete;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    if (auto* watched = std::get_if<Watched>(&wait_)) {
      watched->wait.await_suspend(waiter);
    } else {
      std::get<Completed>(wait_).wait.await_suspend(waiter);
    }
  }
  [[nodiscard]] Ended await_resume() const noexcept {
    if (const auto* watched = std::get_if<Watched>(&wait_)) return {.outcome = watched->wait.await_resume()};
    return {.status = std::get_if<Completed>(&wait_)->wait.await_resume().status};
  }

 private:
  struct Watched {
    Watched(fabric::Worker& worker, fabric::WorkRequest& request, const Landing& landing)
        : wait(post_watched(worker, request, landing)) {}
    fabric::Worker::WatchOne wait;
  };
  struct Completed {
    Completed(fabric::Worker& worker, const fabric::WorkRequest& request) : wait(worker.execute(request)) {}
    fabric::Worker::Operation wait;
  };
  std::variant<std::monostate, Watched, Completed> wait_;
};

// A READ that may be tried again: where a protocol's tables lie, and how it reaches their nodes.
template <typename T>
concept RepeatableRead = std::copy_constructible<T> && requires(T read) {
  { read.worker() } -> std::same_as<fabric::Worker&>;  // who reads
  // The request of the next try, to the node that is then the last try's; none: there is nowhere to read
  // from.
  { read.request() } -> std::same_as<std::optional<fabric::WorkRequest>>;
  // Where its watermark lands; none: it is awaited by completion.
  { read.landing() } -> std::same_as<std::optional<Landing>>;
  // A READ of 8 bytes behind the last try, on its queue pair.
  { read.flush() } -> std::same_as<fabric::WorkRequest>;
  // The watermark did not come in time, over a connection that stands.
  { read.count_late() } -> std::same_as<void>;
  // A connection to the last try's node; false: it cannot be reached.
  { read.reconnect() } -> std::same_as<coro::Task<bool>>;
};

// What follows a first try that did not end well: what has become of it, a new connection and a second try.
// True: the bytes are where the landing says.
template <RepeatableRead Reading>
[[nodiscard]] coro::Task<bool> try_again(Reading reading, Ended ended) {
  fabric::Worker& worker = reading.worker();
  for (bool is_last = false;; is_last = true) {
    if (!ended.is_settled()) {
      if (ended.outcome != fabric::WatchOutcome::link_down) reading.count_late();
      const fabric::WcStatus settled = co_await settle(&worker, ended.outcome, reading.flush());
      ended = {.status = settled};
    }
    if (ended.ok()) co_return true;
    const bool is_back = co_await reading.reconnect();
    if (!is_back || is_last) co_return false;
    const std::optional<fabric::WorkRequest> request = reading.request();
    if (!request) co_return false;
    const Ended again = co_await Transfer(worker, *request, reading.landing());
    ended = again;
  }
}

}  // namespace loch::onesided
