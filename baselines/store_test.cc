// Tests load on real servers with the fabric shm: verified values, histories, servers that die or misbehave,
// addresses.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "baselines/module.h"
#include "baselines/servers.h"
#include "common/check/linearizable.h"
#include "common/fabric/count/count.h"
#include "common/fabric/shm/shm.h"
#include "tests/support/baseline_servers.h"
#include "workloads/run.h"

namespace loch::baselines {
namespace {

using support::config_of;
using support::FakeServer;
using support::settings_of;

// Longest time in ns that a run against a server of wrong answers may take. libmemcached allocates and frees
// the 4 GB that one of the answers announces, and ThreadSanitizer writes its records of what is freed: 10 s
// of page faults on some virtual machines.
#if defined(LOCH_TSAN)
constexpr Nanos longest_ns = 60'000'000'000;
#else
constexpr Nanos longest_ns = 10'000'000'000;
#endif

class OnServers : public ::testing::TestWithParam<System> {
 protected:
  void SetUp() override {
    if (const std::string why = support::missing(GetParam()); !why.empty()) GTEST_SKIP() << why;
    plan_.module = module_.get();
    plan_.options = kv::Options(module_->options());
    shape(2, 2, 1);
    plan_.load.mix = {.get = 0.5, .put = 0.4, .remove = 0.1, .insert = 0, .read_modify_write = 0};
    plan_.load.operations = 3'000;
    plan_.load.verify = true;
    plan_.on_start = [this](const workloads::Driver&) { has_begun_ = true; };
  }
  void TearDown() override { EXPECT_TRUE(support::children().empty()); }

  void shape(std::uint32_t nodes, std::uint32_t clients, std::uint32_t window) {
    plan_.deploy = config_of(nodes, clients, window);
    plan_.records = {plan_.deploy.keys, plan_.deploy.max_keys, plan_.deploy.key_size,
                     plan_.deploy.value_size};
  }
  void set(const std::string& option, const std::string& value) {
    const auto ok = plan_.options.set(std::string(module_->name()) + "." + option, value);
    ASSERT_TRUE(ok) << ok.error().message;
  }
  [[nodiscard]] Result<workloads::RunOutcome> try_run() {
    auto fabric = fabric::shm::make_shm({.nodes = plan_.deploy.nodes, .seed = 1, .job = {}});
    EXPECT_TRUE(fabric) << fabric.error().message;
    const auto counted = fabric::count_requests(std::move(*fabric), {});
    return workloads::run_load(*counted, plan_);
  }
  [[nodiscard]] workloads::RunOutcome run() {
    auto outcome = try_run();
    EXPECT_TRUE(outcome) << outcome.error().message;
    if (!outcome) return {};
    EXPECT_EQ(outcome->end, fabric::RunEnd::finished);
    EXPECT_EQ(outcome->outstanding, 0U);
    return std::move(*outcome);
  }
  [[nodiscard]] static measure::Tally total(const workloads::RunOutcome& outcome) {
    measure::Tally all;
    for (const measure::NodePart& node : outcome.nodes) all.merge(node.tally);
    return all;
  }
  [[nodiscard]] double counter(const workloads::RunOutcome& outcome, const std::string& what) const {
    return outcome.protocol_counters.at(std::string(module_->name()) + "." + what);
  }
  [[nodiscard]] static std::uint64_t of(const measure::Tally& tally, OpStatus outcome) {
    std::uint64_t sum = 0;
    for (const auto& kind : tally.kinds) sum += kind.by_status[static_cast<std::size_t>(outcome)];
    return sum;
  }
  // Checks that every operation completed ("table full" counts as completed) and that no value was wrong.
  static void expect_clean(const workloads::RunOutcome& outcome) {
    const measure::Tally tally = total(outcome);
    EXPECT_GT(tally.total(), 100U);
    EXPECT_GT(tally.verified, 0U);
    EXPECT_EQ(tally.corrupt, 0U);
    EXPECT_EQ(tally.completed(), tally.total());
  }

