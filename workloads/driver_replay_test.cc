// Replays traces on each fabric with a minimal store, and checks that every operation is issued once, in
// order for each key, and at its time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "common/base/rng.h"
#include "tests/support/fabrics.h"
#include "tests/support/slot_store.h"
#include "workloads/run.h"

namespace loch::workloads {
namespace {

// Records the operations issued on each key, ordered by their begin.
struct ReplayRecording {
  struct Entry {
    Nanos begin = 0, end = 0;
    OpKind kind = OpKind::get;
    Outcome outcome = Outcome::ok;
  };
  std::mutex mutex;
  std::map<std::string, std::vector<Entry>> by_key;

  LogFactory factory() {
    return [this](std::int32_t) { return std::make_unique<Log>(*this); };
  }

 private:
  struct Log final : OperationLog {
    explicit Log(ReplayRecording& r) : recording(r) {}
    void invoked(OpKind, std::string_view, std::optional<std::string_view>, Nanos) override {}
    void record(const check::OperationView& o) override {
      const std::lock_guard lock(recording.mutex);
      recording.by_key[std::string(o.key)].push_back({o.invoke_ns, *o.return_ns, o.kind, o.outcome});
    }
    ReplayRecording& recording;
  };
};

// Makes a trace of `per_second` operations a second on 20 keys, all of which are preloaded. Keys are also
// deleted, and read after that.
std::shared_ptr<const Trace> make_trace(std::uint32_t seconds, std::uint32_t per_second) {
  TraceBuilder builder({.file = "t", .format = TraceFormat::twitter, .preload = TracePreload::all});
  Rng rng(7);
  for (std::uint32_t number = 0; number < seconds * per_second; ++number) {
    constexpr std::array names = {"get", "set", "delete"};
    const std::uint64_t key = rng.below(20);
    EXPECT_TRUE(builder.add(fmt::format("{},key{},{},{},0,{},0", number / per_second, key, 12 + key,
                                        40 + rng.below(160), names[rng.below(3)])));
  }
  auto trace = builder.finish();
  EXPECT_TRUE(trace) << trace.error().message;
  return *trace;
}

class ReplayOn : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { module_ = support::make_slot_store(); }

  void plan(const std::shared_ptr<const Trace>& trace, double speed) {
    trace_ = trace;
    plan_.module = module_.get();
    plan_.options = kv::Options(module_->options());
    plan_.deploy = {.nodes = 2,
                    .client_workers = 2,
                    .server_workers = 0,
                    .window = 2,
                    .key_size = trace->key_most(),
                    .value_size = trace->value_most(),
                    .keys = trace->preloaded(),
                    .max_keys = trace->keys(),
                    .kept_value_bytes = trace->value_most(),
                    .memory_bytes = 1 << 20,
                    .seed = 1};
    plan_.records = {.preloaded = trace->preloaded(),
                     .most = trace->keys(),
                     .key_size = trace->key_most(),
                     .value_size = trace->value_most(),
                     .table = trace->sizes()};
    plan_.load.operations = trace->events().size();
    plan_.load.verify = true;
    plan_.load.replay = {.trace = trace, .speed = speed};
  }
  RunOutcome run() {
    support::FabricOptions options{.nodes = plan_.deploy.nodes, .seed = 1, .is_plain = true};
    const auto fabric = support::make_fabric(GetParam(), options);
    auto outcome = run_load(*fabric, plan_);
    EXPECT_TRUE(outcome) << outcome.error().message;
    if (!outcome) return {};
    EXPECT_EQ(outcome->end, fabric::RunEnd::finished);
    return std::move(*outcome);
  }
  static measure::Tally total(const RunOutcome& outcome) {
    measure::Tally sum;
    for (const measure::NodePart& node : outcome.nodes) sum.merge(node.tally);
    return sum;
  }
  // The trace's operations by key; keys have the names that they have in histories.
  [[nodiscard]] std::map<std::string, std::vector<TraceEvent>> wanted() const {
    const auto records = Records::make(plan_.records);
    std::vector<std::byte> key(trace_->key_most());
    std::map<std::string, std::vector<TraceEvent>> all;
    for (const TraceEvent& event : trace_->events()) {
      records->key(event.record, key.data());
      all[key_name({key.data(), records->key_size(event.record)})].push_back(event);
    }
    return all;
  }

