// Tests the load driver on each fabric with a minimal store.
#include "workloads/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>

#include "common/check/linearizable.h"
#include "tests/support/fabrics.h"
#include "tests/support/slot_store.h"
#include "workloads/run.h"

namespace loch::workloads {
namespace {

// Keeps every operation's history entry in memory.
struct Recording {
  std::mutex mutex;
  std::vector<check::Operation> operations;

  LogFactory factory() {
    return [this](std::int32_t) { return std::make_unique<Log>(*this); };
  }

 private:
  struct Log final : OperationLog {
    explicit Log(Recording& r) : recording(r) {}
    void invoked(OpKind, std::string_view, std::optional<std::string_view>, Nanos) override {}
    void record(const check::OperationView& o) override {
      const std::lock_guard lock(recording.mutex);
      recording.operations.push_back({o.client, o.kind, o.outcome, std::string(o.key),
                                      o.value ? std::optional<std::string>(*o.value) : std::nullopt,
                                      o.invoke_ns, o.return_ns});
    }
    Recording& recording;
  };
};

class DriverOn : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    module_ = support::make_slot_store();
    plan_.module = module_.get();
    plan_.options = kv::Options(module_->options());
    plan_.deploy = {.nodes = 3,
                    .client_workers = 2,
                    .server_workers = 0,
                    .window = 2,
                    .key_size = 32,
                    .value_size = 200,
                    .keys = 50,
                    .max_keys = 50,
                    .kept_value_bytes = 200,
                    .memory_bytes = 1 << 20,
                    .seed = 1};
    plan_.records = {50, 50, 32, 200};
    plan_.load.mix = {.get = 0.5, .put = 0.4, .remove = 0.1, .insert = 0, .read_modify_write = 0};
    plan_.load.operations = 1'000;
    plan_.load.verify = true;
  }
  // Opens the fabric under test. On sim, if `is_torn_` is set, cache lines of one message become visible at
  // different instants, as in real memory.
  std::unique_ptr<fabric::Fabric> open(std::uint32_t nodes, std::uint64_t seed) {
    support::FabricOptions options{.nodes = nodes, .seed = seed, .is_plain = true};
    if (is_torn_) options.faults.torn_read = options.faults.torn_write = 0.5;
    return support::make_fabric(GetParam(), options);
  }
  RunOutcome run() {
    const auto fabric = open(plan_.deploy.nodes, plan_.load.seed);
    auto outcome = run_load(*fabric, plan_);
    EXPECT_TRUE(outcome) << outcome.error().message;
    if (!outcome) return {};
    EXPECT_EQ(outcome->end, fabric::RunEnd::finished);
    EXPECT_EQ(outcome->outstanding, 0U);
    return std::move(*outcome);
  }
  static measure::Tally total(const RunOutcome& outcome) {
    measure::Tally sum;
    for (const measure::NodePart& node : outcome.nodes) sum.merge(node.tally);
    return sum;
  }
  [[nodiscard]] bool is_sim() const { return GetParam() == "sim"; }

  std::unique_ptr<kv::Module> module_;
  RunPlan plan_;
  bool is_torn_ = false;
};
INSTANTIATE_TEST_SUITE_P(Fabrics, DriverOn, ::testing::ValuesIn(support::local_fabrics()));

