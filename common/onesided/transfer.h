// READs and CASes of tables on other nodes. They are awaited by polling a watermark, a bit in the last word
// of the request's local (landing) buffer, or by completion (Nessie, 2017, 4.1.1). A READ that fails is
// repeated once over a new connection.
#pragma once

#include <concepts>
#include <cstdint>
#include <new>
#include <optional>
#include <type_traits>

#include "common/onesided/landing.h"

namespace loch::onesided {

// The result of a transfer: the request's status; or, if polling its local (landing) buffer ended before the
// last word arrived, why the polling ended.
struct Ended {
  fabric::WcStatus status = fabric::WcStatus::success;  // valid if is_settled()
  // How the polling of the local (landing) buffer ended; `ready` if the request was awaited by completion.
  fabric::WatchOutcome outcome = fabric::WatchOutcome::ready;
  [[nodiscard]] bool is_settled() const { return outcome == fabric::WatchOutcome::ready; }
  [[nodiscard]] bool ok() const { return is_settled() && status == fabric::WcStatus::success; }
};

// Posts a request and waits for its end: for the watermark bit in the last word of its local (landing)
// buffer, or for its completion. An awaitable rather than a coroutine, because every operation awaits
// several. If the request has ended as soon as it is posted, as on a fabric that executes requests at once,
// the awaiting coroutine goes on without being suspended (Worker::goes_on()).
class Transfer {
 public:
  // `landing()` is where the request's last word lands (std::optional<Landing>); it is called only if the
  // request is not executed at once.
  template <std::invocable LandingOf>
  Transfer(fabric::Worker& worker, const fabric::WorkRequest& request, const LandingOf& landing)
      : worker_(worker), peer_(request.peer), is_here_(worker.execute_at_once(request)) {
    if (is_here_) [[unlikely]]
      return;
    const std::optional<Landing> found = landing();
    is_watched_ = found.has_value();
    if (is_watched_) {
      landing_ = *found;
      fabric::WorkRequest watched = request;
      post_watched(worker, watched, landing_);
      is_here_ = has_landed(landing_);
    } else {
      new (&operation_) fabric::Worker::Operation(worker, request);
    }
  }
  Transfer(const Transfer&) = delete;
  bool await_ready() const { return is_here_ && worker_.goes_on(); }
  void await_suspend(std::coroutine_handle<> waiter) {
    if (is_here_) {
      worker_.run_queue().push(waiter);
    } else if (is_watched_) {
      new (&watch_) fabric::Worker::WatchOne(watch_landing(worker_, landing_, peer_));
      watch_.await_suspend(waiter);
    } else {
      operation_.await_suspend(waiter);
    }
  }
  [[nodiscard]] Ended await_resume() const noexcept {
    if (is_here_) return {};
    if (is_watched_) return {.outcome = watch_.await_resume()};
    return {.status = operation_.await_resume().status};
  }

 private:
  using Watch = fabric::Worker::WatchOne;
  using Operation = fabric::Worker::Operation;
  static_assert(std::is_trivially_destructible_v<Watch> && std::is_trivially_destructible_v<Operation>);

  fabric::Worker& worker_;
  Landing landing_;
  fabric::NodeId peer_;
  // which member of the union a suspended coroutine uses: watch_ (true) or operation_
  bool is_watched_ = false;
  bool is_here_;  // whether the request had ended as soon as it was posted
  union {
    Watch watch_;
    Operation operation_;
  };
};

// The interface of a READ that may be repeated: a protocol says where its tables are and how it reconnects.
template <typename T>
concept RepeatableRead = std::copy_constructible<T> && requires(T read) {
  { read.worker() } -> std::same_as<fabric::Worker&>;  // the worker that issues the READ
  // The request for the next try; nullopt: the table cannot be read now. The try's node is the one that
  // flush() and reconnect() refer to.
  { read.request() } -> std::same_as<std::optional<fabric::WorkRequest>>;
  // The local (landing) buffer that the READ fills, and the watermark bit in its last word; nullopt: the READ
  // is awaited by its completion.
  { read.landing() } -> std::same_as<std::optional<Landing>>;
  // A READ of 8 bytes to be posted after the last try on the same queue pair: its completion shows that the
  // try has ended.
  { read.flush() } -> std::same_as<fabric::WorkRequest>;
  // Called if the READ's watermark bit was not seen in time although the connection is up.
  { read.count_late() } -> std::same_as<void>;
  // Connects anew to the node of the last try; false: it cannot be reached.
  { read.reconnect() } -> std::same_as<coro::Task<bool>>;
};

// Handles a first try that did not end well: determines its status, connects anew, and tries once more.
// Returns true if the bytes are in the local buffer.
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
    const Ended again = co_await Transfer(worker, *request, [&] { return reading.landing(); });
    ended = again;
  }
}

}  // namespace loch::onesided
