// Starts and joins the threads of this process's workers, pins them, and reads their CPU time.
#include "common/fabric/realtime/worker_pool.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>

#include "common/base/check.h"
#include "common/fabric/realtime/last_resort.h"

#if defined(LOCH_ASAN)
#include <sanitizer/lsan_interface.h>
#endif

namespace loch::fabric::realtime {

Nanos read_clock(clockid_t clock) {
  timespec at{};
  if (clock_gettime(clock, &at) != 0) return 0;
  return at.tv_sec * 1'000'000'000LL + at.tv_nsec;
}

struct WorkerPool::Member {
  std::unique_ptr<RealtimeWorker> worker;
  std::unique_ptr<coro::Task<void>> main;
  std::thread thread;
  std::atomic<bool> is_running = false;
  std::atomic<bool> has_ended = false;  // whether the main coroutine of the latest run has ended
  std::atomic<Nanos> cpu_ended = 0;     // CPU time in ns of all runs that have ended
  std::atomic<Nanos> wall_ended = 0;    // sum of the durations in ns of the runs that have ended
  std::atomic<Nanos> run_started = 0;
  // what cpu() and wall() returned (CPU time and wall-clock time in ns) when reset_counters was last called
  std::atomic<Nanos> cpu_reset = 0, wall_reset = 0;
  clockid_t cpu_clock = 0;                             // CPU clock of the thread; valid while is_running
  std::uint64_t yields_before = 0, sleeps_before = 0;  // those of earlier runs

