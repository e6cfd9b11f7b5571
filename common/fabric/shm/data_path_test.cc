// Tests that requests and waits on the fabric shm allocate no heap memory and make no system call.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <new>

#include "common/fabric/count/count.h"
#include "common/fabric/memory.h"
#include "common/fabric/shm/shm.h"

namespace {
std::atomic<std::uint64_t> allocations = 0;
}  // namespace

#if !defined(LOCH_ASAN) && !defined(LOCH_TSAN)
void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace loch::fabric {
namespace {

#if defined(LOCH_ASAN) || defined(LOCH_TSAN)
// built with a sanitizer, which itself allocates and enters the kernel
constexpr bool is_instrumented = true;
#else
constexpr bool is_instrumented = false;
#endif

struct Pair {
  explicit Pair(bool is_counted = true) {
    shm::ShmConfig config;
    config.nodes = 2;
    fabric = shm::make_shm(config).value();
    if (is_counted) fabric = count_requests(std::move(fabric), {});
    for (NodeId node = 0; node < 2; ++node) {
      memory[node] = fabric->register_region(node, {"memory", 65536, true, true, true, {}}).value();
      worker[node] = fabric->add_worker({node, Role::client, 0, -1, "client"}).value();
    }
    EXPECT_TRUE(fabric->exchange(1'000'000'000).has_value());
    remote = fabric->lookup(1, "memory").value();
  }
  std::unique_ptr<Fabric> fabric;
  Region* memory[2];
  Worker* worker[2];
  RemoteRegion remote;
};

// Issues one request of every verb, sends a message to the worker itself, waits for the value of a memory
// word, and posts a chain of two requests.
coro::Task<void> one_round(Pair* pair) {
  Worker& worker = *pair->worker[0];
  const LocalSlice here{pair->memory[0], 0};
  const Completion read = co_await worker.read(pair->remote, 0, here, 64);
  const Completion written = co_await worker.write(pair->remote, 0, here, 64);
  const Completion added = co_await worker.faa(pair->remote, 1024, 1);
  const Completion swapped = co_await worker.cas(pair->remote, 1032, 0, 0);
  LOCH_CHECK(read.ok() && written.ok() && added.ok() && swapped.ok());
  worker.post_recv(Transport::rc, {pair->memory[0], 4096}, 64, 1);
  WorkRequest message;
  message.verb = Verb::send;
  message.peer = 0;
  message.local = here;
  message.length = 64;
  const Completion sent = co_await worker.execute(message);
  const Nanos deadline = worker.now() + 1'000'000'000;
  const Received got = co_await worker.receive(Transport::rc, deadline);
  LOCH_CHECK(sent.ok() && got.outcome == Received::Outcome::message);
  const WatchWord watch{pair->memory[0], 2048, ~0ull, 0, true, std::nullopt};
  const WatchOutcome outcome = co_await worker.watch(watch, deadline);
  LOCH_CHECK(outcome == WatchOutcome::ready);
  std::array<WorkRequest, 2> chain{one_sided(Verb::write, pair->remote, 0, here, 8, nullptr),
                                   one_sided(Verb::read, pair->remote, 0, here, 8, nullptr)};
  chain[0].is_signaled = false;
  const WcStatus status = co_await worker.post_and_wait(chain);
  LOCH_CHECK(status == WcStatus::success);
}

coro::Task<void> count_allocations(Pair* pair, int rounds, std::uint64_t* from_heap,
                                   std::uint64_t* for_frames) {
  for (int i = 0; i < 100; ++i) co_await one_round(pair);  // warm-up
  const std::uint64_t heap_before = allocations.load();
  const std::uint64_t frames_before = coro::FramePool::local().system_allocations();
  for (int i = 0; i < rounds; ++i) co_await one_round(pair);
  *from_heap = allocations.load() - heap_before;
  *for_frames = coro::FramePool::local().system_allocations() - frames_before;
}

TEST(ShmDataPath, AllocatesNothing) {
  if (is_instrumented) GTEST_SKIP() << "the sanitizer's own allocations would be counted";
  Pair pair;
  std::uint64_t from_heap = 1, for_frames = 1;
  pair.fabric->start(*pair.worker[0], count_allocations(&pair, 12'500, &from_heap, &for_frames));
  ASSERT_TRUE(pair.fabric->run().has_value());
  EXPECT_EQ(from_heap, 0u);  // allocations in 100,000 operations
  EXPECT_EQ(for_frames, 0u);
}

// From here on every system call of the calling thread but write and exit kills the process (seccomp; its
// strict mode would also forbid reading the time-stamp counter).
bool forbid_system_calls() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(program), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Issues 100,000 operations and then writes one byte to the pipe. A system call in between kills the process.
coro::Task<void> operate_without_kernel(Pair* pair, int pipe) {
  for (int i = 0; i < 100; ++i) co_await one_round(pair);
  if (!forbid_system_calls()) {
    (void)!write(pipe, "n", 1);
    _exit(0);
  }
  for (int i = 0; i < 12'500; ++i) co_await one_round(pair);
  (void)!write(pipe, "y", 1);
  syscall(SYS_exit, 0);
}

TEST(ShmDataPath, EntersTheKernelNever) {
  if (is_instrumented) GTEST_SKIP() << "the sanitizer makes system calls of its own";
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    close(ends[0]);
    alarm(60);
    Pair pair;
    pair.fabric->start(*pair.worker[0], operate_without_kernel(&pair, ends[1]));
    (void)pair.fabric->run();
    _exit(0);
  }
  close(ends[1]);
  char answer = 0;
  const ssize_t got = read(ends[0], &answer, 1);
  close(ends[0]);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (answer == 'n') GTEST_SKIP() << "this kernel has no seccomp filters";
  ASSERT_EQ(got, 1) << "the worker was killed for a system call";
  EXPECT_EQ(answer, 'y');
}

// READs and WRITEs of up to 90 bytes between any two alignments: the right bytes arrive, and no others
// change.
coro::Task<void> copy_askew(Pair* pair, std::uint32_t* wrong) {
  constexpr std::uint32_t offsets = 17, most = 90, span = offsets + most + 8;
  for (std::uint32_t there = 0; there < offsets; ++there) {
    for (std::uint32_t here = 0; here < offsets; ++here) {
      for (std::uint32_t length = 0; length <= most; length += length < 40 ? 1 : 13) {
        for (const Verb verb : {Verb::read, Verb::write}) {
          const NodeId source = verb == Verb::read ? 1 : 0, target = verb == Verb::read ? 0 : 1;
          const std::uint32_t from = verb == Verb::read ? there : here,
                              to = verb == Verb::read ? here : there;
          for (std::uint32_t i = 0; i < span; ++i) {
            *pair->memory[source]->at(i) = static_cast<std::byte>(i + 1);
            *pair->memory[target]->at(i) = std::byte{0xEE};
          }
          const Completion done = co_await pair->worker[0]->execute(
              one_sided(verb, pair->remote, there, {pair->memory[0], here}, length, nullptr));
          *wrong += done.ok() ? 0 : 1;
          for (std::uint32_t i = 0; i < span; ++i) {
            const bool is_inside = i >= to && i < to + length;
            const std::byte wanted = is_inside ? static_cast<std::byte>(i - to + from + 1) : std::byte{0xEE};
            *wrong += *pair->memory[target]->at(i) == wanted ? 0 : 1;
          }
        }
      }
    }
  }
}

TEST(ShmDataPath, CopiesBetweenAllAlignments) {
  Pair pair(false);
  std::uint32_t wrong = 0;
  pair.fabric->start(*pair.worker[0], copy_askew(&pair, &wrong));
  ASSERT_TRUE(pair.fabric->run().has_value());
  EXPECT_EQ(wrong, 0U);
}

coro::Task<void> compare_bytes(Pair* pair) {
  Worker& worker = *pair->worker[0];
  const LocalSlice here{pair->memory[0], 0};
  const std::uint32_t mtu = worker.capabilities().mtu_bytes;
  for (const std::uint32_t length : {1u, 8u, 64u, mtu - 1, mtu, mtu + 1, 2 * mtu, 2 * mtu + 1, 40'000u}) {
    for (const Verb verb : {Verb::read, Verb::write}) {
      OpStats stats;
      WorkRequest request = one_sided(verb, pair->remote, 0, here, length, &stats);
      const Completion done = co_await worker.execute(request);
      EXPECT_TRUE(done.ok());
      const WireBytes wire = wire_bytes(verb, Transport::rc, length, mtu, LinkFormat::infiniband);
      EXPECT_EQ(stats.wire_bytes, wire.total()) << name(verb) << ' ' << length;
      EXPECT_EQ(stats.payload_bytes, length);
      EXPECT_EQ(stats.read + stats.write, 1u);
    }
    OpStats stats;
    WorkRequest request = one_sided(Verb::write, pair->remote, 0, here, length, &stats);
    request.transport = Transport::uc;
    request.has_immediate = true;
    const Completion done = co_await worker.execute(request);
    EXPECT_TRUE(done.ok());
    EXPECT_EQ(stats.wire_bytes,
              wire_bytes(Verb::write, Transport::uc, length, mtu, LinkFormat::infiniband, true).total());
  }
  OpStats stats;
  const Completion swapped = co_await worker.cas(pair->remote, 0, 1, 2, &stats);
  EXPECT_TRUE(swapped.ok());
  EXPECT_EQ(stats.cas, 1u);
  EXPECT_EQ(stats.payload_bytes, 8u);
  EXPECT_EQ(stats.wire_bytes, wire_bytes(Verb::cas, Transport::rc, 8, mtu, LinkFormat::infiniband).total());
}

TEST(Count, AgreesWithTheHeadersTable) {
  Pair pair;
  pair.fabric->start(*pair.worker[0], compare_bytes(&pair));
  ASSERT_TRUE(pair.fabric->run().has_value());
}

coro::Task<void> some_traffic(Pair* pair) {
  Worker& worker = *pair->worker[0];
  const LocalSlice here{pair->memory[0], 0};
  for (int i = 0; i < 10; ++i) {
    if (i == 5) pair->fabric->reset_counters();
    const Completion read = co_await worker.read(pair->remote, 0, here, 100);
    EXPECT_TRUE(read.ok());
  }
  const RemoteRegion own = pair->fabric->lookup(0, "memory").value();
  const LocalSlice there{pair->memory[0], 4096};
  const Completion local = co_await worker.write(own, 0, there, 100);
  EXPECT_TRUE(local.ok());
}

TEST(Count, NodesAddUpSinceTheReset) {
  Pair pair;
  pair.fabric->start(*pair.worker[0], some_traffic(&pair));
  ASSERT_TRUE(pair.fabric->run().has_value());
  const FabricReport report = pair.fabric->report();
  ASSERT_EQ(report.nodes.size(), 2u);
  const WireBytes wire = wire_bytes(Verb::read, Transport::rc, 100, 4096, LinkFormat::infiniband);
  EXPECT_EQ(report.nodes[0].tx_wire_bytes, 5 * wire.request);
  EXPECT_EQ(report.nodes[0].rx_wire_bytes, 5 * wire.response);
  EXPECT_EQ(report.nodes[1].rx_wire_bytes, 5 * wire.request);
  EXPECT_EQ(report.nodes[1].tx_wire_bytes, 5 * wire.response);
  EXPECT_EQ(report.nodes[0].counters.at("posted.read"), 5);
  // a loopback WRITE is counted as posted, but has no bytes on the wire
  EXPECT_EQ(report.nodes[0].counters.at("posted.write"), 1);
  EXPECT_EQ(report.nodes[0].counters.at("posted.payload_bytes"), 500);
}

coro::Task<void> wait_for_nothing(Pair* pair) {
  coro::Scope scope(pair->worker[0]->run_queue());
  struct Never {
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<>) const noexcept {}
    void await_resume() const noexcept {}
  };
  co_await Never{};
}

TEST(Shm, AMainThatCanNeverGoOnIsADeadlock) {
  Pair pair;
  pair.fabric->start(*pair.worker[0], wait_for_nothing(&pair));
  const auto end = pair.fabric->run();
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(*end, RunEnd::deadlock);
}

coro::Task<void> burn(Pair* pair, Nanos span) {
  Worker& worker = *pair->worker[0];
  const Nanos until = worker.now() + span;
  co_await worker.spin_until(until);
}

coro::Task<void> rest(Pair* pair, Nanos span) {
  Worker& worker = *pair->worker[1];
  const Nanos until = worker.now() + span;
  co_await worker.sleep_until(until);
}

TEST(Shm, SleepGivesTheCoreUpAndSpinBurnsIt) {
  // On a busy machine the spinning thread may get the core for only a small part of the time, so it is enough
  // that it is busier than the sleeping one in one of several tries.
  bool is_busier = false;
  for (int i = 0; i < 10 && !is_busier; ++i) {
    Pair pair;
    pair.fabric->start(*pair.worker[0], burn(&pair, 100'000'000));
    pair.fabric->start(*pair.worker[1], rest(&pair, 100'000'000));
    ASSERT_TRUE(pair.fabric->run().has_value());
    const FabricReport report = pair.fabric->report();
    const auto& spins = report.nodes[0];
    const auto& sleeps = report.nodes[1];
    is_busier = sleeps.cpu_busy < 0.1 && spins.cpu_busy > sleeps.cpu_busy + 0.1;
    EXPECT_EQ(spins.client_busy, spins.cpu_busy);
    EXPECT_EQ(spins.counters.at("shm.sleeps"), 0);
    EXPECT_EQ(sleeps.counters.at("shm.sleeps"), 1);
  }
  EXPECT_TRUE(is_busier);
}

coro::Task<void> add_one(Pair* pair) {
  const Completion done = co_await pair->worker[0]->faa(pair->remote, 0, 1);
  EXPECT_TRUE(done.ok());
}

// The same workers can run again after a run has ended; shm_bench relies on this.
TEST(Shm, RunsOneAfterAnother) {
  Pair pair;
  for (std::uint64_t round = 1; round <= 3; ++round) {
    pair.fabric->start(*pair.worker[0], add_one(&pair));
    EXPECT_EQ(pair.fabric->run().value(), RunEnd::finished);
    EXPECT_EQ(load_word(pair.memory[1]->at(0)), round);
  }
}

TEST(Shm, RefusesImpossibleShapes) {
  shm::ShmConfig config;
  config.nodes = 0;
  EXPECT_FALSE(shm::make_shm(config).has_value());
  config.nodes = 4;
  config.ranks = 3;
  EXPECT_FALSE(shm::make_shm(config).has_value());
  config.ranks = 4;
  config.job = "no/slash";
  const auto bad = shm::make_shm(config);
  ASSERT_FALSE(bad.has_value());
  EXPECT_NE(bad.error().message.find("no/slash"), std::string::npos);
}

}  // namespace
}  // namespace loch::fabric