  // Runs the load for `duration` and, after it has begun, sends a signal to one of the servers.
  [[nodiscard]] workloads::RunOutcome run_and_signal(Nanos duration, int signal) {
    plan_.load.operations = 0;
    plan_.load.duration = duration;
    has_begun_ = false;
    bool was_sent = false;
    std::thread other([&] {
      for (int i = 0; i < 60'000 && !has_begun_; ++i) ::usleep(1'000);
      ::usleep(static_cast<useconds_t>(duration / 4'000));
      const auto all = support::children();
      was_sent = !all.empty() && ::kill(all.front(), signal) == 0;
    });
    workloads::RunOutcome outcome = run();
    other.join();
    EXPECT_TRUE(was_sent);
    return outcome;
  }

  std::unique_ptr<kv::Module> module_ = make_module(GetParam());
  workloads::RunPlan plan_;
  std::atomic<bool> has_begun_ = false;
};

TEST_P(OnServers, ValuesAreThoseThatWereWritten) {
  for (const std::uint32_t window : {1U, 8U}) {
    for (const std::string socket : {"unix", "loopback"}) {
      shape(2, 2, window);
      set("socket", socket);
      const auto outcome = run();
      expect_clean(outcome);
      EXPECT_EQ(outcome.transport, socket == "unix" ? "unix socket" : "tcp (127.0.0.1)");
      EXPECT_EQ(counter(outcome, "servers_started"), 2);
      EXPECT_EQ(counter(outcome, "servers_lost"), 0);
      EXPECT_EQ(counter(outcome, "connection_failures"), 0);
    }
  }
}

TEST_P(OnServers, HistoriesAreLinearizable) {
  plan_.deploy.keys = plan_.deploy.max_keys = plan_.records.preloaded = plan_.records.most = 4;
  plan_.deploy.window = 4;
  const std::string path =
      (std::filesystem::temp_directory_path() / ("loch-baselines-" + std::to_string(::getpid()) + ".jsonl"))
          .string();
  auto history = check::HistoryWriter::create(path, {});
  ASSERT_TRUE(history) << history.error().message;
  plan_.logs = workloads::file_logs(history->get());
  expect_clean(run());
  ASSERT_TRUE((*history)->close());
  const auto report = check::check_history({path}, {.initial = check::Initial::present});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->verdict(), check::Verdict::holds);
  std::filesystem::remove(path);
}

TEST_P(OnServers, OpenLoopSleepsBetweenOperations) {
  shape(2, 1, 4);
  plan_.load.rate = 2'000;
  plan_.load.operations = 1'000;
  const auto outcome = run();
  expect_clean(outcome);
  EXPECT_GT(outcome.window_s, 0.4);  // the load lasts half a second
}

TEST_P(OnServers, MoreServersThanNodesAndNodesThatOnlyDrive) {
  set("servers", "3");
  plan_.deploy.server_nodes = 1;
  const auto outcome = run();
  expect_clean(outcome);
  EXPECT_EQ(counter(outcome, "servers_started"), 3);
  EXPECT_EQ(outcome.nodes.at(0).tally.total(), 0U);
}

TEST_P(OnServers, LargeAndTinyRecords) {
  set("timeout", "60s");  // long, because megabytes are copied under a sanitizer on a busy machine
  for (const auto& [key, value] : {std::pair{8U, 8U}, std::pair{250U, 3U << 20}}) {
    shape(1, 1, 2);
    plan_.deploy.keys = plan_.deploy.max_keys = 5;
    plan_.deploy.key_size = key;
    plan_.deploy.value_size = plan_.deploy.kept_value_bytes = value;
    plan_.records = {5, 5, key, value};
    plan_.load.operations = 200;
    expect_clean(run());
  }
}

// Payload bytes are counted as the bytes of the memcached or Redis text protocol.
TEST_P(OnServers, PayloadIsWhatTheProtocolSays) {
  plan_.load.mix = {.get = 1, .put = 0, .remove = 0, .insert = 0, .read_modify_write = 0};
  const auto outcome = run();
  const measure::Tally all = total(outcome);
  const measure::KindTally& gets = all.of(OpKind::get);
  ASSERT_GT(gets.total(), 0U);
  const double payload = static_cast<double>(gets.requests.payload_bytes) / static_cast<double>(gets.total());
  // The key K has 24 bytes, the value V 100. memcached: "get K\r\n", "VALUE K 0 100\r\n" V "\r\nEND\r\n".
  // Redis: "*2\r\n$3\r\nGET\r\n$24\r\n" K "\r\n", "$100\r\n" V "\r\n".
  EXPECT_EQ(payload, GetParam() == System::memcached ? (4 + 24 + 2) + (6 + 24 + 8 + 100 + 7)
                                                     : (4 + 9 + 5 + 24 + 2) + (6 + 100 + 2));
  EXPECT_EQ(gets.requests.send + gets.requests.read, 0U);  // requests do not use the fabric
}

TEST_P(OnServers, AServerThatDiesEndsNoRun) {
  for (const std::uint32_t window : {1U, 4U}) {
    shape(2, 2, window);
    set("timeout", "500ms");
    const auto outcome = run_and_signal(800'000'000, SIGKILL);
    const measure::Tally tally = total(outcome);
    EXPECT_GT(tally.completed(), 0U);
    EXPECT_GT(of(tally, OpStatus::error) + of(tally, OpStatus::timeout), 0U);
    EXPECT_EQ(tally.corrupt, 0U);
    EXPECT_EQ(counter(outcome, "servers_lost"), 1);
  }
}

TEST_P(OnServers, AStoppedServerTimesOperationsOut) {
  for (const std::uint32_t window : {1U, 4U}) {
    shape(1, 1, window);
    set("timeout", "100ms");
    const Nanos begun = monotonic_now();
    const auto outcome = run_and_signal(600'000'000, SIGSTOP);
    EXPECT_GT(counter(outcome, "timeouts"), 0);
    EXPECT_LT(monotonic_now() - begun, 20'000'000'000);
  }
}

TEST_P(OnServers, GivenAddressesAreUsedAndLeftRunning) {
  const auto folder = ServerFolder::make();
  ASSERT_TRUE(folder);
  {
    auto server = start_server(settings_of(GetParam(), plan_.deploy), (*folder)->path(), 0);
    ASSERT_TRUE(server) << server.error().message;
    set("address", server->address.text());
    const auto outcome = run();
    expect_clean(outcome);
    EXPECT_EQ(counter(outcome, "servers_started"), 0);
    EXPECT_TRUE(server->process->is_alive());
  }
}

TEST_P(OnServers, AWrongAddressIsOneLine) {
  set("address", "/nowhere/at/all.sock");
  const auto outcome = try_run();
  ASSERT_FALSE(outcome);
  EXPECT_NE(outcome.error().message.find("/nowhere/at/all.sock: nothing answers there"), std::string::npos)
      << outcome.error().message;
  EXPECT_EQ(outcome.error().message.find('\n'), std::string::npos);
}

TEST_P(OnServers, AMissingProgramIsOneLine) {
  set("binary", "/nowhere/server");
  const auto outcome = try_run();
  ASSERT_FALSE(outcome);
  EXPECT_NE(outcome.error().message.find(".binary: /nowhere/server is no program"), std::string::npos)
      << outcome.error().message;
}

// A fake server that answers correctly until the load begins, and then sends a wrong answer, none, or half of
// one: the run has to end, and no GET may succeed with a wrong value.
TEST_P(OnServers, AHostileServerHarmsNobody) {
  const bool is_memcached = GetParam() == System::memcached;
  const std::string whoami = is_memcached ? "STAT pid 1\r\nSTAT version 1\r\nEND\r\n"
                                          : "$31\r\nprocess_id:1\r\nredis_version:1\r\n\r\n\r\n";
  const std::string stored = is_memcached ? "STORED\r\n" : "+OK\r\n";
  const std::vector<std::string> answers = {
      "\x80\xff\r\n\r\n",
      "",
      "close",
      std::string(70'000, 'A'),
      is_memcached ? "VALUE user 0 4000000000\r\n" : "$2000000000\r\n",
      is_memcached ? "VALUE someone-else 0 3\r\nabc\r\nEND\r\n" : "$3\r\nabc\r\n",
      is_memcached ? "SERVER_ERROR no\r\n" : "-ERR no\r\n",
      is_memcached ? "NOT_STORED\r\n" : ":-1\r\n",
      is_memcached ? "END\r\nEND\r\nEND\r\n" : "*1000000\r\n$-1\r\n",
  };
  const auto folder = ServerFolder::make();
  ASSERT_TRUE(folder);
  for (const std::uint32_t window : {1U, 3U}) {
    for (const std::string& answer : answers) {
      SCOPED_TRACE(answer.substr(0, 30));
      shape(1, 1, window);
      plan_.deploy.keys = plan_.deploy.max_keys = plan_.records.preloaded = plan_.records.most = 8;
      plan_.load.operations = 0;
      plan_.load.duration = 60'000'000;
      set("timeout", "20ms");
      // libmemcached aborts by an assertion when a PUT gets the answer of a GET (docs/security.md).
      const bool is_fatal = is_memcached && (answer.starts_with("VALUE") || answer.starts_with("END"));
      plan_.load.mix = {.get = is_fatal ? 1 : 0.5,
                        .put = is_fatal ? 0 : 0.5,
                        .remove = 0,
                        .insert = 0,
                        .read_modify_write = 0};
      std::size_t acknowledged = 0;
      const FakeServer fake((*folder)->path() + "/fake.sock", [&](const std::string& asked) -> std::string {
        if (asked.starts_with("stats") || asked.starts_with("INFO")) return whoami;
        std::string said;
        // During the preload, the fake server acknowledges every record, even if a record arrives in several
        // pieces.
        const std::string_view verb = is_memcached ? "set " : "\r\nSET\r\n";
        for (std::size_t at = asked.find(verb); at != std::string::npos && acknowledged < 8;
             at = asked.find(verb, at + 1)) {
          said += stored;
          ++acknowledged;
        }
        return said.empty() ? answer : said;
      });
      set("address", (*folder)->path() + "/fake.sock");
      const Nanos begun = monotonic_now();
      const auto outcome = run();
      EXPECT_LT(monotonic_now() - begun, longest_ns);
      EXPECT_EQ(acknowledged, 8U);
      const measure::Tally tally = total(outcome);
      EXPECT_EQ(tally.verified, 0U);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Both, OnServers, ::testing::Values(System::memcached, System::redis),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace loch::baselines
