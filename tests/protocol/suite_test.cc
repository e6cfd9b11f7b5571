// Tests every protocol of the registry: load with verified values and a history on the fabrics sim
// (simulator), shm (shared memory) and, if LOCH_TEST_VERBS is set, on an RDMA device; lost messages; and
// fuzzed runs with faults. A history is judged by the consistency that the protocol claims.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/bench.h"
#include "app/cli/judging.h"
#include "app/cli/registry.h"
#include "app/fuzz/fuzz.h"
#include "common/check/linearizable.h"
#include "tests/support/one_core.h"

namespace loch::cli {
namespace {

#if defined(LOCH_ASAN) || defined(LOCH_TSAN)
constexpr std::uint64_t fuzz_seeds = 6, thread_seeds = 2, shm_operations = 4'000;
#else
constexpr std::uint64_t fuzz_seeds = 40, thread_seeds = 20, shm_operations = 20'000;
#endif

using Words = std::vector<std::string>;

struct Outcome {
  measure::PointResult point;
  std::string history;  // name of the history file
  [[nodiscard]] measure::Tally tally() const {
    measure::Tally all;
    for (const measure::NodePart& node : point.nodes) all.merge(node.tally);
    return all;
  }
};

// LOCH_TEST_VERBS says that this machine has an RDMA device; the suite then runs only on it
// (tests/support/backends.h).
bool has_device() { return std::getenv("LOCH_TEST_VERBS") != nullptr; }

class EveryProtocol : public ::testing::TestWithParam<std::string> {
 protected:
  EveryProtocol() : registry_(make_registry()), module_(*registry_.at(GetParam())) {}
  ~EveryProtocol() override { std::filesystem::remove_all(folder_); }

  // Runs `loch bench` with the flags `flags`; nullopt if the fabric lacks a capability that the protocol
  // requires.
  [[nodiscard]] std::optional<Outcome> run(const Words& flags);
  // Checks that the run finished, no value was corrupt, and the history has the consistency that the protocol
  // claims.
  void expect_sound(const Outcome& run, std::uint64_t least_operations) const;
  [[nodiscard]] std::string file(const std::string& name) const { return (folder_ / name).string(); }

  kv::Registry registry_;
  const kv::Module& module_;
  BenchOptions options_;  // options of the latest run

