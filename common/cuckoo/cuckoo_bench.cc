// Measures the hashing of a key's candidate slots and the search for moves that free a slot.
#include <benchmark/benchmark.h>

#include <cstring>

#include "common/cuckoo/placement.h"

namespace loch::cuckoo {
namespace {

constexpr std::uint32_t key_size = 128;

void write_key(std::uint64_t i, std::byte* out) {
  std::memset(out, 'k', key_size);
  std::memcpy(out, &i, sizeof i);
}

void hash_candidates(benchmark::State& state) {
  const HashFamily family({.nodes = 15, .slots_per_node = 1 << 20, .functions = 3}, 1);
  std::array<std::byte, key_size> key{};
  std::uint64_t i = 0;
  for (auto _ : state) {
    write_key(++i, key.data());
    KeyHash hash = family.hash(key);
    benchmark::DoNotOptimize(hash.candidate(static_cast<std::uint32_t>(state.range(0))));
  }
}
BENCHMARK(hash_candidates)->Arg(0)->Arg(2);

void plan(benchmark::State& state) {
  const auto keys = static_cast<std::uint64_t>(state.range(0));
  const HashFamily family({.nodes = 15, .slots_per_node = keys * 5 / 2 / 15 + 1, .functions = 3}, 1);
  for (auto _ : state) {
    auto placement = plan_placement(family, keys, key_size, write_key);
    benchmark::DoNotOptimize(placement->stats().moves);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(plan)->Arg(100'000)->Arg(1'000'000)->Arg(10'000'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace loch::cuckoo
