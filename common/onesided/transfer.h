// READs and CASes of tables on other nodes. They are awaited by polling a watermark, a bit in the landing
// buffer's last word, or by completion (Nessie, 2017, 4.1.1). A READ that fails is repeated once over a new
// connection.
#pragma once

#include <concepts>
#include <optional>
#include <variant>

#include "common/onesided/landing.h"

namespace loch::onesided {

// The result of a transfer: the request's status, or that its watch ended while the status is still unknown.
struct Ended {
  fabric::WcStatus status = fabric::WcStatus::success;  // valid if is_settled()
  // The outcome of the watch of the landing buffer; `ready` if the request was awaited by completion.
  fabric::WatchOutcome outcome = fabric::WatchOutcome::ready;
  [[nodiscard]] bool is_settled() const { return outcome == fabric::WatchOutcome::ready; }
  [[nodiscard]] bool ok() const { return is_settled() && status == fabric::WcStatus::success; }
};

// Posts a request and waits for its end: for the watermark bit in its landing buffer, or for its completion.
// An awaitable rather than a coroutine, because every operation awaits several.
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

// The interface of a READ that may be repeated: a protocol says where its tables are and how it reconnects.
template <typename T>
concept RepeatableRead = std::copy_constructible<T> && requires(T read) {
  { read.worker() } -> std::same_as<fabric::Worker&>;  // the worker that issues the READ
  // The request for the next try; nullopt: the table cannot be read now. The try's node is the one that
  // flush() and reconnect() refer to.
  { read.request() } -> std::same_as<std::optional<fabric::WorkRequest>>;
  // The landing buffer and its watermark bit; nullopt: the READ is awaited by its completion.
  { read.landing() } -> std::same_as<std::optional<Landing>>;
  // A READ of 8 bytes to be posted after the last try on the same queue pair.
  { read.flush() } -> std::same_as<fabric::WorkRequest>;
  // Called if the READ's watermark bit was not seen in time although the connection is up.
  { read.count_late() } -> std::same_as<void>;
  // Connects anew to the node of the last try; false: it cannot be reached.
  { read.reconnect() } -> std::same_as<coro::Task<bool>>;
};

// Handles a first try that did not end well: determines its status, connects anew, and tries once more.
// Returns true if the bytes are in the landing buffer.
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
