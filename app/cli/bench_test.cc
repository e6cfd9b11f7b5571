// Tests the command line of bench: refused input and its messages, and whole runs in this process with a toy
// store.
#include "app/cli/bench.h"

#include "app/cli/bench_flags.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "app/cli/list.h"
#include "app/cli/registry.h"
#include "common/base/file.h"
#include "common/base/output_place.h"
#include "common/check/linearizable.h"
#include "tests/support/fabrics.h"
#include "tests/support/slot_store.h"

namespace loch::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

kv::Registry toys() {
  kv::Registry registry;
  registry.emplace("slots", support::make_slot_store());
  return registry;
}

// The name of some fabric of this build, for tests of flags that need one.
std::string a_fabric() { return support::local_fabrics().front(); }

Words with(Words words) {
  Words all = {"--protocol", "slots", "--fabric", a_fabric()};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

std::string refusal(Words words) {
  const kv::Registry registry = toys();
  const auto options = parse_bench(with(std::move(words)), registry);
  if (!options) return options.error().message;
  const auto ok = validate(*options, *registry.at("slots"));
  return ok ? "accepted" : ok.error().message;
}

BenchOptions accepted(Words words) {
  const auto options = parse_bench(with(std::move(words)), toys());
  EXPECT_TRUE(options) << options.error().message;
  return options ? *options : BenchOptions();
}

// Two protocols of one module, such as Pilaf and Pilaf-VO, have options with the same keys.
TEST(BenchOptions, ProtocolsMayShareAnOption) {
  kv::Registry registry = toys();
  registry.emplace("slots-too", support::make_slot_store());
  const auto parsed = parse_bench({"--protocol", "slots-too", "--slots.spare", "64"}, registry);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed->protocol_options.integer("slots.spare"), 64);
}

// A protocol with one option whose default is different on real-time fabrics, and one whose default is
// different if all nodes are on one machine.
class TimedSlots final : public kv::Module {
 public:
  std::string_view name() const override { return "timed"; }
  std::string_view summary() const override { return slots_->summary(); }
  std::string_view paper() const override { return slots_->paper(); }
  std::vector<kv::OptionSpec> options() const override {
    kv::OptionSpec expiry{.key = "timed.expiry", .type = kv::OptionType::duration, .initial = "1s"};
    expiry.initial_in_real_time = "100ms";
    kv::OptionSpec margin{.key = "timed.margin", .type = kv::OptionType::duration, .initial = "10ms"};
    margin.initial_on_one_machine = "1ms";
    return {expiry, margin};
  }
  kv::Consistency consistency(const kv::Options& options) const override {
    return slots_->consistency(options);
  }
  fabric::Requirements requirements(const kv::Options& options) const override {
    return slots_->requirements(options);
  }
  Result<std::unique_ptr<kv::Store>> deploy(const kv::DeployConfig& config, const kv::Options& options,
                                            std::string_view mutant) const override {
    return slots_->deploy(config, options, mutant);
  }

 private:
  std::unique_ptr<kv::Module> slots_ = support::make_slot_store();
};

