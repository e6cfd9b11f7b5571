// Runs one microbenchmark of a real fabric through its coroutine interface, and prints the result as a line
// of JSON, which verbs_bench.py compares with the results of perftest's tools. Latencies are medians: of the
// whole round trip for READ and CAS, of half a round trip of a ping-pong for WRITE and SEND, as perftest
// reports them. Allocations are those of all threads during the measured operations.
//
//   verbs_micro [--fabric verbs|shm] TEST [--bytes N] [--window W] [--operations N] [--spin]
//   TEST: read, cas, uc-write, ud-send, read-rate; --spin: workers never give their cores up
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "common/fabric/shm/shm.h"
#include "common/fabric/traffic.h"
#include "common/fabric/verbs/verbs.h"

namespace {
std::atomic<std::uint64_t> allocations = 0;
}

void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace loch::fabric {
namespace {

// The processor's time-stamp counter, which perftest reads too; reading it costs less than a clock.
std::uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

constexpr std::uint64_t region_bytes = 1 << 20;
constexpr std::uint32_t grh = 40, warm_up = 200;
constexpr Nanos patience = 300'000'000'000;

struct Test {
  std::string name = "read";
  std::uint32_t bytes = 64, window = 32;
  std::uint64_t operations = 10'000;
  bool spins = false;
};

struct Bench {
  Test test;
  std::unique_ptr<Fabric> fabric;
  Region* memory[2];
  Worker* workers[2];
  RemoteRegion remote[2];
  std::vector<std::uint64_t> spans;  // duration of each operation, in time-stamp counter ticks
  double ns_per_tick = 1;
  Nanos elapsed = 0;  // duration in ns of the last run of READs with several outstanding
  std::uint64_t allocated = 0, failed = 0;

  [[nodiscard]] LocalSlice at(int node, std::uint64_t offset) const { return {memory[node], offset}; }
};

Result<> set_up(Bench& bench, const std::string& name) {
  if (name == "shm") {
    LOCH_ASSIGN(bench.fabric, shm::make_shm({.nodes = 2}));
  } else {
    verbs::VerbsConfig config{.nodes = 2};
    if (bench.test.spins) config.shares_cores = false;
    LOCH_ASSIGN(bench.fabric, verbs::make_verbs(config));
  }
  for (NodeId node = 0; node < 2; ++node) {
    LOCH_ASSIGN(bench.memory[node],
                bench.fabric->register_region(node, {"memory", region_bytes, true, true, true, {}}));
    LOCH_ASSIGN(bench.workers[node], bench.fabric->add_worker({node, Role::client, 0, -1, "worker"}));
  }
  LOCH_TRY(bench.fabric->exchange(patience));
  for (NodeId node = 0; node < 2; ++node) {
    LOCH_ASSIGN(bench.remote[node], bench.fabric->lookup(node, "memory"));
  }
  const std::uint32_t slot_bytes = bench.test.bytes + grh, stride = (slot_bytes + 63) / 64 * 64;
  // RECVs are posted before the run, since a datagram that finds no RECV is lost
  for (int node = 0; node < 2; ++node) {
    for (std::uint32_t i = 0; i < 64; ++i)
      bench.workers[node]->post_recv(Transport::ud, bench.at(node, 65536 + i * stride), slot_bytes, 0);
  }
  bench.spans.reserve(bench.test.operations);
  return {};
}

WorkRequest one(const Bench& bench, Verb verb, std::uint64_t slot) {
  const Traffic traffic{.verb = verb, .bytes = bench.test.bytes};
  const Target target{.node = 1, .worker = 0, .region = bench.remote[1], .offset = slot * 4096};
  return request_of(traffic, *bench.workers[0], target, bench.at(0, slot * 4096), 0);
}

coro::Task<void> one_at_a_time(Bench* bench, Verb verb) {
  Worker& worker = *bench->workers[0];
  const WorkRequest request = one(*bench, verb, 0);
  for (std::uint64_t i = 0; i < warm_up + bench->test.operations; ++i) {
    if (i == warm_up) bench->allocated = allocations;
    const std::uint64_t start = ticks();
    const Completion done = co_await worker.execute(request);
    if (!done.ok()) ++bench->failed;
    if (i >= warm_up) bench->spans.push_back(ticks() - start);
  }
  bench->allocated = allocations - bench->allocated;
}

coro::Task<void> one_of_many(Bench* bench, std::uint32_t slot, std::uint64_t operations) {
  Worker& worker = *bench->workers[0];
  const WorkRequest request = one(*bench, Verb::read, slot);
  for (std::uint64_t i = 0; i < operations; ++i) {
    const Completion done = co_await worker.execute(request);
    if (!done.ok()) ++bench->failed;
  }
}

coro::Task<void> windowed(Bench* bench) {
  Worker& worker = *bench->workers[0];
  for (const std::uint64_t operations :
       {std::uint64_t{warm_up}, bench->test.operations / bench->test.window}) {
    const Nanos start = worker.now();
    const std::uint64_t before = allocations;
    coro::Scope scope(worker.run_queue());
    for (std::uint32_t slot = 0; slot < bench->test.window; ++slot)
      scope.spawn(one_of_many(bench, slot, operations));
    co_await scope.join();
    bench->elapsed = worker.now() - start;
    bench->allocated = allocations - before;
  }
}

// The WRITE or SEND that node `self` posts in every round of the ping-pong. It is built once, as in
// perftest's tools, so that only its posting is measured.
WorkRequest ball_of(Bench& bench, int self) {
  Worker& worker = *bench.workers[self];
  Traffic traffic{.verb = Verb::write, .transport = Transport::uc, .bytes = bench.test.bytes};
  if (bench.test.name == "ud-send")
    traffic = {.verb = Verb::send, .transport = Transport::ud, .bytes = bench.test.bytes};
  traffic.is_inline = bench.test.bytes <= worker.capabilities().max_inline_bytes;
  const Target target{
      .node = static_cast<NodeId>(1 - self), .worker = 0, .region = bench.remote[1 - self], .offset = 4096};
  return request_of(traffic, worker, target, bench.at(self, 0), 0);
}

// One side of a ping-pong, in which node 0 sends first. The receiver notices a WRITE by polling the WRITE's
// last word, and a SEND by the completion of its RECV.
coro::Task<void> play(Bench* bench, int self) {
  Worker& worker = *bench->workers[self];
  const bool is_datagram = bench->test.name == "ud-send";
  const std::uint32_t slot_bytes = bench->test.bytes + grh;
  WatchWord arrival{bench->memory[self], 4096 + bench->test.bytes - 8};
  const WorkRequest ball = ball_of(*bench, self);
  const Nanos deadline = worker.now() + patience;
  // receive buffer of the last message, to be posted again after this side's next SEND
  std::optional<LocalSlice> empty;
  for (std::uint64_t i = 1; i <= warm_up + bench->test.operations; ++i) {
    const std::uint64_t start = ticks();
    if (self == 0 && i == warm_up + 1) bench->allocated = allocations;
    if (!is_datagram) worker.store_word(*bench->memory[self], bench->test.bytes - 8, i);
    if (self == 0) worker.post_detached(ball);
    if (empty) worker.post_recv(Transport::ud, *empty, slot_bytes, 0);
    arrival.value = i;
    if (is_datagram) {
      const Received got = co_await worker.receive(Transport::ud, deadline);
      if (got.outcome != Received::Outcome::message) ++bench->failed;
      if (got.outcome != Received::Outcome::message) co_return;
      empty = got.buffer;
    } else {
      const WatchOutcome seen = co_await worker.watch(arrival, deadline);
      if (seen != WatchOutcome::ready) ++bench->failed;
      if (seen != WatchOutcome::ready) co_return;
    }
    if (self == 1) worker.post_detached(ball);
    if (self == 0 && i > warm_up) bench->spans.push_back((ticks() - start) / 2);
  }
  if (self == 0) bench->allocated = allocations - bench->allocated;
}

Result<> run(Bench& bench) {
  const std::string& name = bench.test.name;
  const Nanos began = bench.workers[0]->now();
  const std::uint64_t began_ticks = ticks();
  if (name == "read" || name == "cas") {
    bench.fabric->start(*bench.workers[0], one_at_a_time(&bench, name == "cas" ? Verb::cas : Verb::read));
  } else if (name == "read-rate") {
    bench.fabric->start(*bench.workers[0], windowed(&bench));
  } else {
    for (int self = 0; self < 2; ++self) bench.fabric->start(*bench.workers[self], play(&bench, self));
  }
  const auto end = bench.fabric->run();
  bench.ns_per_tick =
      static_cast<double>(bench.workers[0]->now() - began) / static_cast<double>(ticks() - began_ticks);
  if (!end) return std::unexpected(end.error());
  if (*end != RunEnd::finished || bench.failed != 0)
    return fail(ErrorCode::internal, fmt::format("{}: {} operations failed", name, bench.failed));
  return {};
}

void print(Bench& bench) {
  const double count = static_cast<double>(bench.test.operations);
  std::string line = fmt::format(R"({{"test":"{}","bytes":{},"operations":{},"allocations":{})",
                                 bench.test.name, bench.test.bytes, bench.test.operations, bench.allocated);
  if (bench.spans.empty()) {
    const double done = static_cast<double>(bench.test.operations / bench.test.window * bench.test.window);
    line += fmt::format(R"(,"window":{},"mops":{:.6f})", bench.test.window,
                        done / static_cast<double>(bench.elapsed) * 1e3);
  } else {
    std::ranges::nth_element(bench.spans, bench.spans.begin() + static_cast<std::ptrdiff_t>(count / 2));
    line += fmt::format(
        R"(,"median_us":{:.3f})",
        static_cast<double>(bench.spans[static_cast<std::size_t>(count / 2)]) * bench.ns_per_tick / 1e3);
  }
  double doorbells = 0, yields = 0;
  for (const NodeReport& node : bench.fabric->report().nodes) {
    for (const auto& [counter, value] : node.counters) {
      if (counter.ends_with(".doorbells")) doorbells += value;
      if (counter.ends_with(".yields") || counter.ends_with(".sleeps")) yields += value;
    }
  }
  fmt::print("{},\"doorbells\":{},\"yields\":{}}}\n", line, doorbells, yields);
}

int main_of(const std::vector<std::string>& arguments) {
  const std::vector<std::string> tests = {"read", "cas", "uc-write", "ud-send", "read-rate"};
  Bench bench;
  std::string fabric = "verbs";
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const bool has_value = i + 1 < arguments.size();
    if (std::ranges::find(tests, word) != tests.end()) {
      bench.test.name = word;
    } else if (word == "--spin") {
      bench.test.spins = true;
    } else if (word == "--fabric" && has_value) {
      fabric = arguments[++i];
    } else if ((word == "--bytes" || word == "--window" || word == "--operations") && has_value) {
      const std::uint64_t value = std::strtoull(arguments[++i].c_str(), nullptr, 10);
      if (word == "--bytes") bench.test.bytes = static_cast<std::uint32_t>(value);
      if (word == "--window") bench.test.window = static_cast<std::uint32_t>(value);
      if (word == "--operations") bench.test.operations = value;
    } else {
      fmt::print(stderr,
                 "verbs_micro: {}: expected a test (read, cas, uc-write, ud-send, read-rate), --fabric, "
                 "--bytes, --window, --operations or --spin\n",
                 word);
      return 2;
    }
  }
  if (bench.test.bytes < 8 || bench.test.bytes > 4096 || bench.test.bytes % 8 != 0 || bench.test.window < 1 ||
      bench.test.window > 128 || bench.test.operations < bench.test.window) {
    fmt::print(stderr,
               "verbs_micro: expected 8 to 4096 bytes in words, a window of 1 to 128, as many operations\n");
    return 2;
  }
  auto ok = set_up(bench, fabric);
  if (ok) ok = run(bench);
  if (!ok) {
    fmt::print(stderr, "verbs_micro: {}\n", ok.error().message);
    return 1;
  }
  print(bench);
  return 0;
}

}  // namespace
}  // namespace loch::fabric

int main(int argc, char** argv) { return loch::fabric::main_of({argv + 1, argv + argc}); }