 private:
  const std::filesystem::path folder_ = [] {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string name = fmt::format("loch-{}-{}-{}", test->test_suite_name(), test->name(), ::getpid());
    std::ranges::replace(name, '/', '-');
    const std::filesystem::path made = std::filesystem::path(::testing::TempDir()) / name;
    std::filesystem::create_directories(made);
    return made;
  }();
};

std::optional<Outcome> EveryProtocol::run(const Words& flags) {
  Words all = {"--protocol", GetParam(), "--key-size", "16", "--history", file("history.jsonl")};
  all.insert(all.end(), flags.begin(), flags.end());
  const bool verifies = module_.consistency(kv::Options(module_.options())) != kv::Consistency::none;
  if (verifies) all.emplace_back("--verify");
  auto parsed = parse_bench(all, registry_);
  if (!parsed) {
    // A fabric that this build does not have, or that the protocol does not support, is no failure.
    EXPECT_EQ(parsed.error().code, ErrorCode::unsupported) << parsed.error().message;
    return std::nullopt;
  }
  options_ = std::move(*parsed);
  auto result = run_point(options_, module_, 0, Place{});
  if (!result) {
    EXPECT_EQ(result.error().code, ErrorCode::unsupported) << result.error().message;
    return std::nullopt;
  }
  return Outcome{.point = std::move(result->point), .history = options_.history};
}

void EveryProtocol::expect_sound(const Outcome& run, std::uint64_t least_operations) const {
  EXPECT_EQ(run.point.run_end, "finished");
  const measure::Tally tally = run.tally();
  EXPECT_EQ(tally.corrupt, 0U);
  EXPECT_GE(tally.completed(), least_operations);
  for (const std::string& note : run.point.notes) EXPECT_EQ(note.find("never returned"), std::string::npos);
  const check::CheckOptions claim = judging(module_, options_.protocol_options, check::Initial::present);
  const auto report = check::check_history({run.history}, claim);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->verdict(), check::Verdict::holds)
      << (report->failures.empty() ? "" : report->failures.front().reason);
  // A run of a store that stores values has to verify some of them.
  if (claim.model != check::Model::none) EXPECT_GT(tally.verified, 0U);
}

TEST_P(EveryProtocol, OverTheSimulator) {
  if (has_device()) GTEST_SKIP() << "asked over the device";
  const Words flags = {"--fabric",     "sim",   "--nodes",  "4",      "--clients",  "3",        "--keys",
                       "48",           "--get", "0.5",      "--seed", "7",          "--delete", "0.1",
                       "--value-size", "600",   "--warmup", "100us",  "--duration", "4ms"};
  const auto first = run(flags);
  ASSERT_TRUE(first);
  expect_sound(*first, 500);  // least number of operations: the slowest protocol (kernel TCP) completes 500
  // The same seed gives the same run.
  const auto second = run(flags);
  ASSERT_TRUE(second && first->point.sim && second->point.sim);
  EXPECT_EQ(first->point.sim->trace_hash, second->point.sim->trace_hash);
  EXPECT_EQ(first->tally().total(), second->tally().total());
}

// Values of which a simulation keeps only the ends (elided) cost as much time as whole ones: the two runs are
// the same event by event.
TEST_P(EveryProtocol, ElidedValuesMoveNoInstant) {
  if (has_device()) GTEST_SKIP() << "of the simulator";
  Words flags = {"--protocol", GetParam(), "--fabric", "sim", "--nodes",    "4",  "--clients",   "3",
                 "--get",      "0.5",      "--delete", "0.1", "--key-size", "16", "--warmup",    "100us",
                 "--keys",     "200",      "--seed",   "7",   "--window",   "2",  "--value-size"};
  // so few spare entries that the load uses them up and their number affects the run
  for (const kv::OptionSpec& option : module_.options()) {
    if (!option.key.ends_with(".spare-limit")) continue;
    flags.insert(flags.begin(), {"--" + option.key, "400K"});
    // blocks of the hardened variant are used again, so that nothing limits their number
    if (option.key == "race.spare-limit") flags.insert(flags.begin(), {"--race.variant", "published"});
  }
  struct Run {
    std::uint64_t hash = 0, events = 0, operations = 0;
    bool operator==(const Run&) const = default;
  };
  const auto with = [&](Words words, bool elides) -> std::optional<Run> {
    auto parsed = parse_bench(words, registry_);
    if (!parsed) return std::nullopt;  // values of this size, or several operations at a time, are refused
    parsed->kept_value_bytes = elides ? 32 : parsed->value_size;
    const auto result = run_point(*parsed, module_, 0, Place{});
    if (!result && result.error().code == ErrorCode::invalid_argument) return std::nullopt;
    EXPECT_TRUE(result && result->point.sim) << (result ? "no simulation" : result.error().message);
    if (!result || !result->point.sim) return std::nullopt;
    measure::Tally all;
    for (const measure::NodePart& node : result->point.nodes) all.merge(node.tally);
    return Run{result->point.sim->trace_hash, result->point.sim->events, all.total()};
  };
  std::size_t compared = 0;
  for (const auto& [size, duration] :
       {std::pair{"200", "1ms"}, std::pair{"900", "1ms"}, std::pair{"8192", "4ms"}}) {
    Words words = flags;
    words.insert(words.end(), {size, "--duration", duration});
    const std::optional<Run> whole = with(words, false), elided = with(words, true);
    ASSERT_EQ(whole.has_value(), elided.has_value());
    if (!whole) continue;
    ++compared;
    EXPECT_GT(whole->operations, 0U);
    EXPECT_TRUE(*whole == *elided) << size << " bytes: " << whole->events << " and " << elided->events
                                   << " events, " << whole->operations << " and " << elided->operations
                                   << " operations";
  }
  EXPECT_GT(compared, 0U);
}

// One run by several threads (--threads) is the same event by event whatever their number. Eight nodes ask
// each other for values so large that messages meet at the switch.
TEST_P(EveryProtocol, ThreadsAreOfOneMind) {
  if (has_device()) GTEST_SKIP() << "of the simulator";
  struct Run {
    std::uint64_t hash = 0, events = 0, operations = 0, sent = 0;
    bool operator==(const Run&) const = default;
  };
  const auto by = [&](std::uint32_t threads, std::uint64_t seed) -> std::optional<Run> {
    const Words words = {"--protocol",   GetParam(),
                         "--fabric",     "sim",
                         "--hardware",   "connectx3-10gbe",
                         "--nodes",      "8",
                         "--clients",    "3",
                         "--get",        "0.5",
                         "--delete",     "0.1",
                         "--keys",       "200",
                         "--key-size",   "16",
                         "--warmup",     "20us",
                         "--duration",   "150us",
                         "--value-size", "900",
                         "--seed",       std::to_string(seed),
                         "--threads",    std::to_string(threads)};
    auto parsed = parse_bench(words, registry_);
    EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message);
    if (!parsed) return std::nullopt;
    const auto result = run_point(*parsed, module_, 0, Place{});
    EXPECT_TRUE(result && result->point.sim) << (result ? "no simulation" : result.error().message);
    if (!result || !result->point.sim) return std::nullopt;
    EXPECT_EQ(result->point.run_end, "finished");
    Run run{.hash = result->point.sim->trace_hash, .events = result->point.sim->events};
    measure::Tally all;
    for (const measure::NodePart& node : result->point.nodes) {
      all.merge(node.tally);
      run.sent += node.report.tx_wire_bytes;
    }
    run.operations = all.total();
    return run;
  };
  // every count with the first seeds, then one after another
  const std::vector<std::uint32_t> counts = {2, 3, 5, 8};
  for (std::uint64_t seed = 1; seed <= thread_seeds; ++seed) {
    const std::optional<Run> alone = by(1, seed);
    ASSERT_TRUE(alone);
    EXPECT_GT(alone->operations, 0U);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (seed > 2 && seed % counts.size() != i) continue;
      // parts that are run in turn by one thread, and once by as many as there are
      std::optional<support::OneCore> one_core;
      if (seed > 1 || counts[i] != 2) one_core.emplace();
      const std::optional<Run> several = by(counts[i], seed);
      ASSERT_TRUE(several);
      EXPECT_TRUE(*several == *alone)
          << counts[i] << " threads, seed " << seed << ": " << several->events << " events, "
          << several->operations << " operations, " << several->sent << " B; one: " << alone->events << ", "
          << alone->operations << ", " << alone->sent;
    }
  }
}