  [[nodiscard]] Nanos cpu() const { return cpu_ended + (is_running ? read_clock(cpu_clock) : 0); }
  [[nodiscard]] Nanos wall() const {
    return wall_ended + (is_running ? read_clock(CLOCK_MONOTONIC) - run_started : 0);
  }
};

WorkerPool::WorkerPool(Shared* shared, std::uint32_t nodes, bool pin)
    : shared_(shared), pin_(pin), workers_(nodes) {}

WorkerPool::~WorkerPool() {
  each([](const Member& member) {
    LOCH_CHECK(!member.thread.joinable(), "a fabric is destroyed after its run");
  });
}

RealtimeWorker* WorkerPool::add(std::unique_ptr<RealtimeWorker> worker) {
  auto& node = workers_.at(worker->node());
  for (const auto& other : node) {
    if (other->worker->index() == worker->index()) return nullptr;
  }
  node.push_back(std::make_unique<Member>());
  node.back()->worker = std::move(worker);
  return node.back()->worker.get();
}

std::vector<RealtimeWorker*> WorkerPool::workers(NodeId node) const {
  std::vector<RealtimeWorker*> all;
  for (const auto& member : workers_.at(node)) all.push_back(member->worker.get());
  return all;
}

void WorkerPool::start(Worker& worker, coro::Task<void> main) {
  for (const auto& member : workers_.at(worker.node())) {
    if (member->worker.get() != &worker) continue;
    LOCH_CHECK(member->main == nullptr, "{} has a main already", worker.spec().name);
    member->main = std::make_unique<coro::Task<void>>(std::move(main));
    return;
  }
  LOCH_CHECK(false, "the worker is not one of this fabric's");
}

std::uint32_t WorkerPool::started() const {
  std::uint32_t count = 0;
  each([&](const Member& member) { count += member.main != nullptr ? 1 : 0; });
  return count;
}

namespace {

// The kernel's struct sched_attr in its first form; the kernel's header cannot be included together with
// <sched.h>.
struct SchedulingAttributes {
  std::uint32_t size, policy;
  std::uint64_t flags;
  std::int32_t nice;
  std::uint32_t priority;
  std::uint64_t runtime_ns, deadline_ns, period_ns;
};
static_assert(sizeof(SchedulingAttributes) == 48);

// Asks the scheduler for time slices of 100 us, the shortest possible, instead of some ms: a thread that was
// woken or has yielded then gets its core back sooner, and its share of the core stays the same. Kernels
// before 6.12 ignore the request.
void take_short_turns() {
  SchedulingAttributes attributes{};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;
  attributes.runtime_ns = 100'000;
  (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

// Grows the heap of this thread once, instead of by a page at a time during the run: glibc grows it by
// mprotect(2), which takes the lock of the process's memory map, and has been seen to wait there for seconds
// while other threads of the process take page faults. What is freed here stays writable.
void grow_heap() {
  constexpr std::size_t piece = 64 << 10, pieces = 16;  // below the size from which malloc() calls mmap(2)
  std::array<void*, pieces> held;
  for (void*& each : held) {
    each = std::malloc(piece);
    asm volatile("" : : "r"(each) : "memory");  // or the compiler would leave the pair of calls out
  }
  for (void* each : held) std::free(each);
}

}  // namespace

void WorkerPool::thread_body(Member& local) {
  const WorkerSpec& spec = local.worker->spec();
  pthread_setname_np(pthread_self(), fmt::format("{}:{}", spec.node, spec.name).substr(0, 15).c_str());
  grow_heap();
  prctl(PR_SET_TIMERSLACK, 1);  // wakes sleeping threads without the default delay of 50 us
  if (shared_->is_crowded.load()) take_short_turns();
  if (pin_ && spec.core >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(spec.core) % CPU_SETSIZE, &set);
    if (sched_setaffinity(0, sizeof set, &set) == 0) ++pinned_;
  }
  local.run_started = read_clock(CLOCK_MONOTONIC);
  pthread_getcpuclockid(pthread_self(), &local.cpu_clock);
  local.is_running = true;
  if (!local.worker->run(local.main.get())) {
    shared_->deadlocked.store(true);
    shared_->stopping.store(true);
  }
  const Nanos cpu = read_clock(CLOCK_THREAD_CPUTIME_ID);
  const Nanos wall = read_clock(CLOCK_MONOTONIC) - local.run_started;
  local.is_running = false;
  local.has_ended = true;
  local.cpu_ended += cpu;
  local.wall_ended += wall;
  if (spec.role != Role::client) return;
  const std::scoped_lock lock(ending_);
  if (--clients_left_ == 0) ended_.notify_all();
}

void WorkerPool::join() {
  each([&](Member& local) {
    if (!local.thread.joinable()) return;
    local.thread.join();
    if (shared_->deadlocked.load()) {
      // Coroutine frames that will never be resumed cannot be unwound, and are leaked.
      [[maybe_unused]] auto* abandoned = local.main.release();
#if defined(LOCH_ASAN)
      __lsan_ignore_object(abandoned);
#endif
    }
    local.main.reset();
  });
}

bool WorkerPool::await_own_clients(Nanos within) const {
  const auto have_ended = [this] { return clients_left_ == 0; };
  std::unique_lock lock(ending_);
  if (within != forever) return ended_.wait_for(lock, std::chrono::nanoseconds(within), have_ended);
  ended_.wait(lock, have_ended);
  return true;
}

RunEnd WorkerPool::run(bool shares_cores, const std::function<void()>& await_clients) {
  shared_->stopping.store(shared_->interrupted.load());
  shared_->is_crowded.store(shares_cores);
  std::uint32_t clients = 0;
  each([&](Member& member) {
    if (member.main != nullptr && member.worker->spec().role == Role::client) ++clients;
    member.yields_before = member.worker->yields.load();
    member.sleeps_before = member.worker->sleeps.load();
  });
  clients_left_ = clients;
  pinned_ = 0;
  each([&](Member& member) {
    if (member.main == nullptr) return;
    member.has_ended = false;
    member.thread = std::thread([this, &member] { thread_body(member); });
  });
  await_clients();
  const bool was_interrupted = shared_->interrupted.load();
  shared_->stopping.store(true);
  join();
  if (shared_->deadlocked.load()) return RunEnd::deadlock;
  return was_interrupted ? RunEnd::interrupted : RunEnd::finished;
}

std::vector<std::uint32_t> WorkerPool::nodes_of_running_clients() const {
  std::vector<std::uint32_t> nodes;
  each([&](const Member& member) {
    const WorkerSpec& spec = member.worker->spec();
    if (member.main == nullptr || member.has_ended || spec.role != Role::client) return;
    if (nodes.empty() || nodes.back() != spec.node) nodes.push_back(spec.node);
  });
  return nodes;
}

// The workers that still run, such as "client 0 of node 1, server 0 of node 2".
std::string WorkerPool::running() const {
  std::vector<std::string> names;
  each([&](const Member& member) {
    const WorkerSpec& spec = member.worker->spec();
    if (member.is_running) names.push_back(fmt::format("{} of node {}", spec.name, spec.node));
  });
  return fmt::format("{}", fmt::join(names, ", "));
}

RunEnd WorkerPool::run_bounded(std::string_view fabric, bool shares_cores, Nanos ended_most,
                               const std::function<void()>& await_clients) {
  constexpr Nanos interrupted_most = 3'000'000'000;
  constexpr int status_interrupted = 130;
  std::optional<LastResort> last_resort;
  return run(shares_cores, [&] {
    await_clients();
    const bool is_interrupted = shared_->interrupted.load();
    last_resort.emplace(is_interrupted ? interrupted_most : ended_most, [=, this] {
      return is_interrupted ? LastResort::End{fmt::format("{}: interrupted; ended with the process: {}",
                                                          fabric, running()),
                                              status_interrupted}
                            : LastResort::End{fmt::format("{}: not ended {} after the end of the run: {}",
                                                          fabric, format_duration(ended_most), running()),
                                              1};
    });
  });
}

void WorkerPool::reset_counters() {
  each([](Member& member) {
    member.cpu_reset = member.cpu();
    member.wall_reset = member.wall();
  });
}

NodeReport WorkerPool::report(NodeId node, const std::string& prefix) const {
  struct Share {
    double cpu = 0, wall = 0;
    [[nodiscard]] double busy() const { return wall > 0 ? std::min(1.0, cpu / wall) : 0; }
  } all, client, server;
  NodeReport report;
  double yields = 0, sleeps = 0;
  for (const auto& local : workers_.at(node)) {
    const auto cpu = static_cast<double>(local->cpu() - local->cpu_reset);
    const auto wall = static_cast<double>(local->wall() - local->wall_reset);
    for (Share* share : {&all, local->worker->spec().role == Role::client ? &client : &server}) {
      share->cpu += cpu;
      share->wall += wall;
    }
    yields += static_cast<double>(local->worker->yields.load() - local->yields_before);
    sleeps += static_cast<double>(local->worker->sleeps.load() - local->sleeps_before);
  }
  report.cpu_busy = all.busy();
  report.client_busy = client.busy();
  report.server_busy = server.busy();
  report.counters = {{prefix + ".yields", yields}, {prefix + ".sleeps", sleeps}};
  return report;
}

}  // namespace loch::fabric::realtime