TEST_P(DriverOn, CountsEveryOperationOnce) {
  const RunOutcome outcome = run();
  const measure::Tally sum = total(outcome);
  EXPECT_EQ(sum.total() + sum.unmeasured, 1'000U);
  EXPECT_EQ(sum.unmeasured, 0U);
  EXPECT_EQ(sum.corrupt, 0U);
  EXPECT_EQ(sum.verified, sum.of(OpKind::get).by_status[0]);
  EXPECT_GT(sum.of(OpKind::get).by_status[1], 0U);  // [1]: not_found, of GETs of deleted keys
  EXPECT_NEAR(static_cast<double>(sum.of(OpKind::get).total()), 500, 80);
  EXPECT_NEAR(static_cast<double>(sum.of(OpKind::remove).total()), 100, 45);
  EXPECT_EQ(sum.of(OpKind::put).latency_ns.count(), sum.of(OpKind::put).completed());
  EXPECT_GT(outcome.window_s, 0);
  EXPECT_EQ(outcome.protocol_counters.at("slots"), 50);
}

TEST_P(DriverOn, NodesThatOnlyServeIssueNothingAndOthersHoldNothing) {
  Recording recording;
  plan_.logs = recording.factory();
  plan_.deploy.server_nodes = 1;
  const RunOutcome outcome = run();
  EXPECT_EQ(outcome.nodes.at(0).tally.total(), 0U);
  EXPECT_EQ(total(outcome).total(), 1'000U);
  std::set<std::int32_t> clients;
  for (const check::Operation& operation : recording.operations) clients.insert(operation.client);
  EXPECT_EQ(clients.size(), 8U);  // 2 nodes x 2 workers x 2 window slots
  EXPECT_EQ(*clients.rbegin(), 7);
  const auto report = check::check_operations(recording.operations, {.initial = check::Initial::present});
  EXPECT_EQ(report.verdict(), check::Verdict::holds);
}

TEST(DeployShape, WorkersOfNodesThatOnlyServe) {
  kv::DeployConfig config;
  config.nodes = 5;
  config.client_workers = 3;
  EXPECT_EQ(config.serving_nodes(), 5U);
  EXPECT_EQ(config.driving_nodes(), 5U);
  EXPECT_EQ(config.client_number(1, 2), 5U);
  EXPECT_EQ(config.server_index(1), 4);
  config.server_nodes = 2;
  EXPECT_EQ(config.serving_nodes(), 2U);
  EXPECT_EQ(config.driving_nodes(), 3U);
  EXPECT_TRUE(config.serves(1) && !config.drives(1) && config.drives(2) && !config.serves(2));
  EXPECT_EQ(config.client_number(2, 0), 0U);
  EXPECT_EQ(config.client_number(4, 2), 8U);
  EXPECT_EQ(config.server_index(1), 1);
}

TEST_P(DriverOn, HistoryIsCompleteAndLinearizable) {
  Recording recording;
  plan_.logs = recording.factory();
  plan_.load.operations = 5'000;
  plan_.records.preloaded = plan_.records.most = plan_.deploy.keys = plan_.deploy.max_keys = 5;
  run();
  EXPECT_EQ(recording.operations.size(), 5'000U);
  std::set<std::string> written;
  std::set<std::int32_t> clients;
  for (const check::Operation& operation : recording.operations) {
    clients.insert(operation.client);
    if (operation.kind == OpKind::put) EXPECT_TRUE(written.insert(*operation.value).second);
  }
  EXPECT_EQ(clients.size(), 12U);  // 3 nodes x 2 workers x 2 window slots
  const auto report = check::check_operations(recording.operations, {.initial = check::Initial::present});
  EXPECT_EQ(report.verdict(), check::Verdict::holds)
      << (report.failures.empty() ? "" : report.failures[0].reason);
  EXPECT_EQ(report.keys, 5U);
}

TEST_P(DriverOn, BrokenStoreIsCaught) {
  Recording recording;
  plan_.logs = recording.factory();
  plan_.mutant = "no-lock";
  is_torn_ = true;
  plan_.load.mix = {.get = 0.5, .put = 0.5, .remove = 0, .insert = 0, .read_modify_write = 0};
  plan_.load.operations = is_sim() ? 20'000 : 50'000;
  plan_.records = {1, 1, 32, 16'384};
  plan_.deploy.keys = plan_.deploy.max_keys = 1;
  plan_.deploy.value_size = plan_.deploy.kept_value_bytes = 16'384;
  const RunOutcome outcome = run();
  const auto report = check::check_operations(recording.operations, {.initial = check::Initial::present});
  EXPECT_TRUE(total(outcome).corrupt > 0 || report.verdict() == check::Verdict::violated);
}

TEST_P(DriverOn, DurationEndsTheRunAndWarmupIsNotCounted) {
  plan_.load.operations = 0;
  plan_.load.warmup = is_sim() ? 200'000 : 50'000'000;
  plan_.load.duration = is_sim() ? 500'000 : 100'000'000;
  const RunOutcome outcome = run();
  const measure::Tally sum = total(outcome);
  EXPECT_GT(sum.total(), 0U);
  EXPECT_GT(sum.unmeasured, 0U);
  EXPECT_DOUBLE_EQ(outcome.window_s, static_cast<double>(plan_.load.duration) / 1e9);
  EXPECT_LE(sum.last_ns - sum.first_ns, plan_.load.duration);
}

// Each operation that ends inside the measurement window, whether completed or failed, is counted once in the
// time series.
TEST_P(DriverOn, BinsOfTheTimelineSumToTheRunsOperations) {
  plan_.load.operations = 0;
  plan_.load.warmup = is_sim() ? 200'000 : 50'000'000;
  plan_.load.duration = is_sim() ? 510'000 : 105'000'000;
  plan_.load.timeline = is_sim() ? 20'000 : 10'000'000;
  const RunOutcome outcome = run();
  const measure::Tally sum = total(outcome);
  ASSERT_TRUE(outcome.timeline);
  ASSERT_EQ(outcome.timeline->bins().size(), is_sim() ? 26U : 11U);
  std::uint64_t completed = 0, failed = 0, busy = 0;
  for (const measure::Timeline::Bin& bin : outcome.timeline->bins()) {
    completed += bin.completed();
    failed += bin.failed;
    busy += bin.completed() > 0 ? 1 : 0;
    EXPECT_EQ(bin.unwritable, std::nullopt);  // LoadConfig::probe_keys is 0: not measured
  }
  EXPECT_GT(completed, 0U);
  EXPECT_EQ(completed, sum.completed());
  EXPECT_EQ(completed + failed, sum.total());
  if (is_sim()) EXPECT_EQ(busy, 26U);
}

// Operations of the prober (the client that PUTs some keys in every bin of the time series) do not count as
// load, and without failures the prober can write every key.
TEST_P(DriverOn, AProberWritesItsSampleAndIsNotCounted) {
  Recording recording;
  plan_.logs = recording.factory();
  plan_.load.operations = 0;
  plan_.load.duration = is_sim() ? 5'000'000 : 500'000'000;
  plan_.load.timeline = plan_.load.duration / 5;
  plan_.load.probe_keys = 10;
  plan_.load.mix = {.get = 1, .put = 0, .remove = 0, .insert = 0, .read_modify_write = 0};
  const RunOutcome outcome = run();
  const measure::Tally sum = total(outcome);
  EXPECT_EQ(sum.of(OpKind::put).total(), 0U);
  EXPECT_GT(sum.unmeasured, 0U);
  std::map<std::string, int> written;
  for (const check::Operation& o : recording.operations) {
    if (o.kind != OpKind::put) continue;
    ++written[o.key];
    EXPECT_GE(o.client, 10) << "not the last worker of three nodes with two, whose clients are 10 and 11";
  }
  EXPECT_EQ(written.size(), 10U);
  for (const auto& [key, times] : written) EXPECT_LE(times, 6) << key;
  if (is_sim()) {
    for (const auto& [key, times] : written) EXPECT_GE(times, 5) << key;
  }
  ASSERT_TRUE(outcome.timeline);
  for (const measure::Timeline::Bin& bin : outcome.timeline->bins()) EXPECT_EQ(bin.unwritable, 0U);
}

// A multi-get asks for different keys at once, and its window slot (place for one operation) issues the next
// operation only after the last answer to the multi-get.
TEST_P(DriverOn, AMultiGetIsManyGetsAtOnce) {
  Recording recording;
  plan_.logs = recording.factory();
  plan_.deploy.window = 8;  // eight window slots can drive two multi-gets of four keys
  plan_.load.multi_get = 4;
  plan_.load.operations = 120;
  plan_.load.mix = {.get = 1, .put = 0, .remove = 0, .insert = 0, .read_modify_write = 0};
  const measure::Tally sum = total(run());
  EXPECT_EQ(sum.of(OpKind::get).completed(), 480U);
  EXPECT_EQ(sum.batches.total, 120U);
  EXPECT_EQ(sum.batches.latency_ns.count(), 120U);
  EXPECT_GE(sum.batches.latency_ns.max(), sum.of(OpKind::get).latency_ns.max());
  EXPECT_GT(sum.batches.latency_ns.mean(), sum.of(OpKind::get).latency_ns.mean());
  std::map<std::int32_t, std::vector<check::Operation>> by_lane;
  for (const check::Operation& each : recording.operations) by_lane[each.client].push_back(each);
  ASSERT_EQ(by_lane.size(), 48U);
  for (std::int32_t slot = 0; slot < 48; slot += 4) {
    Nanos last_answer = 0;
    for (std::size_t batch = 0; batch < by_lane[slot].size(); ++batch) {
      std::set<std::string> keys;
      Nanos answered = 0, begun = 0;
      for (std::int32_t lane = slot; lane < slot + 4; ++lane) {
        ASSERT_EQ(by_lane[lane].size(), by_lane[slot].size());
        const check::Operation& get = by_lane[lane][batch];
        keys.insert(get.key);
        EXPECT_GE(get.invoke_ns, last_answer) << "before the batch ahead of it had ended";
        begun = std::max(begun, get.invoke_ns);
        answered = std::max(answered, get.return_ns.value_or(0));
      }
      EXPECT_EQ(keys.size(), 4U);
      EXPECT_LE(begun, answered);
      last_answer = answered;
    }
  }
}

// Even with a skewed distribution the keys of a multi-get differ; a PUT uses only one of the window slots
// (places for one operation each).
TEST_P(DriverOn, AMultiGetMayAskForEveryKey) {
  plan_.deploy.keys = plan_.deploy.max_keys = 5;
  plan_.records = {5, 5, 32, 200};
  plan_.deploy.window = 5;
  plan_.load.multi_get = 5;
  plan_.load.operations = 60;
  plan_.load.distribution.kind = Distribution::zipfian;
  const measure::Tally sum = total(run());
  EXPECT_EQ(sum.of(OpKind::get).total(), 5 * sum.batches.total);
  EXPECT_EQ(sum.batches.total + sum.of(OpKind::put).total() + sum.of(OpKind::remove).total(), 60U);
}

TEST_P(DriverOn, AMultiGetHasALaneForEachKey) {
  plan_.deploy.window = 6;
  plan_.load.multi_get = 4;
  const auto fabric = open(plan_.deploy.nodes, plan_.load.seed);
  EXPECT_FALSE(run_load(*fabric, plan_));
}

TEST_P(DriverOn, OpenLoopKeepsItsRate) {
  plan_.load.operations = 0;
  plan_.load.duration = is_sim() ? 20'000'000 : 500'000'000;
  plan_.load.rate = is_sim() ? 100'000 : 2'000;
  for (const bool fixed : {false, true}) {
    plan_.load.fixed_gaps = fixed;
    const RunOutcome outcome = run();
    const double expected = plan_.load.rate * static_cast<double>(plan_.load.duration) / 1e9;
    EXPECT_NEAR(static_cast<double>(total(outcome).total()), expected, expected * 0.15 + 30) << fixed;
  }
}

TEST_P(DriverOn, OpenLoopLatencyCountsFromTheIntendedStart) {
  plan_.load.operations = 0;
  plan_.load.duration = is_sim() ? 5'000'000 : 200'000'000;
  // Operations a second, far above what a store completes, so that the open loop's queue keeps growing.
  plan_.load.rate = 1e9;
  const measure::Tally sum = total(run());
  EXPECT_GT(sum.of(OpKind::get).latency_ns.percentile(99), plan_.load.duration / 2);
}

// All window slots (places for one operation each) of a worker share one thread, and thinking takes CPU time,
// so their think times add up.
TEST_P(DriverOn, ThinkingTakesTheTimeOfTheWorkersThread) {
  plan_.load.operations = 0;
  plan_.load.duration = is_sim() ? 20'000'000 : 300'000'000;
  plan_.load.think = plan_.load.duration / 100;
  const measure::Tally sum = total(run());
  const std::uint64_t workers = std::uint64_t{plan_.deploy.nodes} * plan_.deploy.client_workers;
  // The measurement window is as long as 100 think times of a worker; in addition, one operation of each
  // window slot (place for one operation) may have begun before the measurement window.
  EXPECT_LE(sum.total(), workers * (100 + plan_.deploy.window));
  EXPECT_GT(sum.total(), is_sim() ? workers * 90 : 0);
  plan_.load.rate = 1'000;
  const auto fabric = open(plan_.deploy.nodes, plan_.load.seed);
  EXPECT_FALSE(run_load(*fabric, plan_));
}

// Pauses of a worker's window slots (places for one operation each) overlap, since the slots wait for them at
// the same time; think times, which take CPU time, add up instead.
TEST_P(DriverOn, PausesOfAWorkersSlotsOverlap) {
  plan_.load.operations = 0;
  plan_.load.duration = is_sim() ? 20'000'000 : 300'000'000;
  plan_.load.pause = plan_.load.duration / 100;
  plan_.deploy.window = 4;
  const measure::Tally sum = total(run());
  const std::uint64_t slots = std::uint64_t{plan_.deploy.nodes} * plan_.deploy.client_workers * 4;
  EXPECT_LE(sum.total(), slots * 101);
  EXPECT_GT(sum.total(), is_sim() ? slots * 90 : 0);
  plan_.load.rate = 1'000;
  const auto fabric = open(plan_.deploy.nodes, plan_.load.seed);
  EXPECT_FALSE(run_load(*fabric, plan_));
}

// Workers take turns: in each interval the first so many of each node issue operations, and the others none.
// The numbers are drawn from the seed alone, so that the test knows them.
TEST_P(DriverOn, OnlyActiveWorkersOperateAndAllAgreeWhichTheyAre) {
  Recording recording;
  plan_.logs = recording.factory();
  plan_.deploy.client_workers = 4;
  plan_.load.operations = 0;
  const Nanos every = is_sim() ? 1'000'000 : 20'000'000;
  plan_.load.warmup = 3 * every / 2;
  plan_.load.duration = 16 * every;
  plan_.load.active = {.least = 1, .most = 3, .every = every};
  const measure::Tally sum = total(run());
  EXPECT_GT(sum.total(), 0U);
  ASSERT_FALSE(recording.operations.empty());
  // The first worker of each node is always active, so that the first operation is at the load's beginning.
  const Nanos began = std::ranges::min(recording.operations, {}, &check::Operation::invoke_ns).invoke_ns;
  std::map<std::uint64_t, std::map<std::uint32_t, std::set<std::uint32_t>>> seen;  // interval, node, worker
  std::set<std::uint32_t> numbers;
  std::size_t untimely = 0;
  for (const check::Operation& o : recording.operations) {
    const auto interval = static_cast<std::uint64_t>((o.invoke_ns - began) / every);
    const std::uint32_t number = static_cast<std::uint32_t>(o.client) / plan_.deploy.window;
    const std::uint32_t drawn = plan_.load.active.in(interval, plan_.load.seed);
    seen[interval][number / 4].insert(number % 4);
    numbers.insert(drawn);
    untimely += number % 4 >= drawn ? 1 : 0;
  }
  EXPECT_EQ(numbers, (std::set<std::uint32_t>{1, 2, 3}));
  // in real time a thread may lose its core between its look at the clock and its operation
  EXPECT_LE(untimely, is_sim() ? 0 : recording.operations.size() / 10);
  if (!is_sim()) return;
  EXPECT_EQ(seen.size(), 18U);  // the last interval is half one
  for (const auto& [interval, nodes] : seen) {
    EXPECT_EQ(nodes.size(), plan_.deploy.nodes) << interval;
    const std::uint32_t drawn = plan_.load.active.in(interval, plan_.load.seed);
    for (const auto& [node, workers] : nodes) EXPECT_EQ(workers.size(), drawn) << interval << " " << node;
  }
}

TEST_P(DriverOn, InsertsAddRecordsThatAreThenRead) {
  plan_.load.mix = {.get = 0.5, .put = 0, .remove = 0, .insert = 0.5, .read_modify_write = 0};
  plan_.load.distribution.kind = Distribution::latest;
  plan_.records.most = plan_.deploy.max_keys = 400;
  const RunOutcome outcome = run();
  const measure::Tally sum = total(outcome);
  EXPECT_EQ(sum.of(OpKind::get).by_status[1], 0U);  // [1]: not_found; no GET draws an unacknowledged insert
  EXPECT_THAT(outcome.notes, ::testing::Contains(::testing::HasSubstr("inserts became updates")));
}

TEST_P(DriverOn, ReadModifyWriteIsAGetAndAPut) {
  plan_.load.mix = {.get = 0, .put = 0, .remove = 0, .insert = 0, .read_modify_write = 1};
  const measure::Tally sum = total(run());
  EXPECT_EQ(sum.of(OpKind::get).total(), 1'000U);
  EXPECT_EQ(sum.of(OpKind::put).total(), 1'000U);
}

TEST_P(DriverOn, ReadersReadRecordsThatOthersLeaveAlone) {
  Recording recording;
  plan_.logs = recording.factory();
  plan_.load.read_only = 5;
  plan_.load.readers = 1;
  plan_.load.mix = {.get = 0.2, .put = 0.8, .remove = 0, .insert = 0, .read_modify_write = 0};
  run();
  std::set<std::string> read, others;
  for (const check::Operation& o : recording.operations) {
    const bool is_reader = static_cast<std::uint32_t>(o.client) / plan_.deploy.window % 2 == 1;
    (is_reader ? read : others).insert(o.key);
    if (is_reader) EXPECT_EQ(o.kind, OpKind::get);
  }
  EXPECT_EQ(read.size(), 5U);
  EXPECT_EQ(others.size(), 45U);
  for (const std::string& key : read) EXPECT_FALSE(others.contains(key)) << key;
}

TEST_P(DriverOn, RefusesBadLoads) {
  const auto fabric = open(3, 1);
  plan_.load.mix.get = 0.9;
  EXPECT_FALSE(run_load(*fabric, plan_));
  const auto other = open(3, 1);
  plan_.load.mix.get = 0.5;
  plan_.load.duration = 5;
  EXPECT_FALSE(run_load(*other, plan_));
}

TEST_P(DriverOn, RefusesActiveWorkersThatThereAreNot) {
  const auto is_taken = [this](ActiveWorkers active, std::uint64_t operations, double rate) {
    RunPlan plan = plan_;
    plan.load.active = active;
    plan.load.operations = operations;
    plan.load.duration = operations > 0 ? 0 : 1'000'000;
    plan.load.rate = rate;
    const auto fabric = open(3, 1);
    return run_load(*fabric, plan).has_value();
  };
  EXPECT_TRUE(is_taken({1, 2, 100'000}, 0, 0));
  EXPECT_FALSE(is_taken({1, 3, 100'000}, 0, 0)) << "there are 2 client workers a node";
  EXPECT_FALSE(is_taken({2, 1, 100'000}, 0, 0));
  EXPECT_FALSE(is_taken({0, 1, 100'000}, 0, 0));
  EXPECT_FALSE(is_taken({1, 2, -1}, 0, 0));
  EXPECT_FALSE(is_taken({1, 2, 100'000}, 1'000, 0))
      << "a worker that is not active would keep its operations";
  EXPECT_FALSE(is_taken({1, 2, 100'000}, 0, 1'000)) << "an open loop";
}

// A further load on the same store has other operations, and counters that count it alone.
TEST_P(DriverOn, OneLoadAfterAnotherIsCountedByItself) {
  if (is_sim()) GTEST_SKIP() << "a simulation runs once";
  const auto fabric = open(plan_.deploy.nodes, 1);
  auto deployed = set_up(*fabric, plan_);
  ASSERT_TRUE(deployed) << deployed.error().message;
  EXPECT_TRUE(serves_further_loads(*(*deployed)->store));
  for (const double get : {0.5, 1.0, 0.25}) {
    plan_.load.mix = {.get = get, .put = 1 - get, .remove = 0, .insert = 0, .read_modify_write = 0};
    ASSERT_TRUE(change_load(*fabric, plan_, **deployed));
    const auto outcome = run_deployed(*fabric, plan_, **deployed);
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_TRUE(outcome->is_fit_for_more);
    const measure::Tally sum = total(*outcome);
    EXPECT_EQ(sum.total(), 1'000U);
    EXPECT_EQ(sum.corrupt, 0U);
    EXPECT_EQ(sum.verified, sum.of(OpKind::get).by_status[0]);
    EXPECT_NEAR(static_cast<double>(sum.of(OpKind::get).total()), 1'000 * get, 80);
    EXPECT_EQ(outcome->protocol_counters.at("slots"), 50) << "what a level says, all loads have made";
    const std::uint32_t clients = plan_.deploy.nodes * plan_.deploy.client_workers * plan_.deploy.window;
    EXPECT_EQ(outcome->protocol_counters.at("clients_made"), 1 + clients);
  }
}

// Tests in which equal runs have to give equal results, as they do only in virtual time.
class DriverOnSim : public DriverOn {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DriverOnSim);
INSTANTIATE_TEST_SUITE_P(Fabrics, DriverOnSim, ::testing::Values("sim"));

// Workers that are not active cost the others nothing: as many operations as without them.
TEST_P(DriverOnSim, WorkersThatAreNotActiveAreAsIfTheyWereNot) {
  plan_.load.operations = 0;
  plan_.load.duration = 20'000'000;
  plan_.load.mix = {.get = 1, .put = 0, .remove = 0, .insert = 0, .read_modify_write = 0};
  const auto alone = static_cast<double>(total(run()).total());
  plan_.deploy.client_workers = 6;
  plan_.load.active = {.least = 2, .most = 2, .every = 100'000};
  const auto beside_others = static_cast<double>(total(run()).total());
  EXPECT_NEAR(beside_others / alone, 1, 0.01);
}

// Recording the time series allocates no memory per operation and does not change the simulated run.
TEST_P(DriverOnSim, ATimelineCostsTheRunNothing) {
  plan_.load.operations = 0;
  plan_.load.duration = 500'000;
  const RunOutcome without = run();
  plan_.load.timeline = 5'000;
  const RunOutcome with = run();
  EXPECT_EQ(with.sim->request_allocations, without.sim->request_allocations);
  EXPECT_EQ(with.sim->trace_hash, without.sim->trace_hash);
}

// Each worker's two clients compute in turn, so that an operation ends every `think`; the second ends in the
// measurement window.
TEST_P(DriverOnSim, SaysHowLateTheCountersWereReset) {
  plan_.load.operations = 0;
  plan_.load.think = 160'000;
  plan_.load.warmup = plan_.load.think * 5 / 4;
  plan_.load.duration = plan_.load.think * 4;
  const RunOutcome outcome = run();
  EXPECT_GE(outcome.counters_late, plan_.load.think * 3 / 4);
  EXPECT_LT(outcome.counters_late, plan_.load.think);
}

TEST_P(DriverOnSim, OneSeedOneRun) {
  const auto first = run().sim->trace_hash, second = run().sim->trace_hash;
  EXPECT_EQ(first, second);
  plan_.load.seed = 2;
  EXPECT_NE(run().sim->trace_hash, first);
}

}  // namespace
}  // namespace loch::workloads
