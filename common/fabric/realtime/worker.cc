// Runs one worker thread: its run queue, timers, waits for memory words, and the order in which it polls.
#include "common/fabric/realtime/worker.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "common/base/check.h"
#include "common/coro/root.h"
#include "common/fabric/memory.h"
#include "common/fabric/realtime/worker_pool.h"

namespace loch::fabric::realtime {
namespace {

// While a timer or a wait for a memory word has a deadline, the polling loop reads the clock once in this
// many iterations. As often it looks whether the connections of waits for memory words have failed.
constexpr std::uint64_t turns_per_clock = 8;
// Where workers share cores: number of iterations of the polling loop in a row that find nothing, after which
// a worker sleeps. After fewer such iterations (turns_before_yield) it yields its core.
constexpr std::uint32_t turns_before_nap = 20'000;
constexpr Nanos nap = 50'000;
// Longest sleep in ns. No doorbell announces a deadline or the end of the run, so a sleeping worker has to
// wake up to see them.
constexpr Nanos longest_sleep = 500'000;
// A yield that takes longer than this many ns has given the core to another program. The worker then sleeps
// instead of yielding for a while.
constexpr Nanos dear_yield = 1'000'000;
constexpr Nanos sleeping_span = 100'000'000;
// A sleep shorter than this many ns is spent polling, because the kernel's wake-up takes as long.
constexpr Nanos shortest_sleep = 3'000;
constexpr std::ptrdiff_t line = 64;  // bytes of a cache line

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

template <typename Wait>
void append(Wait*& list, Wait* wait) {
  wait->next = nullptr;
  Wait** at = &list;
  while (*at != nullptr) at = &(*at)->next;
  *at = wait;
}

// The first index in [from, to) whose word of the set differs from its known value; `to` if there is none.
// Four words are compared in each round. Words are prefetched, since each is in a cache line of its own.
// `first` is the set's first word.
[[gnu::always_inline]] inline std::uint32_t next_changed(const WatchSet& set, const std::byte* first,
                                                         std::uint32_t from, std::uint32_t to) {
  constexpr std::uint32_t words_ahead = 8;
  const std::uint64_t stride = set.stride;
  const std::byte* at = first + from * stride;
  const std::uint64_t* known = set.known + from;
  std::uint32_t index = from;
  for (; to - index >= 4; index += 4, at += 4 * stride, known += 4) {
    const std::byte* const ahead = at + words_ahead * stride;
    __builtin_prefetch(ahead);
    __builtin_prefetch(ahead + stride);
    __builtin_prefetch(ahead + 2 * stride);
    __builtin_prefetch(ahead + 3 * stride);
    if (load_word(at) != known[0]) return index;
    if (load_word(at + stride) != known[1]) return index + 1;
    if (load_word(at + 2 * stride) != known[2]) return index + 2;
    if (load_word(at + 3 * stride) != known[3]) return index + 3;
  }
  for (; index < to; ++index, at += stride, ++known) {
    if (load_word(at) != *known) return index;
  }
  return to;
}

// Runs a worker's main coroutine, a Task that the fabric owns. Call on the worker's thread: the frame of
// run_main() comes from that thread's pool and returns to it.
coro::SelfOwned run_main(coro::Task<void>* main, bool* ended) {
  co_await std::move(*main);
  *ended = true;
}

}  // namespace

Nanos Shared::now() const {
  if (tick_line.is_set()) return tick_line.at(read_ticks()) - clock_base;
  timespec at{};
  clock_gettime(CLOCK_MONOTONIC, &at);  // reads the clock through the vDSO, without a system call
  return at.tv_sec * 1'000'000'000LL + at.tv_nsec - clock_base;
}

void RealtimeWorker::store_word(Region& region, std::uint64_t offset, std::uint64_t value) {
  store_word_release(region.at(offset), value);
  has_stored(region, offset);
}

// Measures the thread's CPU time rather than the wall-clock time, so that a thread that loses its core
// meanwhile still computes for the whole span.
void RealtimeWorker::begin_compute(Nanos span, std::coroutine_handle<> waiter) {
  constexpr int rounds_between_looks = 256;
  end_turn();
  const Nanos until = read_clock(CLOCK_THREAD_CPUTIME_ID) + span;
  while (read_clock(CLOCK_THREAD_CPUTIME_ID) < until) {
    std::uint64_t mixed = turns_;
    for (int i = 0; i < rounds_between_looks; ++i) {
      mixed = (mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9ULL + 1;
      asm volatile("" : "+r"(mixed));
    }
  }
  run_queue_.push(waiter);
}

void RealtimeWorker::begin_timer(TimerWait* wait) {
  TimerWait** at = &timers_;
  while (*at != nullptr && (*at)->at <= wait->at) at = &(*at)->next;
  wait->next = *at;
  *at = wait;
  if (wait->is_spinning) ++spinning_timers_;
}

void RealtimeWorker::begin_watch(WatchWait* wait) {
  // The failure is a function of its own, so that begin_watch() need not save registers for the call of it.
  struct Foreign {
    [[noreturn, gnu::cold, gnu::noinline]] static void refuse() {
      LOCH_CHECK(false, "a worker watches memory of its own node");
      std::unreachable();
    }
  };
  if ((wait->set.count == 0 ? wait->word.region : wait->set.region)->node() != node()) [[unlikely]]
    Foreign::refuse();
  if (find_ready(*wait)) {
    run_queue_.push(wait->waiter);
  } else {
    wait->next = nullptr;
    *watches_end_ = wait;
    watches_end_ = &wait->next;
  }
}

// Where coroutines run in several rounds between two polls, a message that has arrived is received at once.
void RealtimeWorker::begin_receive(ReceiveWait* wait) {
  ReceiveWait*& list = receivers_[static_cast<std::size_t>(wait->transport)];
  append(list, wait);
  if (rounds_a_turn_ > 1) static_cast<void>(poll_arrivals(wait->transport, list));
}

void RealtimeWorker::begin_reconnect(ReconnectWait* wait) { append(reconnects_, wait); }

// In a set of words (request slots of a server) the word at which the search starts is compared by itself,
// before all others: in a busy server the slot behind the one that was served last mostly has a request.
[[gnu::always_inline]] inline bool RealtimeWorker::find_ready(WatchWait& wait) {
  if (wait.set.count == 0) {
    const WatchWord& word = wait.word;
    const std::byte* const at = word.region->at(word.offset);
    const bool equal = (load_word(at) & word.mask) == word.value;
    if (equal != word.until_equal) return false;
    // A message ends with its watched word, so that its other bytes are fetched while earlier ones are
    // handled.
    __builtin_prefetch(at - line);
    wait.result = {WatchOutcome::ready, 0};
    return true;
  }
  const WatchSet& set = wait.set;
  const std::uint32_t start = wait.start < set.count ? wait.start : wait.start % set.count;
  return first_is_ready(wait, start) || find_ready(wait, start + 1, set.count) || find_ready(wait, 0, start);
}

// Whether the word of the set with the index `start` is ready.
[[gnu::always_inline]] inline bool RealtimeWorker::first_is_ready(WatchWait& wait, std::uint32_t start) {
  const WatchSet& set = wait.set;
  const std::byte* const at = set.region->at(set.offset) + std::uint64_t{start} * set.stride;
  const std::uint64_t word = load_word(at);
  __builtin_prefetch(at + set.stride);  // the word that is looked at next in a busy server
  const bool is_known = set.known != nullptr && (word == set.known[start] || word == 0);
  if (is_known || !set.ready(set.context, start, word)) return false;
  wait.result = {WatchOutcome::ready, start};
  return true;
}

// Looks at the first word of the set alone: in a busy server the request slot behind the one that was served
// last mostly has a request, which is then served without a turn of the polling loop.
bool RealtimeWorker::do_watch_at_once(WatchWait& wait) {
  const WatchSet& set = wait.set;
  return wait.start < set.count && set.region->node() == node() && first_is_ready(wait, wait.start);
}

// Searches the watched words with indices [from, to) for one that `ready` accepts. Words that still have
// their known values are skipped without a call.
bool RealtimeWorker::find_ready(WatchWait& wait, std::uint32_t from, std::uint32_t to) {
  const WatchSet& set = wait.set;
  const std::byte* const first = set.region->at(set.offset);
  const std::uint64_t* const known = set.known;
  for (std::uint32_t index = known != nullptr ? next_changed(set, first, from, to) : from; index < to;
       index = known != nullptr ? next_changed(set, first, index + 1, to) : index + 1) {
    const std::uint64_t word = load_word(first + std::uint64_t{index} * set.stride);
    if (known != nullptr && (word == known[index] || word == 0)) continue;
    if (set.ready(set.context, index, word)) {
      wait.result = {WatchOutcome::ready, index};
      return true;
    }
  }
  return false;
}

[[gnu::always_inline]] inline bool RealtimeWorker::watch_ended(WatchWait& wait, bool is_stopping,
                                                               bool looks_at_links) {
  if (find_ready(wait)) return true;
  if (looks_at_links && wait.set.count == 0 && wait.word.peer && !connected(*wait.word.peer)) {
    wait.result.outcome = WatchOutcome::link_down;
    return true;
  }
  if (is_stopping) {
    wait.result.outcome = WatchOutcome::stopping;
    return true;
  }
  if (wait.deadline != forever && time_ >= wait.deadline) {
    wait.result.outcome = WatchOutcome::timed_out;
    return true;
  }
  return false;
}

bool RealtimeWorker::poll_watches(bool looks_at_links) {
  // The stop flag is read before the awaited words: the wait for a word that was stored before the run ended
  // then ends with the outcome `ready`, and not with `stopping`.
  const bool is_stopping = stopping();
  bool moved = false;
  WatchWait** at = &watches_;
  while (*at != nullptr) {
    WatchWait* wait = *at;
    if (watch_ended(*wait, is_stopping, looks_at_links)) {
      *at = wait->next;
      // Replies arrive about in the order in which they are awaited, so that the next one may be there too.
      if (const WatchWait* next = wait->next; next != nullptr && next->set.count == 0) {
        const std::byte* const word = next->word.region->at(next->word.offset);
        __builtin_prefetch(word);
        __builtin_prefetch(word - line);
      }
      run_queue_.push(wait->waiter);
      moved = true;
    } else {
      at = &wait->next;
    }
  }
  watches_end_ = at;
  return moved;
}

void RealtimeWorker::finish_receive(ReceiveWait*& waiters) {
  ReceiveWait* wait = waiters;
  waiters = wait->next;
  run_queue_.push(wait->waiter);
}

bool RealtimeWorker::poll_receive(Transport transport) {
  ReceiveWait*& list = receivers_[static_cast<std::size_t>(transport)];
  const bool is_stopping = stopping();
  bool moved = poll_arrivals(transport, list);
  for (ReceiveWait** at = &list; *at != nullptr;) {
    ReceiveWait* wait = *at;
    const bool timed_out = wait->deadline != forever && time_ >= wait->deadline;
    if (is_stopping || timed_out) {
      wait->result.outcome = is_stopping ? Received::Outcome::stopping : Received::Outcome::timed_out;
      *at = wait->next;
      run_queue_.push(wait->waiter);
      moved = true;
    } else {
      at = &wait->next;
    }
  }
  return moved;
}

bool RealtimeWorker::poll_receives() {
  bool moved = false;
  for (const Transport transport : {Transport::rc, Transport::uc, Transport::ud}) {
    if (receivers_[static_cast<std::size_t>(transport)] != nullptr) moved |= poll_receive(transport);
  }
  return moved;
}

bool RealtimeWorker::poll_timers() {
  bool moved = false;
  while (timers_ != nullptr && timers_->at <= time_) {
    TimerWait* wait = timers_;
    timers_ = wait->next;
    if (wait->is_spinning) --spinning_timers_;
    run_queue_.push(wait->waiter);
    moved = true;
  }
  return moved;
}

bool RealtimeWorker::poll_reconnects() {
  bool moved = false;
  for (ReconnectWait** at = &reconnects_; *at != nullptr;) {
    ReconnectWait* wait = *at;
    const bool is_connected = try_reconnect(wait->peer);
    if (is_connected || time_ >= wait->deadline || stopping()) {
      wait->connected = is_connected;
      *at = wait->next;
      run_queue_.push(wait->waiter);
      moved = true;
    } else {
      at = &wait->next;
    }
  }
  return moved;
}

bool RealtimeWorker::turn() {
  bool moved = poll_device();
  if (timers_ != nullptr || watches_ != nullptr || reconnects_ != nullptr || is_receiving()) {
    const bool reads_clock = turns_++ % turns_per_clock == 0;
    if (reads_clock) time_ = now();
    if (watches_ != nullptr) moved |= poll_watches(reads_clock);
    if (is_receiving()) moved |= poll_receives();
    if (timers_ != nullptr) moved |= poll_timers();
    if (reconnects_ != nullptr) moved |= poll_reconnects();
  }
  if (const std::size_t ready = run_queue_.size(); ready != 0) {
    resume(ready);
    // No further round while sinks have to be told of completions, which only a poll does.
    for (std::uint32_t rounds = 1; rounds < rounds_a_turn_ && !run_queue_.empty() && !owes_completions();
         ++rounds)
      resume(run_queue_.size());
    end_turn();
    moved = true;
  }
  return moved;
}

// A function of its own, so that tests/budget can tell the instructions of resumed coroutines from those of
// polling-loop iterations that find nothing to do.
void RealtimeWorker::resume(std::size_t ready) { run_queue_.drain(ready); }

void RealtimeWorker::give_up_core() {
  yields.fetch_add(1, std::memory_order_relaxed);
  sched_yield();
}

RealtimeWorker::Span RealtimeWorker::watched() const {
  Span all;
  for (const WatchWait* wait = watches_; wait != nullptr; wait = wait->next) {
    Span one{wait->word.region, wait->word.offset, wait->word.offset + 8};
    if (const WatchSet& set = wait->set; set.count != 0) {
      // A request slot ends with its polled word. set.offset is the offset of the first slot's word, which
      // has 8 bytes.
      const std::uint64_t first = set.offset + 8;
      one = {set.region, first - std::min<std::uint64_t>(first, set.stride),
             first + std::uint64_t{set.count - 1} * set.stride};
    }
    if (all.region == nullptr) {
      all = one;
    } else if (all.region == one.region) {
      all = {one.region, std::min(all.begin, one.begin), std::max(all.end, one.end)};
    } else {
      return {};
    }
  }
  return all;
}

void RealtimeWorker::wake_up() {
  is_armed_ = false;
  disarm_doorbell();
}

// Among workers that all yield, a yield is cheap, and no core goes idle (an idle core takes long to wake). If
// other programs compute on the core, the kernel may give them a whole time slice for each yield (EEVDF
// charges the yielding thread for it). After such a yield workers sleep instead of yielding for a while, for
// which the kernel charges them nothing.
void RealtimeWorker::share_core() {
  if (is_armed_) {  // the doorbell, which ends a sleep, was armed before the last poll, which found nothing
    Nanos most = device_is_busy() || reconnects_ != nullptr ? nap : longest_sleep;
    if (timers_ != nullptr) most = std::min(most, timers_->at - now());
    if (most > 0) {
      sleeps.fetch_add(1, std::memory_order_relaxed);
      sleep_until_rung(most);
    }
    wake_up();
    time_ = now();
    return;
  }
  const Nanos before = now();
  const bool is_late = fruitless_turns_ > turns_before_nap;
  if (is_late || before < sleeps_until_) {
    is_armed_ = arm_doorbell();
    if (is_armed_) return;
  }
  if (is_late) {
    sleeps.fetch_add(1, std::memory_order_relaxed);
    const timespec span{0, nap};
    nanosleep(&span, nullptr);
    return;
  }
  give_up_core();
  time_ = now();
  if (time_ - before > dear_yield) sleeps_until_ = time_ + sleeping_span;
}

bool RealtimeWorker::idle() {
  ++fruitless_turns_;
  const bool is_polling = watches_ != nullptr || is_receiving() || device_is_busy() || reconnects_ != nullptr;
  if (!is_polling) {
    if (timers_ == nullptr) return false;
    time_ = now();
    const Nanos span = timers_->at - time_;
    if (spinning_timers_ == 0 && span > shortest_sleep) {
      sleeps.fetch_add(1, std::memory_order_relaxed);
      // Where times are a function of the counter, CLOCK_MONOTONIC has drifted from them.
      const Nanos until = shared_->tick_line.is_set() ? read_clock(CLOCK_MONOTONIC) + span
                                                      : timers_->at + shared_->clock_base;
      const timespec at{until / 1'000'000'000, until % 1'000'000'000};
      clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr);
      time_ = now();
      return true;
    }
  }
  if (fruitless_turns_ > shared_->turns_before_yield && shared_->is_crowded.load(std::memory_order_relaxed)) {
    share_core();
  } else if (shared_->pauses) {
    pause_cpu();
  }
  return true;
}

bool RealtimeWorker::run(coro::Task<void>* main) {
  enter_thread();
  main_ended_ = false;
  const std::uint64_t frames_before = coro::FramePool::local().live();
  run_queue_.push(run_main(main, &main_ended_).handle);
  while (!main_ended_ || !run_queue_.empty() || owes_completions()) {
    if (turn()) {
      fruitless_turns_ = 0;
      if (is_armed_) wake_up();
    } else if (!main_ended_ && !idle()) {
      return false;
    }
  }
  LOCH_CHECK(coro::FramePool::local().live() == frames_before, "{} of {} left coroutines behind", spec().name,
             spec().node);
  return true;
}

}  // namespace loch::fabric::realtime
