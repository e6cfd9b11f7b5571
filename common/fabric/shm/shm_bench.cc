// Measures what the coroutine API costs on shm. `window` coroutines each await one operation at a time,
// 100,000 operations per iteration in all; the bare memcpy or atomic instruction on the same memory is
// measured in the same run. `ns` and `raw_ns` are the times of one operation on the fabric and of one bare
// instruction or memcpy; `ratio` is ns / raw_ns.
#include <benchmark/benchmark.h>

#include <atomic>
#include <chrono>
#include <cstring>

#include "common/fabric/count/count.h"
#include "common/fabric/shm/shm.h"

namespace loch::fabric {
namespace {

constexpr std::uint64_t region_bytes = 1 << 20;
constexpr std::uint64_t batch = 100'000;

struct Setup {
  explicit Setup(bool is_counted) {
    fabric = shm::make_shm({.nodes = 2}).value();
    if (is_counted) fabric = count_requests(std::move(fabric), {});
    for (NodeId node = 0; node < 2; ++node) {
      memory[node] = fabric->register_region(node, {"memory", region_bytes, true, true, true, {}}).value();
    }
    worker = fabric->add_worker({0, Role::client, 0, -1, "client"}).value();
    if (!fabric->exchange(1'000'000'000)) std::abort();
    remote = fabric->lookup(1, "memory").value();
    // touches every page, so that no page fault falls into the measurement
    std::memset(memory[0]->at(0), 1, region_bytes);
    std::memset(memory[1]->at(0), 1, region_bytes);
  }
  std::unique_ptr<Fabric> fabric;
  Region* memory[2];
  Worker* worker;
  RemoteRegion remote;
  OpStats stats;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::uint64_t next_offset(std::uint64_t i, std::uint32_t length) {
  return i * 4096 % (region_bytes - length) / 64 * 64;
}

coro::Task<void> operate(Setup* setup, Verb verb, std::uint32_t length, std::uint64_t count,
                         bool is_counted) {
  Worker& worker = *setup->worker;
  const LocalSlice here{setup->memory[0], 0};
  OpStats* stats = is_counted ? &setup->stats : nullptr;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t offset = next_offset(i, length);
    WorkRequest request =
        one_sided(verb, setup->remote, offset, verb == Verb::cas ? LocalSlice{} : here, length, stats);
    request.operand = i;
    const Completion done = co_await worker.execute(request);
    if (!done.ok()) std::abort();
  }
}

coro::Task<void> measure(Setup* setup, Verb verb, std::uint32_t length, std::uint32_t window, bool is_counted,
                         double* seconds) {
  const auto start = std::chrono::steady_clock::now();
  coro::Scope scope(setup->worker->run_queue());
  for (std::uint32_t slot = 0; slot < window; ++slot)
    scope.spawn(operate(setup, verb, length, batch / window, is_counted));
  co_await scope.join();
  *seconds = seconds_since(start);
}

double measure_raw(Setup& setup, Verb verb, std::uint32_t length) {
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < batch; ++i) {
    std::byte* there = setup.memory[1]->at(next_offset(i, length));
    std::byte* here = setup.memory[0]->at(0);
    if (verb == Verb::read)
      std::memcpy(here, there, length);
    else if (verb == Verb::write)
      std::memcpy(there, here, length);
    else {
      std::uint64_t expected = 0;
      std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(there))
          .compare_exchange_strong(expected, i);
    }
    benchmark::ClobberMemory();
  }
  return seconds_since(start);
}

void one_sided(benchmark::State& state, Verb verb, bool is_counted) {
  const auto length = static_cast<std::uint32_t>(state.range(0));
  const auto window = static_cast<std::uint32_t>(state.range(1));
  Setup setup(is_counted);
  double raw = 0, fabric = 0;
  for (auto _ : state) {
    double seconds = 0;
    setup.fabric->start(*setup.worker, measure(&setup, verb, length, window, is_counted, &seconds));
    if (!setup.fabric->run()) state.SkipWithError("the run failed");
    state.SetIterationTime(seconds);
    fabric += seconds;
    raw += measure_raw(setup, verb, length);
  }
  const double operations = static_cast<double>(state.iterations()) * static_cast<double>(batch);
  state.counters["ns"] = fabric / operations * 1e9;
  state.counters["raw_ns"] = raw / operations * 1e9;
  state.counters["ratio"] = fabric / raw;
  state.counters["Mops"] = operations / fabric / 1e6;
}

const std::vector<std::vector<std::int64_t>> shapes{{8, 64, 1024, 16384}, {1, 16}};

BENCHMARK_CAPTURE(one_sided, read, Verb::read, false)
    ->ArgsProduct(shapes)
    ->UseManualTime()
    ->Iterations(10)
    ->Unit(benchmark::kMillisecond)
    ->ArgNames({"bytes", "window"});
BENCHMARK_CAPTURE(one_sided, write, Verb::write, false)
    ->ArgsProduct(shapes)
    ->UseManualTime()
    ->Iterations(10)
    ->Unit(benchmark::kMillisecond)
    ->ArgNames({"bytes", "window"});
BENCHMARK_CAPTURE(one_sided, cas, Verb::cas, false)
    ->Args({8, 1})
    ->Args({8, 16})
    ->UseManualTime()
    ->Iterations(10)
    ->Unit(benchmark::kMillisecond)
    ->ArgNames({"bytes", "window"});
BENCHMARK_CAPTURE(one_sided, read_counted, Verb::read, true)
    ->Args({64, 1})
    ->Args({64, 16})
    ->UseManualTime()
    ->Iterations(10)
    ->Unit(benchmark::kMillisecond)
    ->ArgNames({"bytes", "window"});

}  // namespace
}  // namespace loch::fabric
