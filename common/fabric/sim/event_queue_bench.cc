// Measures events per second of the timing wheel and of heaps, and of coroutines that events resume.
//
//   build/release/common/fabric/sim/event_queue_bench
//
// Each pop is followed by one push at a random distance (0 to 8,191 ns) from now, so that the number of
// pending events (the benchmark's argument) stays constant, as in a simulation of as many requests in flight.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <queue>
#include <vector>

#include "common/base/rng.h"
#include "common/coro/frame_pool.h"
#include "common/coro/run_queue.h"
#include "common/coro/scope.h"
#include "common/coro/task.h"
#include "common/fabric/sim/event_queue.h"

namespace loch::fabric::sim {
namespace {

// Random time spans, drawn before the measurement, so that the generator of random numbers is not measured.
class Spans {
 public:
  Spans() : spans_(1 << 14) {
    Rng rng(7);
    for (Nanos& span : spans_) span = static_cast<Nanos>(rng.below(8192));
  }
  Nanos next() { return spans_[at_++ & (spans_.size() - 1)]; }

 private:
  std::vector<Nanos> spans_;
  std::size_t at_ = 0;
};

class BinaryHeap {  // the heap of std::priority_queue
 public:
  void push(Event* event, Nanos at) {
    event->at = at;
    event->order = order_++;
    heap_.push({at, event->order, event});
  }
  Event* pop() {
    Event* const event = heap_.top().event;
    heap_.pop();
    now_ = event->at;
    return event;
  }
  Nanos now() const { return now_; }

 private:
  struct Entry {
    Nanos at;
    std::uint64_t order;
    Event* event;
    bool operator<(const Entry& other) const { return at != other.at ? at > other.at : order > other.order; }
  };
  std::priority_queue<Entry> heap_;
  std::uint64_t order_ = 0;
  Nanos now_ = 0;
};

class QuadHeap {  // a 4-ary heap with keys stored next to the pointers
 public:
  void push(Event* event, Nanos at) {
    event->at = at;
    event->order = order_++;
    std::size_t hole = heap_.size();
    heap_.push_back({at, event->order, event});
    const Entry entry = heap_.back();
    while (hole > 0) {
      const std::size_t parent = (hole - 1) / 4;
      if (!entry.before(heap_[parent])) break;
      heap_[hole] = heap_[parent];
      hole = parent;
    }
    heap_[hole] = entry;
  }
  Event* pop() {
    Event* const event = heap_.front().event;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) {
      std::size_t hole = 0;
      while (true) {
        const std::size_t first = hole * 4 + 1;
        if (first >= heap_.size()) break;
        std::size_t least = first;
        const std::size_t end = std::min(first + 4, heap_.size());
        for (std::size_t child = first + 1; child < end; ++child) {
          if (heap_[child].before(heap_[least])) least = child;
        }
        if (!heap_[least].before(last)) break;
        heap_[hole] = heap_[least];
        hole = least;
      }
      heap_[hole] = last;
    }
    now_ = event->at;
    return event;
  }
  Nanos now() const { return now_; }

 private:
  struct Entry {
    Nanos at;
    std::uint64_t order;
    Event* event;
    bool before(const Entry& other) const { return at != other.at ? at < other.at : order < other.order; }
  };
  std::vector<Entry> heap_;
  std::uint64_t order_ = 0;
  Nanos now_ = 0;
};

template <typename Queue>
void churn(benchmark::State& state) {
  auto queue = std::make_unique<Queue>();
  Spans spans;
  std::vector<Event> events(static_cast<std::size_t>(state.range(0)));
  for (Event& event : events) queue->push(&event, spans.next());
  for (auto _ : state) {
    for (int i = 0; i < 1024; ++i) {
      Event* const event = queue->pop();
      queue->push(event, queue->now() + spans.next());
    }
  }
  state.SetItemsProcessed(state.iterations() * 1024);
}
BENCHMARK(churn<EventQueue>)->Arg(100)->Arg(1000)->Arg(10'000);
BENCHMARK(churn<QuadHeap>)->Arg(100)->Arg(1000)->Arg(10'000);
BENCHMARK(churn<BinaryHeap>)->Arg(100)->Arg(1000)->Arg(10'000);

// An event that resumes a coroutine; it is a member of the awaiter, in the coroutine's frame.
struct Delay : Event {
  Delay(EventQueue& q, Nanos s) : queue(q), span(s) {}
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> self) {
    waiter = self;
    fire = [](Event* event) { static_cast<Delay*>(event)->waiter.resume(); };
    queue.push(this, queue.now() + span);
  }
  void await_resume() const noexcept {}
  EventQueue& queue;
  Nanos span;
  std::coroutine_handle<> waiter;
};

coro::Task<void> actor(EventQueue& queue, Spans& spans, const bool* stop) {
  while (!*stop) {
    const Nanos span = spans.next();
    co_await Delay(queue, span);
  }
}

coro::Task<Nanos> step(EventQueue& queue, Nanos span) {
  co_await Delay(queue, span);
  co_return queue.now();
}

coro::Task<void> nested_actor(EventQueue& queue, Spans& spans, const bool* stop) {
  while (!*stop) {
    const Nanos span = spans.next();
    const Nanos at = co_await step(queue, span);
    benchmark::DoNotOptimize(at);
  }
}

template <bool nested>
void resume_coroutines(benchmark::State& state) {
  auto queue = std::make_unique<EventQueue>();
  coro::RunQueue ready;
  coro::Scope scope(ready);
  Spans spans;
  bool stop = false;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    if constexpr (nested)
      scope.spawn(nested_actor(*queue, spans, &stop));
    else
      scope.spawn(actor(*queue, spans, &stop));
  }
  ready.drain();
  for (auto _ : state) {
    for (int i = 0; i < 1024; ++i) {
      Event* const event = queue->pop();
      event->fire(event);
    }
  }
  state.SetItemsProcessed(state.iterations() * 1024);
  stop = true;
  while (Event* event = queue->pop()) event->fire(event);
}
BENCHMARK(resume_coroutines<false>)->Name("resume_coroutine")->Arg(100)->Arg(1000)->Arg(10'000);
BENCHMARK(resume_coroutines<true>)->Name("resume_nested_task")->Arg(100)->Arg(1000)->Arg(10'000);

}  // namespace
}  // namespace loch::fabric::sim