TEST_P(EveryProtocol, OverThisMachine) {
  const auto result =
      run({"--fabric", has_device() ? "verbs" : "shm", "--nodes", "2", "--clients", "2", "--keys", "48",
           "--get", "0.5", "--delete", "0.1", "--value-size", "600", "--warmup", "0s", "--operations",
           std::to_string(has_device() ? shm_operations / 20 : shm_operations)});
  if (!result) GTEST_SKIP() << "not on this fabric";
  expect_sound(*result, 1);
  // In real time on a shared machine a few operations may time out.
  EXPECT_GE(result->tally().completed(), result->tally().total() * 9 / 10);
}

// INSERTs (insert-if-absent) beside PUTs and DELETEs on few keys, so that clients conflict; outcomes are
// judged by the history. A protocol without INSERT refuses in one line.
TEST_P(EveryProtocol, InsertsIfAbsent) {
  const kv::Options defaults(module_.options());
  const Words flags = {
      "--nodes",  "3",    "--clients",          "2",   "--keys",       "12",  "--get",    "0.2",
      "--delete", "0.35", "--insert-if-absent", "0.3", "--value-size", "100", "--warmup", "0s"};
  const auto with = [&flags](const Words& more) {
    Words all = flags;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  if (!module_.data(defaults).insert_if_absent.is_there) {
    Words words = with({"--fabric", "sim", "--protocol", GetParam(), "--operations", "10"});
    const auto parsed = parse_bench(words, registry_);
    ASSERT_TRUE(parsed) << parsed.error().message;
    const auto refused = validate(*parsed, module_);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("--insert-if-absent 0.3"), std::string::npos)
        << refused.error().message;
    return;
  }
  const std::string here = has_device() ? "verbs" : "shm";
  for (const std::string& on : has_device() ? Words{here} : Words{"sim", here}) {
    const auto result = run(with({"--fabric", on, "--operations", on == "sim" ? "1500" : "600"}));
    if (!result) continue;
    expect_sound(*result, 1);
    const auto tally = result->tally();
    const measure::KindTally& inserts = tally.of(OpKind::insert_if_absent);
    EXPECT_GT(inserts.by_status[static_cast<std::size_t>(OpStatus::ok)], 20U) << on;
    EXPECT_GT(inserts.by_status[static_cast<std::size_t>(OpStatus::exists)], 20U) << on;
  }
}