TEST(BenchOptions, WhereTimeIsRealDefaultsAreOfRealTime) {
  kv::Registry registry;
  registry.emplace("timed", std::make_unique<TimedSlots>());
  const auto chosen = [&registry](const std::string& fabric, const std::string& key) {
    const auto parsed = parse_bench({"--protocol", "timed", "--fabric", fabric}, registry);
    EXPECT_TRUE(parsed) << parsed.error().message;
    return parsed ? parsed->protocol_options.integer(key) : 0;
  };
  EXPECT_EQ(chosen("sim", "timed.expiry"), 1'000'000'000);
  EXPECT_EQ(chosen("sim", "timed.margin"), 10'000'000);
  EXPECT_EQ(chosen("shm", "timed.expiry"), 100'000'000);
  EXPECT_EQ(chosen("shm", "timed.margin"), 1'000'000);
  EXPECT_EQ(chosen("verbs", "timed.expiry"), 100'000'000);
  EXPECT_EQ(chosen("verbs", "timed.margin"), 10'000'000);
}

TEST(BenchOptions, EveryFlagOfTheManual) {
  const BenchOptions o = accepted({"--nodes",
                                   "15",
                                   "--server-nodes",
                                   "3",
                                   "--clients",
                                   "12",
                                   "--servers",
                                   "2",
                                   "--window",
                                   "4",
                                   "--keys",
                                   "1000",
                                   "--key-size",
                                   "64",
                                   "--value-size",
                                   "16K",
                                   "--get",
                                   "0.5",
                                   "--delete",
                                   "0.1",
                                   "--distribution",
                                   "zipfian-n",
                                   "--zipf-theta",
                                   "0.9",
                                   "--rate",
                                   "1000",
                                   "--warmup",
                                   "5ms",
                                   "--duration",
                                   "50ms",
                                   "--seed",
                                   "9",
                                   "--repeats",
                                   "3",
                                   "--verify",
                                   "--trace",
                                   "t",
                                   "--faults",
                                   "f",
                                   "--mutant",
                                   "no-lock",
                                   "--json",
                                   "j",
                                   "--slots.spare",
                                   "1K"});
  EXPECT_EQ(o.nodes, 15U);
  EXPECT_EQ(o.server_nodes, 3U);
  EXPECT_EQ(deploy_config(o).server_nodes, 3U);
  EXPECT_EQ(o.clients, 12U);
  EXPECT_EQ(o.servers, 2U);
  EXPECT_EQ(o.window, 4U);
  EXPECT_EQ(o.keys, 1000U);
  EXPECT_EQ(o.key_size, 64U);
  EXPECT_EQ(o.value_size, 16'384U);
  EXPECT_DOUBLE_EQ(o.load.mix.get, 0.5);
  EXPECT_NEAR(o.load.mix.put, 0.4, 1e-12);
  EXPECT_EQ(o.load.distribution.kind, workloads::Distribution::zipfian_n);
  EXPECT_EQ(o.load.rate, 1000);
  EXPECT_EQ(o.load.warmup, 5'000'000);
  EXPECT_EQ(o.load.duration, 50'000'000);
  EXPECT_EQ(o.load.seed, 9U);
  EXPECT_EQ(o.repeats, 3U);
  EXPECT_TRUE(o.load.verify);
  EXPECT_EQ(o.mutant, "no-lock");
  EXPECT_EQ(o.protocol_options.integer("slots.spare"), 1024);
}

TEST(BenchOptions, SetIsTheSameAsTheFlag) {
  const BenchOptions o = accepted({"--set", "value_size=2K", "--set", "slots.spare=64", "--set=get=1"});
  EXPECT_EQ(o.value_size, 2048U);
  EXPECT_EQ(o.protocol_options.integer("slots.spare"), 64);
  EXPECT_EQ(o.load.mix.get, 1);
}

TEST(BenchOptions, RefusesInOneLineThatNamesTheFlag) {
  for (const auto& [words, expected] : std::vector<std::pair<Words, std::string>>{
           {{"--nods", "3"}, "did you mean --nodes?"},
           {{"--slots.spair", "3"}, "did you mean --slots.spare?"},
           {{"--set", "slots.spair=3"}, "did you mean --slots.spare?"},
           {{"--set", "nonsense"}, "--set"},
           {{"--node", "3"}, "did you mean --nodes?"},  // "--node" is not taken for --nodes
           {{"--nodes", "many"}, "--nodes"},
           {{"--nodes", "0"}, "--nodes"},
           {{"--nodes", "-3"}, "--nodes"},
           {{"--nodes"}, "--nodes"},
           {{"--nodes", "3", "--nodes", "4"}, "--nodes"},
           {{"--window", "0"}, "--window"},
           {{"--nodes", "3", "--server-nodes", "3"}, "--server-nodes 3: leaves no node of 3 to drive load"},
           {{"--value-size", "big"}, "--value-size"},
           {{"--value-size", "0"}, "--value-size"},
           {{"--get", "1.5"}, "--get"},
           {{"--get", "0.9", "--delete", "0.2"}, "over 1"},
           {{"--duration", "50"}, "with its unit"},
           {{"--duration", "0s"}, "--duration"},
           {{"--duration", "1s", "--operations", "5"}, "one of them"},
           {{"--distribution", "zipf"}, "zipfian-n"},
           {{"--distribution", "zipfian", "--zipf-theta", "0.5"}, "zipfian-n"},
           {{"--mutant", "no-look"}, "did you mean no-lock?"},
           {{"--seed", "-1"}, "--seed"},
           {{"--hog-pin", "everywhere"}, "--hog-pin"},
           {{"--hog-nodes", "4", "--nodes", "3"}, "--hog-nodes"},
           {{"--think", "5"}, "with its unit"},
           {{"--think", "5us", "--rate", "100"}, "--think: of a closed loop"},
           {{"--pause", "5us", "--rate", "100"}, "--pause: of a closed loop"},
           {{"--active", "1..1"}, "--active and --active-every: give both or none"},
           {{"--active-every", "1ms"}, "--active and --active-every: give both or none"},
           {{"--active", "2..1", "--active-every", "1ms", "--clients", "2"}, "--active: \"2..1\" is not"},
           {{"--active", "0..1", "--active-every", "1ms"}, "--active: \"0..1\" is not"},
           {{"--active", "1..", "--active-every", "1ms"}, "--active: \"1..\" is not"},
           {{"--active", "1..3", "--active-every", "1ms", "--clients", "2"}, "above --clients 2"},
           {{"--active", "1..1", "--active-every", "0ns"}, "--active-every"},
           {{"--active", "1..1", "--active-every", "1ms", "--rate", "9"}, "--active: of a closed loop"},
           {{"--active", "1..1", "--active-every", "1ms", "--operations", "9"},
            "--active: goes with --duration"},
           {{"--zipf-items", "many"}, "--zipf-items"},
           {{"--backoff", "sometimes"}, "--backoff"},
           {{"--backoff-start", "2us"}, "--backoff-start: for --backoff exponential"},
           {{"--backoff-epoch", "1ms", "--backoff", "exponential"}, "--backoff-epoch: for --backoff limited"},
           {{"--backoff-many", "1.5", "--backoff", "limited"}, "--backoff-many"},
           {{"--backoff-few", "0.6", "--backoff", "limited"}, "--backoff-few 0.6: above --backoff-many 0.5"},
           {{"--settle", "2"}, "with its unit"},
           {{"--verify", "perhaps"}, "--verify"},
           {{"--keys", "1000000000", "--value-size", "128K", "--memory", "1G"}, "do not fit"},
           {{"--nodes", "4096", "--clients", "4096"},
            "--nodes 4096: the connections of the simulation's workers"},
           {{"--value-size", "2M", "--keys", "100"}, "a slot holds 1M"},
           {{"--slots.spare", "1G"}, "--slots.spare"},
           {{"--keys", "300", "--key-size", "1"}, "cannot tell 300 keys apart"},
           {{"--max-keys", "5"}, "--max-keys"},
           {{"--history", "h", "--value-size", "4"}, "--history"},
           {{"--workload", "/nonexistent"}, "/nonexistent"},
           {{"stray"}, "belongs to no flag"},
       }) {
    const std::string message = refusal(words);
    EXPECT_THAT(message, HasSubstr(expected));
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(BenchOptions, BackgroundWorkersInRealTimeArePinnedAlongsidePinnedWorkers) {
  Words words = {"--protocol", "slots", "--fabric", "shm", "--hogs", "2", "--hog-pin", "shared"};
  const auto refused = parse_bench(words, toys());
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("--hog-pin shared: workers have no cores"));
  words.push_back("--pin");
  EXPECT_TRUE(parse_bench(words, toys()).has_value());
}

TEST(BenchOptions, ProtocolsAndFabricsThatAreNotHere) {
  const auto message = [](const Words& words) {
    const auto options = parse_bench(words, toys());
    return options ? std::string("accepted") : options.error().message;
  };
  EXPECT_THAT(message({"--protocol", "herd", "--fabric", a_fabric()}), HasSubstr("expected one of slots"));
  EXPECT_THAT(message({"--protocol", "slot", "--fabric", a_fabric()}), HasSubstr("did you mean slots?"));
  EXPECT_THAT(message({"--protocol", "slots", "--fabric", "shm", "--device", "mlx5_0"}),
              HasSubstr("--device: for --fabric verbs"));
  EXPECT_THAT(message({"--protocol", "slots", "--fabric", "shm", "--settle", "2s"}),
              HasSubstr("--settle: for --fabric sim"));
  for (const Words& words : {Words{"--cores", "1"}, Words{"--hog-nodes", "1"}, Words{"--hog-pin", "clients"},
                             Words{"--at-end", "abandon"}, Words{"--full-data", "1G"}}) {
    Words all = {"--protocol", "slots", "--fabric", "shm"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_THAT(message(all), HasSubstr("for --fabric sim, not shm"));
  }
  EXPECT_THAT(message({"--protocol", "slots", "--fabric", "shm", "--nodes", "2000"}),
              HasSubstr("--nodes 2000: a cluster of more than 1024 is for --fabric sim, not shm"));
  EXPECT_THAT(message({"--protocol", "slots", "--fabric", "tcp"}), HasSubstr("one of sim, shm, verbs"));
}

// The registers that are taken where nothing is said, and fabrics that have none.
TEST(BenchOptions, DoorbellRegistersByFabric) {
  const auto doorbells = [](const Words& more) {
    Words words = {"--protocol", "slots"};
    words.insert(words.end(), more.begin(), more.end());
    const auto options = parse_bench(words, toys());
    return options ? options->doorbells : options.error().message;
  };
  EXPECT_EQ(doorbells({"--fabric", "sim"}), "shared");
  EXPECT_EQ(doorbells({"--fabric", "sim", "--doorbells", "auto"}), "shared");
  EXPECT_EQ(doorbells({"--fabric", "sim", "--doorbells", "own"}), "own");
  EXPECT_EQ(doorbells({"--fabric", "verbs"}), "auto");
  EXPECT_EQ(doorbells({"--fabric", "verbs", "--doorbells", "shared"}), "shared");
  EXPECT_EQ(doorbells({"--fabric", "verbs", "--doorbells", "own"}), "own");
  EXPECT_EQ(doorbells({"--fabric", "shm"}), "shared");
  EXPECT_EQ(doorbells({"--fabric", "shm", "--doorbells", "own"}),
            "--doorbells own: for --fabric sim or verbs, not shm");
}

// The whole data set is at least what is simulated of it.
TEST(BenchOptions, AFullDataSetHoldsTheSimulatedRecords) {
  const Words words = {"--protocol", "slots", "--fabric",     "sim", "--nodes",    "4", "--key-size", "128",
                       "--keys",     "10000", "--value-size", "896", "--full-data"};
  Words less = words, more = words;
  less.emplace_back("2M");
  more.emplace_back("256M");
  const auto refused = parse_bench(less, toys());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message,
            "--full-data 2 MB: 10000 keys of 128 + 896 bytes take 2.44 MB a node already");
  EXPECT_DOUBLE_EQ(parse_bench(more, toys()).value().data_scale, double{256 << 20} / (2500 * 1024));
}

// What needs operations that have ended, and what moves the measurement window, is refused with operations
// that are abandoned.
TEST(BenchOptions, AbandonedOperationsAreRefusedWhereTheirEndsAreNeeded) {
  for (const Words& words : {Words{"--operations", "9"}, Words{"--settle", "2s"}, Words{"--hogs", "2"},
                             Words{"--history", "h"}, Words{"--scrub"}, Words{"--repair-after", "1ms"}}) {
    Words all = {"--protocol", "slots", "--fabric", "sim", "--at-end", "abandon"};
    all.insert(all.end(), words.begin(), words.end());
    const auto parsed = parse_bench(all, toys());
    ASSERT_FALSE(parsed.has_value()) << words.front();
    EXPECT_EQ(parsed.error().message, "--at-end abandon: without " + words.front());
  }
}

TEST(BenchOptions, AYcsbFileIsTheDefaultAndFlagsWin) {
  const std::string file = std::string(LOCH_SOURCE_DIR) + "/workloads/ycsb/workloada";
  const BenchOptions o = accepted({"--workload", file, "--keys", "500", "-p", "fieldcount=1"});
  EXPECT_EQ(o.keys, 500U);
  EXPECT_EQ(o.load.operations, 1000U);
  EXPECT_EQ(o.value_size, 100U);
  EXPECT_DOUBLE_EQ(o.load.mix.put, 0.5);
  EXPECT_EQ(accepted({"--workload", file, "--duration", "1s"}).load.operations, 0U);
  EXPECT_THAT(refusal({"--workload", std::string(LOCH_SOURCE_DIR) + "/workloads/ycsb/workloade"}),
              HasSubstr("workload E"));
}

TEST(BenchOptions, SimulationElidesValuesThatNothingLooksAt) {
  const auto kept = [](Words words) {
    words.insert(words.begin(), {"--protocol", "slots", "--nodes", "15", "--value-size", "16K", "--keys"});
    const auto options = parse_bench(words, toys());
    EXPECT_TRUE(options) << options.error().message;
    return options ? options->kept_value_bytes : 0;
  };
  constexpr std::uint32_t whole = 16'384, stamp = 32;
  EXPECT_EQ(kept({"1000", "--fabric", "sim"}), stamp);
  EXPECT_EQ(kept({"1000", "--fabric", "shm"}), whole);
  const std::vector<Words> looks = {{"--verify"}, {"--history", "h"}, {"--faults", "f"}, {"--memory", "1G"}};
  for (Words look : looks) {
    look.insert(look.begin(), {"1000", "--fabric", "sim"});
    EXPECT_EQ(kept(look), whole) << look[3];
    look.front() = "1000000";  // a million keys: 15 GiB of values
    look.back() = look.back() == "1G" ? "64G" : look.back();
    EXPECT_EQ(kept(look), stamp) << look[3];
  }
  EXPECT_EQ(kept({"100000", "--fabric", "sim", "--verify-full"}), whole);
}

TEST(BenchOptions, ATimelineNeedsADurationThatItCutsIntoBins) {
  EXPECT_THAT(refusal({"--timeline", "1ms", "--operations", "5"}), HasSubstr("goes with --duration"));
  EXPECT_THAT(refusal({"--timeline", "10", "--duration", "1s"}), HasSubstr("--timeline"));
  EXPECT_THAT(refusal({"--timeline", "0ms", "--duration", "1s"}), HasSubstr("above 0"));
  EXPECT_THAT(refusal({"--timeline", "1us", "--duration", "1s"}), HasSubstr("at most 10000 bins"));
  EXPECT_THAT(refusal({"--probe-keys", "5"}), HasSubstr("--probe-keys: goes with --timeline"));
  EXPECT_THAT(refusal({"--probe-keys", "5", "--timeline", "1ms", "--duration", "10ms", "--nodes", "1"}),
              HasSubstr("drive no load"));
  EXPECT_THAT(refusal({"--repair-after", "soon"}), HasSubstr("--repair-after"));
}

TEST(BenchHelp, ListsEveryFlagAndEveryProtocolOption) {
  const kv::Registry registry = toys();
  for (const char* flag : {"--protocol", "--hog-pin", "--value-size", "--history", "--set"}) {
    EXPECT_THAT(settings::help(bench_command()), HasSubstr(flag));
  }
  EXPECT_THAT(protocol_help(registry, "slots").value(),
              AllOf(HasSubstr("--slots.spare"), HasSubstr("no-lock")));
  EXPECT_FALSE(protocol_help(registry, "herd"));
}

class BenchOn : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / fmt::format("loch_bench_test_{}_{}", GetParam(), ::getpid());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  int bench(Words words) {
    Words all = {"--protocol", "slots",  "--fabric", GetParam(),     "--nodes",
                 "3",          "--keys", "20",       "--operations", "500"};
    all.insert(all.end(), words.begin(), words.end());
    return run_bench(all, toys());
  }
  [[nodiscard]] std::string file(const char* name) const { return folder_ / name; }
  [[nodiscard]] nlohmann::json read(const char* name) const {
    return nlohmann::json::parse(read_whole(file(name)).value());
  }
  std::filesystem::path folder_;
};
INSTANTIATE_TEST_SUITE_P(Fabrics, BenchOn, ::testing::ValuesIn(support::local_fabrics()));

TEST_P(BenchOn, WritesOneWholeResult) {
  ASSERT_EQ(bench({"--json", file("a.json"), "--verify", "--get", "0.5"}), 0);
  const auto json = read("a.json");
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["protocol"], "slots");
  EXPECT_EQ(json["config"]["nodes"], 3);
  EXPECT_EQ(json["config"]["options"]["slots.spare"], 0);
  EXPECT_EQ(json["operations"]["total"], 500);
  EXPECT_EQ(json["operations"]["corrupt"], 0);
  EXPECT_GT(json["operations"]["verified"], 0);
  EXPECT_GT(json["throughput_ops_s"], 0);
  EXPECT_EQ(json["nodes"].size(), 3U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

int bench_timed(const std::string& fabric, const std::string& json, Words words) {
  Words all = {"--protocol", "slots", "--fabric", fabric, "--nodes", "3",
               "--keys",     "20",    "--get",    "1",    "--json",  json};
  all.insert(all.end(), words.begin(), words.end());
  return run_bench(all, toys());
}

TEST_P(BenchOn, ATimelineIsThereWhereItWasAskedFor) {
  const bool is_sim = GetParam() == "sim";
  ASSERT_EQ(bench_timed(GetParam(), file("a.json"),
                        {"--duration", is_sim ? "2ms" : "100ms", "--timeline", is_sim ? "500us" : "25ms"}),
            0);
  const auto json = read("a.json");
  ASSERT_EQ(json["timeline"].size(), 4U);
  EXPECT_EQ(json["timeline"][1]["t_s"], is_sim ? 0.0005 : 0.025);
  EXPECT_EQ(json["config"]["timeline_s"], is_sim ? 0.0005 : 0.025);
  EXPECT_EQ(json["events"].size(), 0U);
  ASSERT_EQ(bench({"--json", file("b.json")}), 0);
  EXPECT_TRUE(read("b.json")["timeline"].is_null());
}

// While one of three nodes pauses for two of the run's six milliseconds, the two 1 ms bins of the time series
// show a third less throughput.
TEST_P(BenchOn, APausedNodeIsADipInTheTimeline) {
  if (GetParam() != "sim") GTEST_SKIP() << "pauses are simulated";
  ASSERT_TRUE(
      write_output(file("pause.yaml"), "schedule:\n  - {kind: pause, node: 1, at: 2ms, span: 2ms}\n"));
  ASSERT_EQ(bench_timed("sim", file("a.json"),
                        {"--warmup", "0ms", "--duration", "6ms", "--timeline", "1ms", "--faults",
                         file("pause.yaml"), "--repair-after", "1ms"}),
            0);
  const auto json = read("a.json");
  const auto rate = [&](std::size_t bin) { return json["timeline"][bin]["ops_s"].get<double>(); };
  for (const std::size_t bin : {0U, 1U, 4U, 5U}) EXPECT_NEAR(rate(bin) / rate(0), 1, 0.05) << bin;
  for (const std::size_t bin : {2U, 3U}) EXPECT_NEAR(rate(bin) / rate(0), 2.0 / 3, 0.05) << bin;
  ASSERT_EQ(json["events"].size(), 1U);
  EXPECT_EQ(json["events"][0]["event"], "pause");
  EXPECT_EQ(json["events"][0]["node"], 1);
  EXPECT_NEAR(json["events"][0]["t_s"].get<double>(), 0.002, 1e-5);
}

TEST_P(BenchOn, OneNodeServesAndTheOthersDriveLoad) {
  ASSERT_EQ(bench({"--json", file("a.json"), "--verify", "--get", "0.5", "--server-nodes", "1"}), 0);
  const auto json = read("a.json");
  EXPECT_EQ(json["config"]["server_nodes"], 1);
  EXPECT_EQ(json["operations"]["total"], 500);
  EXPECT_EQ(json["nodes"].size(), 3U);
  EXPECT_EQ(json["nodes"][0]["throughput_ops_s"], 0);
  EXPECT_GT(json["nodes"][1]["throughput_ops_s"], 0);
  EXPECT_GT(json["nodes"][2]["throughput_ops_s"], 0);
}

TEST_P(BenchOn, HistoryHolds) {
  ASSERT_EQ(
      bench({"--json", file("a.json"), "--history", file("h.jsonl"), "--get", "0.5", "--warmup", "0ms"}), 0);
  const auto report = check::check_history({file("h.jsonl")}, {});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->verdict(), check::Verdict::holds);
  EXPECT_EQ(report->operations, 500U);
}

TEST_P(BenchOn, RepeatsAreAListWithSeedsThatGoUp) {
  ASSERT_EQ(bench({"--json", file("a.json"), "--repeats", "2", "--seed", "7"}), 0);
  const auto json = read("a.json");
  ASSERT_EQ(json.size(), 2U);
  EXPECT_EQ(json[0]["seed"], 7);
  EXPECT_EQ(json[1]["seed"], 8);
}

TEST_P(BenchOn, HistogramAsHdrText) {
  ASSERT_EQ(bench({"--json", file("a.json"), "--histogram", file("h.hgrm")}), 0);
  EXPECT_THAT(read_whole(file("h.hgrm")).value(), HasSubstr("1/(1-Percentile)"));
}

// With `--settle 200ms`, background workers compete with the store's workers for the cores for 200 ms before
// the load begins, so that their progress differs between nodes.
TEST_P(BenchOn, BackgroundWorkersHaveSettledWhenTheLoadBegins) {
  if (GetParam() != "sim") GTEST_SKIP() << "background workers are simulated";
  ASSERT_EQ(
      run_bench({"--protocol", "slots", "--fabric", "sim", "--nodes", "3", "--clients", "12", "--keys", "50",
                 "--hogs", "12", "--settle", "200ms", "--duration", "6ms", "--json", file("a.json")},
                toys()),
      0);
  const auto json = read("a.json");
  EXPECT_DOUBLE_EQ(json["config"]["settle_s"], 0.2);
  EXPECT_GT(json["sim"]["virtual_s"], 0.2);
  std::set<double> hashes;
  for (const auto& node : json["nodes"]) hashes.insert(node["counters"]["hog_hashes"].get<double>());
  EXPECT_EQ(hashes.size(), 3U);
  EXPECT_GT(*hashes.begin(), 0);
}

// With a NIC that takes 1 ms for a pass, an operation takes several milliseconds. If operations that are
// under way at the end of the window are abandoned, the run ends at most 1 ms after the window, and what was
// measured within the window is the same.
TEST_P(BenchOn, OperationsUnderWayAtTheEndAreAbandonedWithoutChangingWhatWasMeasured) {
  if (GetParam() != "sim") GTEST_SKIP() << "only a simulated run can end while operations are under way";
  const auto run = [&](const std::string& at_end) {
    const Words words = {"--protocol",     "slots",
                         "--fabric",       "sim",
                         "--nodes",        "3",
                         "--clients",      "12",
                         "--keys",         "50",
                         "--get",          "0.5",
                         "--warmup",       "20ms",
                         "--seed",         "3",
                         "--at-end",       at_end,
                         "--duration",     "50ms",
                         "--hardware-set", "nic.pipeline=1000000",
                         "--json",         file((at_end + ".json").c_str())};
    EXPECT_EQ(run_bench(words, toys()), 0);
    return read((at_end + ".json").c_str());
  };
  auto finished = run("finish"), abandoned = run("abandon");
  EXPECT_GT(finished["operations"]["total"], 36);
  EXPECT_GT(finished["sim"]["virtual_s"], 0.0711);
  EXPECT_LE(abandoned["sim"]["virtual_s"], 0.0711);
  EXPECT_EQ(abandoned["run_end"], "finished");
  for (auto* each : {&finished, &abandoned}) (*each)["operations"].erase("outside_window");
  for (const char* key : {"throughput_ops_s", "operations", "latency_us", "verbs"})
    EXPECT_EQ(finished[key], abandoned[key]) << key;
  EXPECT_THAT(abandoned["notes"].dump(), HasSubstr("operations were abandoned at the end"));
  EXPECT_THAT(finished["notes"].dump(), Not(HasSubstr("abandoned")));
}

TEST_P(BenchOn, SomeNodesHaveBackgroundWorkersAndNodesHaveFewerCores) {
  if (GetParam() != "sim") GTEST_SKIP() << "background workers are simulated";
  ASSERT_EQ(run_bench({"--protocol", "slots",   "--fabric",   "sim",    "--nodes", "3",           "--keys",
                       "50",         "--cores", "6",          "--hogs", "6",       "--hog-nodes", "1",
                       "--settle",   "50ms",    "--duration", "6ms",    "--json",  file("a.json")},
                      toys()),
            0);
  const auto json = read("a.json");
  EXPECT_EQ(json["config"]["cores"], 6);
  EXPECT_GT(json["nodes"][0]["counters"]["hog_hashes"], 0);
  EXPECT_EQ(json["nodes"][1]["counters"]["hog_hashes"], 0);
  EXPECT_EQ(bench({"--cores", "7", "--dry-run"}), 2);  // 7 cores cannot be divided evenly over the sockets
  EXPECT_EQ(bench({"--cores", "13", "--dry-run"}), 2);
}

TEST_P(BenchOn, ThreadsOfOneRun) {
  if (GetParam() != "sim") {
    EXPECT_EQ(bench({"--threads", "1"}), 2);
    return;
  }
  const std::vector<std::vector<std::string>> refused = {
      {"--threads", "0"},
      {"--threads", "65"},
      {"--threads", "4"},  // a thread without a node
      {"--threads", "2", "--settle", "1ms"},
      {"--threads", "2", "--history", file("h.jsonl")},
      {"--threads", "2", "--trace", file("t.json")},
      {"--threads", "2", "--hardware", "connectx6-200g-ib"}};
  for (const auto& flags : refused) EXPECT_EQ(bench(flags), 2) << flags[1] << " " << flags.back();
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  EXPECT_EQ(bench({"--threads", "2", "--json", file("a.json")}), 0);
  EXPECT_EQ(read("a.json")["config"]["threads"], 2);
}

TEST_P(BenchOn, BadInputIsExitTwoAndLeavesNothing) {
  EXPECT_EQ(bench({"--nods", "3"}), 2);
  EXPECT_EQ(bench({"--json", file("none/a.json")}), 2);
  EXPECT_EQ(bench({"--history", file("none/h.jsonl")}), 2);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_P(BenchOn, BrokenStoreIsExitOne) {
  Words words = {"--json", file("a.json"), "--mutant", "no-lock",      "--verify", "--get", "0.5", "--keys",
                 "1",      "--value-size", "64K",      "--operations", "20000"};
  Words all = {"--protocol", "slots", "--fabric", GetParam(), "--nodes", "3"};
  all.insert(all.end(), words.begin(), words.end());
  if (GetParam() == "sim") {
    // On sim, cache lines of one message become visible at different instants only if a fault asks for it.
    std::ofstream(file("torn.yaml")) << "torn_read: 0.5\ntorn_write: 0.5\n";
    all.insert(all.end(), {"--faults", file("torn.yaml")});
  }
  EXPECT_EQ(run_bench(all, toys()), 1);
  EXPECT_GT(read("a.json")["operations"]["corrupt"], 0);
}

TEST(List, KnowsItsLists) {
  EXPECT_EQ(run_list({"protocols"}, toys()), 0);
  EXPECT_EQ(run_list({"mutants", "--json"}, toys()), 0);
  EXPECT_EQ(run_list({"workloads"}, toys()), 0);
  EXPECT_EQ(run_list({"protocol"}, toys()), 2);
  EXPECT_EQ(run_list({}, toys()), 2);
}

}  // namespace
}  // namespace loch::cli
