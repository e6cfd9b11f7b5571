// Polls the sockets for which coroutines of a worker wait, and ends waits that have reached their deadline.
#include "baselines/reactor.h"

#include <poll.h>
#include <time.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/coro/scope.h"

namespace loch::baselines {
namespace {

constexpr Nanos look_at_the_end = 500'000;  // ns between checks whether the run has ended
constexpr Nanos nap = 10'000'000;           // longest ppoll in ns while every client waits for a reply
// Longest ppoll in ns while some client sleeps until its next operation is due.
constexpr Nanos short_nap = 20'000;

}  // namespace

struct Reactor::Turn {
  coro::RunQueue& queue;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> self) const noexcept { queue.push(self); }
  void await_resume() const noexcept {}
};

struct Reactor::NextWait {
  Reactor& self;
  bool await_ready() const noexcept { return self.waits_ != nullptr || self.is_ending_; }
  void await_suspend(std::coroutine_handle<> handle) const noexcept { self.idle_ = handle; }
  void await_resume() const noexcept {}
};

Reactor::Reactor(fabric::Worker& worker) : worker_(worker) {}
Reactor::~Reactor() = default;

void Reactor::add(Source* source) {
  sources_.push_back(source);
  ++changes_;
}

void Reactor::remove(Source* source) {
  std::erase(sources_, source);
  ++changes_;
}

void Reactor::begin(Wait* wait) {
  wait->is_done = false;
  wait->waiter = {};
  wait->next = waits_;
  waits_ = wait;
  ++waiting_;
  fruitless_ = 0;
  if (idle_) worker_.run_queue().push(std::exchange(idle_, {}));
}

void Reactor::finish(Wait* wait) {
  if (wait->is_done) return;
  Wait** at = &waits_;
  while (*at != nullptr && *at != wait) at = &(*at)->next;
  LOCH_CHECK(*at == wait, "a wait that nobody began");
  *at = wait->next;
  --waiting_;
  wait->is_done = true;
  if (wait->waiter) worker_.run_queue().push(std::exchange(wait->waiter, {}));
}

coro::Task<void> Reactor::run(const bool* done) {
  coro::Scope scope(worker_.run_queue());
  scope.spawn(pump());
  while (!*done) co_await worker_.sleep_until(worker_.now() + look_at_the_end);
  is_ending_ = true;
  if (idle_) worker_.run_queue().push(std::exchange(idle_, {}));
  co_await scope.join();
}

coro::Task<void> Reactor::pump() {
  while (true) {
    co_await NextWait{*this};
    if (waits_ == nullptr && is_ending_) break;
    const bool moved = poll(patience());
    fruitless_ = moved ? 0 : fruitless_ + 1;
    expire();
    co_await Turn{worker_.run_queue()};
  }
}

// How long ppoll may block, in ns: not at all until two polls in a row were without an event, because until
// then a coroutine of this worker may be able to run.
Nanos Reactor::patience() const {
  if (fruitless_ < 2) return 0;
  if (waiting_ < clients_) return short_nap;
  Nanos first = fabric::forever;
  for (const Wait* wait = waits_; wait != nullptr; wait = wait->next) first = std::min(first, wait->deadline);
  if (first == fabric::forever) return nap;
  return std::clamp<Nanos>(first - worker_.now(), 0, nap);
}

bool Reactor::poll(Nanos longest) {
  polled_.clear();
  for (const Source* source : sources_)
    polled_.push_back({.fd = source->fd, .events = source->events, .revents = 0});
  const timespec within{longest / 1'000'000'000, longest % 1'000'000'000};
  const int ready = ::ppoll(polled_.data(), polled_.size(), &within, nullptr);
  if (ready <= 0) return false;  // an interrupted poll counts as one without events
  const std::uint64_t changes = changes_;
  for (std::size_t i = 0; i < polled_.size(); ++i) {
    if (polled_[i].revents == 0) continue;
    sources_[i]->ready(sources_[i], polled_[i].revents);
    // the callback has changed sources_; the next poll reports the other ready sources
    if (changes != changes_) break;
  }
  return true;
}

void Reactor::expire() {
  const Nanos now = worker_.now();
  for (Wait* wait = waits_; wait != nullptr;) {
    if (wait->deadline > now) {
      wait = wait->next;
      continue;
    }
    wait->expired(wait);
    wait = waits_;  // ending one wait may have ended others, so start again
  }
}

}  // namespace loch::baselines