// Keys and values of different sizes, on the simulator and on shared memory: each value that a GET returns is
// checked for the size that its writer chose. A protocol that stores no values refuses in one line.
TEST_P(EveryProtocol, SizesOfADistribution) {
  const kv::DataSupport takes = module_.data(kv::Options(module_.options()));
  const Words sizes = {"--set",
                       "key-size=128",
                       "--key-size-distribution",
                       "etc",
                       "--value-size",
                       "900",
                       "--value-size-min",
                       "8",
                       "--value-size-distribution",
                       "etc"};
  if (takes.values == kv::Sizing::one) {
    Words all = {"--protocol", GetParam()};
    all.insert(all.end(), sizes.begin(), sizes.end());
    const auto parsed = parse_bench(all, registry_);
    ASSERT_TRUE(parsed) << parsed.error().message;
    const auto valid = validate(*parsed, module_);
    ASSERT_FALSE(valid);
    EXPECT_EQ(valid.error().message,
              fmt::format("key-size-distribution: {} stores keys of one size; expected fixed", GetParam()));
    return;
  }
  for (const std::string& on : has_device() ? Words{"verbs"} : Words{"sim", "shm"}) {
    Words flags = {
        "--fabric",  on,    "--nodes",      "3",
        "--clients", "2",   "--keys",       "60",
        "--get",     "0.5", "--delete",     "0.1",
        "--warmup",  "0s",  "--operations", std::to_string(on == "sim" ? 3'000 : shm_operations / 10)};
    flags.insert(flags.end(), sizes.begin(), sizes.end());
    const auto result = run(flags);
    if (!result) continue;
    expect_sound(*result, 1);
    const measure::SizeTally seen = std::move(result->tally().sizes);
    EXPECT_GT(seen.value_bytes.count(), 100U);
    EXPECT_LT(seen.value_bytes.percentile(30), 16);
    EXPECT_GT(seen.value_bytes.percentile(95), 100);
    EXPECT_LE(seen.value_bytes.max(), 900);
    EXPECT_GT(seen.key_bytes.max(), seen.key_bytes.min());
  }
}

TEST_P(EveryProtocol, ManyOutstandingOperations) {
  if (has_device()) GTEST_SKIP() << "asked over the device";
  const auto result =
      run({"--fabric", "sim", "--nodes", "3", "--clients", "2", "--window", "8", "--keys", "200", "--get",
           "0.8", "--value-size", "100", "--warmup", "100us", "--duration", "2ms"});
  ASSERT_TRUE(result);
  expect_sound(*result, 500);
}

TEST_P(EveryProtocol, LostMessages) {
  std::ofstream(file("faults.yaml")) << "uc_loss: 0.01\nud_loss: 0.01\n";
  for (const std::string& on : has_device() ? Words{"verbs"} : Words{"sim", "shm"}) {
    const auto result = run({"--fabric", on, "--nodes", "2", "--clients", "2", "--keys", "48", "--get", "0.5",
                             "--value-size", "100", "--warmup", "0s", "--faults", file("faults.yaml"),
                             "--operations", std::to_string(shm_operations / (has_device() ? 20 : 4))});
    if (!result) continue;
    expect_sound(*result, 1);
    EXPECT_GE(result->tally().completed(), result->tally().total() * 9 / 10) << on;
  }
}

// Fuzzed runs with weak memory, losses, crashes, stalls and skewed clocks, and protocol options drawn for
// each seed.
TEST_P(EveryProtocol, UnderFaults) {
  if (has_device()) GTEST_SKIP() << "faults are simulated";
  fuzz::FuzzOptions options;
  options.protocol = GetParam();
  for (std::uint64_t seed = 1; seed <= fuzz_seeds; ++seed) {
    const fuzz::FuzzFinding finding = fuzz::fuzz_seed(seed, options, module_);
    EXPECT_EQ(finding.verdict, fuzz::FuzzVerdict::holds) << finding.reason << "\n"
                                                         << finding.scenario << "\n"
                                                         << fuzz::rerun_line(finding, options);
  }
}

TEST_P(EveryProtocol, SaysWhatItIs) {
  EXPECT_FALSE(module_.summary().empty());
  EXPECT_FALSE(module_.paper().empty());
  for (const kv::OptionSpec& option : module_.options()) {
    EXPECT_FALSE(option.help.empty()) << option.key;
    EXPECT_NE(option.key.find('.'), std::string::npos) << option.key;
  }
  // A protocol that stores values needs known-bad variants, to show that its tests can fail.
  if (module_.consistency(kv::Options(module_.options())) != kv::Consistency::none)
    EXPECT_FALSE(module_.mutants().empty());
}

std::vector<std::string> all_protocols() {
  std::vector<std::string> names;
  for (const auto& [name, module] : make_registry()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryProtocol, ::testing::ValuesIn(all_protocols()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace loch::cli