  std::unique_ptr<kv::Module> module_;
  std::shared_ptr<const Trace> trace_;
  RunPlan plan_;
};
INSTANTIATE_TEST_SUITE_P(Fabrics, ReplayOn, ::testing::ValuesIn(support::local_fabrics()));

TEST_P(ReplayOn, EveryOperationOnceAndThoseOfAKeyInTheirOrder) {
  ReplayRecording recording;
  plan(make_trace(1, 2'000), 0);
  plan_.logs = recording.factory();
  const RunOutcome outcome = run();
  const measure::Tally sum = total(outcome);
  EXPECT_EQ(sum.total(), 2'000U);
  EXPECT_EQ(sum.corrupt, 0U);
  EXPECT_EQ(sum.verified, sum.of(OpKind::get).by_status[0]);
  EXPECT_EQ(sum.lag_ns.count(), 0U);  // at speed 0 no operation has a due time, so no lag is recorded
  const auto expected = wanted();
  ASSERT_EQ(recording.by_key.size(), expected.size());
  for (const auto& [key, events] : expected) {
    const auto& got = recording.by_key.at(key);
    ASSERT_EQ(got.size(), events.size()) << key;
    bool is_there = true;
    for (std::size_t i = 0; i < events.size(); ++i) {
      EXPECT_EQ(got[i].kind, events[i].kind()) << key << " " << i;
      if (i > 0) EXPECT_GE(got[i].begin, got[i - 1].end) << key << " " << i;
      // One window slot (place for one operation) issues all operations of a key, so the trace alone tells
      // whether the key is present.
      const bool finds = events[i].kind() == OpKind::put || is_there;
      EXPECT_EQ(got[i].outcome, finds ? Outcome::ok : Outcome::not_found) << key << " " << i;
      is_there = events[i].kind() == OpKind::put || (is_there && events[i].kind() == OpKind::get);
    }
  }
}

TEST_P(ReplayOn, OperationsBeginAtTheirTimesOrLate) {
  constexpr double speed = 20;
  ReplayRecording recording;
  plan(make_trace(2, 200), speed);
  plan_.logs = recording.factory();
  const RunOutcome outcome = run();
  const measure::Tally sum = total(outcome);
  EXPECT_EQ(sum.total(), 400U);
  EXPECT_EQ(sum.lag_ns.count(), 400U);
  // Two seconds of trace at 20 times the speed take 0.1 s; the last of the 200 operations of a second is due
  // 5 ms of trace time before the end of that second.
  EXPECT_GE(outcome.window_s, 0.09975);
  Nanos first = INT64_MAX;
  for (const auto& [key, entries] : recording.by_key) first = std::min(first, entries.front().begin);
  // Due times count from the begin of the run. The first operation begins after the begin of the run by at
  // most the largest lag.
  for (const auto& [key, events] : wanted()) {
    const auto& got = recording.by_key.at(key);
    for (std::size_t i = 0; i < events.size(); ++i) {
      const auto due = static_cast<Nanos>(static_cast<double>(events[i].at) / speed);
      EXPECT_GE(got[i].begin - first + sum.lag_ns.max(), due) << key << " " << i;
    }
  }
  if (GetParam() != "sim") return;
  // At this speed operations are due 250 µs apart, and each takes microseconds, so lag stays small on sim.
  EXPECT_LT(sum.lag_ns.max(), 100'000);
  EXPECT_LT(outcome.window_s, 0.101);
}

TEST_P(ReplayOn, AnImpossibleRateIsLateByWhatItTakes) {
  plan(make_trace(1, 2'000), 1e9);  // at this speed, all operations are due within a nanosecond
  const RunOutcome outcome = run();
  const measure::Tally sum = total(outcome);
  EXPECT_EQ(sum.total(), 2'000U);
  // All operations are due at the start, so the last one begins about as late as the run is long.
  EXPECT_GT(static_cast<double>(sum.lag_ns.max()) / 1e9, 0.8 * outcome.window_s);
  EXPECT_LE(static_cast<double>(sum.lag_ns.max()) / 1e9, outcome.window_s + 0.001);
  // Latency counts from the due time, so it includes the lag.
  EXPECT_GE(sum.of(OpKind::get).latency_ns.mean(), 0.5 * sum.lag_ns.mean());
}

TEST_P(ReplayOn, OneSeedOneTraceHash) {
  if (GetParam() != "sim") GTEST_SKIP() << "real time";
  plan(make_trace(1, 500), 100);
  const RunOutcome first = run(), second = run();
  EXPECT_EQ(first.sim->trace_hash, second.sim->trace_hash);
  plan(make_trace(1, 500), 50);
  EXPECT_NE(run().sim->trace_hash, first.sim->trace_hash);
}

}  // namespace
}  // namespace loch::workloads
