// Measures the linearizability checker: one million operations, judged in memory and read from a file.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <unordered_map>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/check/linearizable.h"

namespace loch::check {
namespace {

constexpr int operations = 1'000'000;

// Generates the history of `clients` closed-loop clients on a correct store: each operation takes effect
// at a random instant between its invocation and its return. A key is drawn as keys * u^skew with u
// uniform in [0, 1).
std::vector<Operation> correct_run(int clients, std::uint32_t keys, double skew, double puts,
                                   double removes) {
  struct Pending {
    Nanos instant;
    Operation op;
  };
  Rng rng(7, "bench");
  std::vector<Nanos> free_at(static_cast<std::size_t>(clients), 0);
  std::vector<Pending> pending;
  for (int i = 0; i < operations; ++i) {
    const auto client = static_cast<std::size_t>(i % clients);
    const Nanos begin = free_at[client] + 1;
    const Nanos end = begin + 2'000 + static_cast<Nanos>(rng.exponential(5'000));
    free_at[client] = end;
    const auto record = static_cast<std::uint32_t>(std::pow(rng.uniform(), skew) * keys);
    const double dice = rng.uniform();
    Pending p{begin + static_cast<Nanos>(rng.below(static_cast<std::uint64_t>(end - begin + 1))), {}};
    p.op = {static_cast<std::int32_t>(client),
            OpKind::get,
            Outcome::ok,
            fmt::format("user{}", record),
            {},
            begin,
            end};
    if (dice < puts) {
      p.op.kind = OpKind::put;
      p.op.value = fmt::format("w{}.{}", client, i);
    } else if (dice < puts + removes) {
      p.op.kind = OpKind::remove;
    }
    pending.push_back(std::move(p));
  }
  std::ranges::sort(pending, {}, [](const Pending& p) { return std::tie(p.instant, p.op.client); });
  std::unordered_map<std::string, std::optional<std::string>> store;
  std::vector<Operation> history;
  for (Pending& p : pending) {
    const auto [slot, fresh] = store.try_emplace(p.op.key, std::string(preloaded_value));
    std::optional<std::string>& value = slot->second;
    if (p.op.kind == OpKind::put) {
      value = p.op.value;
    } else {
      if (!value) p.op.outcome = Outcome::not_found;
      if (p.op.kind == OpKind::get) p.op.value = value;
      if (p.op.kind == OpKind::remove) value.reset();
    }
    history.push_back(std::move(p.op));
  }
  return history;
}

void judge(benchmark::State& state, const std::vector<Operation>& history) {
  for ([[maybe_unused]] const auto round : state) {
    const CheckReport report = check_operations(history, {});
    LOCH_CHECK(report.verdict() == Verdict::holds);
  }
  state.counters["operations/s"] =
      benchmark::Counter(static_cast<double>(history.size()), benchmark::Counter::kIsIterationInvariantRate);
}

void BM_ManyKeys(benchmark::State& state) { judge(state, correct_run(180, 100'000, 1, 0.5, 0)); }
void BM_HotKeys(benchmark::State& state) { judge(state, correct_run(180, 10'000, 6, 0.5, 0)); }
void BM_OneKey(benchmark::State& state) { judge(state, correct_run(180, 1, 1, 0.5, 0)); }
void BM_ManyKeysWithDeletes(benchmark::State& state) { judge(state, correct_run(180, 100'000, 1, 0.4, 0.1)); }
void BM_HotKeysWithDeletes(benchmark::State& state) { judge(state, correct_run(180, 10'000, 6, 0.4, 0.1)); }
void BM_OneKeyWithDeletes(benchmark::State& state) {
  judge(state, correct_run(static_cast<int>(state.range(0)), 1, 1, 0.4, 0.1));
}

void BM_Record(benchmark::State& state) {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("loch_bench_{}", ::getpid())).string();
  const std::vector<Operation> history = correct_run(16, 100'000, 1, 0.5, 0);
  for ([[maybe_unused]] const auto round : state) {
    auto writer = HistoryWriter::create(path);
    LOCH_CHECK(writer.has_value());
    ClientLog& log = (*writer)->log(1);
    for (const Operation& operation : history) log.record(view(operation));
    LOCH_CHECK((*writer)->close().has_value());
  }
  state.counters["operations/s"] =
      benchmark::Counter(static_cast<double>(history.size()), benchmark::Counter::kIsIterationInvariantRate);
  std::filesystem::remove(path);
}

void BM_ReadAndJudgeFile(benchmark::State& state) {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("loch_bench_{}", ::getpid())).string();
  const std::vector<Operation> history = correct_run(180, 100'000, 1, 0.5, 0);
  {
    auto writer = HistoryWriter::create(path);
    LOCH_CHECK(writer.has_value());
    std::vector<ClientLog*> logs;
    logs.reserve(180);
    for (int c = 0; c < 180; ++c) logs.push_back(&(*writer)->log(c));
    for (const Operation& operation : history)
      logs[static_cast<std::size_t>(operation.client)]->record(view(operation));
    LOCH_CHECK((*writer)->close().has_value());
  }
  for ([[maybe_unused]] const auto round : state) {
    const auto report = check_history({path}, {});
    LOCH_CHECK(report.has_value() && report->verdict() == Verdict::holds);
  }
  state.counters["operations/s"] =
      benchmark::Counter(static_cast<double>(history.size()), benchmark::Counter::kIsIterationInvariantRate);
  std::filesystem::remove(path);
}

BENCHMARK(BM_ManyKeys)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_HotKeys)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_OneKey)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_ManyKeysWithDeletes)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_HotKeysWithDeletes)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_OneKeyWithDeletes)->Arg(12)->Arg(24)->Arg(48)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Record)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_ReadAndJudgeFile)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace loch::check
