// Tests connection errors, CASes that failed and may have been executed (H17 in docs/protocols/nessie.md),
// expiry under clock skew, back-pressure, and bad options.
#include <gtest/gtest.h>

#include "nessie/test_cluster.h"

namespace loch::nessie::testing {
namespace {

using kv::OpStatus;

class LinkError : public ::testing::TestWithParam<const char*> {
 protected:
  static TestCluster::Shape shape() {
    TestCluster::Shape shape;
    shape.options = {{"nessie.completion", GetParam()}};
    return shape;
  }
};

// In each run a different request of a PUT completes with an error, either executed or not. The PUT must
// continue over a new connection and leave exactly one entry of the key.
TEST_P(LinkError, EveryRequestOfAPutMayFailOnce) {
  for (const bool takes_effect : {false, true}) {
    for (std::uint32_t at = 0;; ++at) {
      TestCluster cluster(shape());
      const std::uint64_t key = cluster.key_at({1, 3});
      ASSERT_EQ(cluster.put(1, key, 1).result.status, OpStatus::ok);
      cluster.begin_put(2, key, 2);
      if (!cluster.step(2, at) || cluster.fabric().is_done(cluster.worker(2))) break;
      if (cluster.fabric().next(cluster.worker(2)) == nullptr) break;
      cluster.fabric().fail_next(cluster.worker(2), takes_effect);
      const Outcome put = cluster.finish(2);
      EXPECT_EQ(put.result.status, OpStatus::ok) << "request " << at;
      EXPECT_EQ(cluster.get(0, key).value, 2u);
      EXPECT_EQ(cluster.occupied().size(), 1u);
      EXPECT_GE(cluster.counter("reconnects"), 1);
      ASSERT_LT(at, 50u);
    }
  }
}

TEST_P(LinkError, EveryRequestOfADeleteMayFailOnce) {
  for (const bool takes_effect : {false, true}) {
    for (std::uint32_t at = 0;; ++at) {
      TestCluster cluster(shape());
      const std::uint64_t key = cluster.key_at({1, 3});
      ASSERT_EQ(cluster.put(1, key, 1).result.status, OpStatus::ok);
      cluster.begin_remove(2, key);
      if (!cluster.step(2, at) || cluster.fabric().is_done(cluster.worker(2))) break;
      if (cluster.fabric().next(cluster.worker(2)) == nullptr) break;
      cluster.fabric().fail_next(cluster.worker(2), takes_effect);
      EXPECT_EQ(cluster.finish(2).result.status, OpStatus::ok) << "request " << at;
      EXPECT_EQ(cluster.get(0, key).result.status, OpStatus::not_found);
      EXPECT_TRUE(cluster.occupied().empty());
      ASSERT_LT(at, 50u);
    }
  }
}

// A PUT whose CAS failed with an outcome that cannot be learned has no effect: the PUT's entry stays
// uncommitted, and the entry's owner rolls the PUT back later.
TEST_P(LinkError, APutThatCannotAskLeavesNothingBehind) {
  TestCluster cluster(shape());
  const std::uint64_t key = cluster.key_at({1, 3});
  ASSERT_EQ(cluster.put(0, key, 1).result.status, OpStatus::ok);
  cluster.begin_put(2, key, 2);
  while (cluster.fabric().next(cluster.worker(2))->verb != fabric::Verb::cas) ASSERT_TRUE(cluster.step(2));
  cluster.fabric().fail_next(cluster.worker(2), true);
  // The client has reconnected already; from here on every request to node 1 fails.
  cluster.fabric().cut_off(1, true);
  const Outcome put = cluster.finish(2);
  EXPECT_EQ(put.result.status, OpStatus::error);
  EXPECT_EQ(put.result.effect, kv::Effect::none);
  const Outcome get = cluster.get(0, key);
  EXPECT_EQ(get.result.status, OpStatus::error);
  cluster.fabric().cut_off(1, false);
  EXPECT_EQ(cluster.get(0, key).value, 1u);
  cluster.flush(2);
  EXPECT_EQ(cluster.get(0, key).value, 1u);
  EXPECT_EQ(cluster.put(0, key, 3).result.status, OpStatus::ok);
  EXPECT_EQ(cluster.get(1, key).value, 3u);
}

INSTANTIATE_TEST_SUITE_P(Completion, LinkError, ::testing::Values("watermark", "cqe"));

TestCluster::Shape small_table(std::map<std::string, std::string> more = {}) {
  TestCluster::Shape shape;
  shape.max_keys = 6;
  shape.options = std::move(more);
  shape.options.try_emplace("nessie.min-spare", "4");
  shape.options.try_emplace("nessie.stamping", "eager");
  shape.options.try_emplace("nessie.expiry", "1ms");
  shape.options.try_emplace("nessie.clock-margin", "100us");
  shape.options.try_emplace("nessie.load-factor", "0.05");
  return shape;
}

// A small table fills up with replaced versions of a key, and PUTs wait until some expire; from then on
// expired entries are reused.
TEST(Recycling, BackPressureThenReuse) {
  TestCluster cluster(small_table());
  std::uint64_t waited = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const Outcome put = cluster.put(0, 5, i);
    ASSERT_EQ(put.result.status, OpStatus::ok) << i;
    waited += put.result.retries;
    ASSERT_EQ(cluster.get(1, 5).value, i);
  }
  EXPECT_GT(waited, 0u);
  EXPECT_GT(cluster.counter("back_pressure"), 0);
  EXPECT_GT(cluster.counter("dte_recycled"), 100);
}

TEST(Recycling, BackPressureIsReportedWhenNothingExpires) {
  TestCluster cluster(small_table({{"nessie.expiry", "1000s"}}));
  Outcome put;
  for (int i = 0; i < 20; ++i) put = cluster.put(0, 5, 7);
  EXPECT_EQ(put.result.status, OpStatus::table_full);
  EXPECT_EQ(put.result.effect, kv::Effect::none);
  EXPECT_EQ(cluster.get(1, 5).value, 7u);
}

// A GET reads the index word and then pauses, while a client on a third node replaces the entry. The clock of
// the entry's owner is ahead. The result says when the entry was reused and what the GET returned.
struct Dawdle {
  Nanos reused_after = 0;  // true time from the GET's begin to the entry's reuse; 0: never reused
  Outcome seen;
};
Dawdle dawdle(const std::string& mutant) {
  TestCluster::Shape shape = small_table({{"nessie.cache", "off"}});
  shape.mutant = mutant;
  TestCluster cluster(shape);
  constexpr Nanos ahead = 90'000;  // clock skew within the allowed margin of 100 us
  cluster.fabric().skew(1, ahead);
  const std::uint64_t key = cluster.key_at({2, 3});
  // this PUT allocates its entry (DTE) on node 1
  EXPECT_EQ(cluster.put(1, key, 1).result.status, OpStatus::ok);
  const EntryId first = cluster.settings().format.entry(cluster.word(cluster.candidate(key, 0)));
  cluster.begin_get(0, key);
  const Nanos began = cluster.fabric().now();
  EXPECT_TRUE(cluster.step(0));  // the GET reads the index word
  EXPECT_EQ(cluster.put(2, key, 2).result.status, OpStatus::ok);
  Dawdle done;
  // The owner scans for expired entries every 5 us.
  DataTable& table = cluster.store().local(1).workers[0]->table;
  for (int i = 0; i < 400 && done.reused_after == 0; ++i) {
    table.scan(cluster.fabric().now() + ahead, 64);
    if (cluster.meta(first).kind == EntryKind::free) done.reused_after = cluster.fabric().now() - began;
    cluster.fabric().advance(5'000);
  }
  done.seen = cluster.finish(0);
  return done;
}

TEST(Recycling, NoEntryIsUsedAgainWhileAGetMayReadIt) {
  // The entry must not be reused before the expiry period (1 ms) is over, although its owner's clock is ahead
  // of the clock of the client that replaced it: the clock margin covers the difference.
  const Dawdle hardened = dawdle("");
  EXPECT_GE(hardened.reused_after, 1'000'000);
  EXPECT_LT(hardened.reused_after, 2'000'000);
  EXPECT_EQ(hardened.seen.value, 2u);  // the GET finds that the entry was reused, and starts over
  const Dawdle unguarded = dawdle("margin-ignored");
  EXPECT_GT(unguarded.reused_after, 0);
  EXPECT_LT(unguarded.reused_after, 1'000'000);
  const Dawdle at_once = dawdle("reuse-before-expiry");
  EXPECT_GT(at_once.reused_after, 0);
  EXPECT_LT(at_once.reused_after, 500'000);
}

TEST(Recycling, OperationsEndAfterTheExpiryPeriod) {
  TestCluster cluster(small_table());
  ASSERT_EQ(cluster.put(1, 5, 1).result.status, OpStatus::ok);
  cluster.begin_get(0, 5);
  ASSERT_TRUE(cluster.step(0));
  cluster.fabric().advance(1'000'000);
  EXPECT_EQ(cluster.finish(0).result.status, OpStatus::timeout);
  cluster.begin_put(0, 5, 2);
  cluster.step_through_cas(0, 1);
  cluster.fabric().advance(1'000'000);
  const Outcome late = cluster.finish(0);
  EXPECT_EQ(late.result.status, OpStatus::timeout);  // the PUT expired and was rolled back
  EXPECT_EQ(late.result.effect, kv::Effect::none);
  EXPECT_EQ(cluster.get(1, 5).value, 1u);
}

TEST(Recycling, LazyStampsReachTheirOwner) {
  TestCluster::Shape shape = small_table();
  shape.options["nessie.stamping"] = "lazy";
  TestCluster cluster(shape);
  ASSERT_EQ(cluster.put(1, 5, 1).result.status, OpStatus::ok);
  const Outcome put = cluster.put(0, 5, 2);
  EXPECT_EQ(put.stats.write, 0u);
  EXPECT_EQ(cluster.counter("stamps_waiting"), 1);
  const EntryId old{1, 0, 1};
  EXPECT_EQ(cluster.data_word(old, cluster.settings().entry.stamp_at()), 0u);
  cluster.flush(0);
  EXPECT_NE(cluster.data_word(old, cluster.settings().entry.stamp_at()), 0u);
  EXPECT_EQ(cluster.counter("stamps_remote"), 1);
}

// Where the fabric does not place bytes in order, READs of entries must be awaited by completion; READs of
// index words, which have 8 bytes, can still be awaited by polling a bit of the word.
TEST(Completion, TheTailIsOnlyPolledWhereBytesArriveInOrder) {
  for (const bool is_ordered : {true, false}) {
    TestCluster::Shape shape;
    TestCluster cluster(shape);
    cluster.fabric().set_in_order(is_ordered);
    const std::uint64_t key = cluster.key_at({1, 3});
    ASSERT_EQ(cluster.put(2, key, 1).result.status, OpStatus::ok);
    cluster.begin_get(0, key);
    EXPECT_FALSE(cluster.fabric().next(cluster.worker(0))->is_signaled);
    ASSERT_TRUE(cluster.step(0));
    EXPECT_EQ(cluster.fabric().next(cluster.worker(0))->is_signaled, !is_ordered);
    EXPECT_EQ(cluster.finish(0).value, 1u);
  }
}

std::string refusal(std::map<std::string, std::string> options, kv::DeployConfig config = {}) {
  const auto module = make_module();
  kv::Options parsed(module->options());
  for (const auto& [key, value] : options) {
    const auto set = parsed.set(key, value);
    if (!set.has_value()) return set.error().message;
  }
  if (config.max_keys == 0) config.max_keys = config.keys = 100;
  config.kept_value_bytes = config.value_size;
  const auto store = module->deploy(config, parsed, "");
  return store.has_value() ? "" : store.error().message;
}

TEST(Options, ImpossibleCombinationsNameTheFlag) {
  EXPECT_EQ(refusal({}), "");
  EXPECT_NE(refusal({{"nessie.filter-bits", "12"}}).find("nessie.filter-bits"), std::string::npos);
  EXPECT_EQ(refusal({{"nessie.filter-bits", "12"}, {"nessie.variant", "published"}}), "");
  EXPECT_NE(refusal({{"nessie.layout", "2015"}}).find("nessie.layout"), std::string::npos);
  EXPECT_NE(refusal({{"nessie.variant", "published"}, {"nessie.commit", "cas"}}).find("nessie.commit"),
            std::string::npos);
  EXPECT_NE(
      refusal({{"nessie.variant", "published"}, {"nessie.fast-update", "on"}}).find("nessie.fast-update"),
      std::string::npos);
  EXPECT_NE(refusal({}, {.nodes = 257, .keys = 1, .max_keys = 1}).find("nessie.dti-bits"), std::string::npos);
  EXPECT_EQ(refusal({{"nessie.dti-bits", "9"}}, {.nodes = 257, .keys = 1, .max_keys = 1}), "");
  EXPECT_NE(refusal({{"nessie.dti-bits", "9"}, {"nessie.layout", "2015"}, {"nessie.variant", "published"}})
                .find("nessie.dti-bits"),
            std::string::npos);
  EXPECT_NE(refusal({{"nessie.hash-functions", "5"}}).find("nessie.hash-functions"), std::string::npos);
  EXPECT_EQ(refusal({}, {.nodes = 1, .keys = 1, .max_keys = 1}), "");
  EXPECT_NE(refusal({{"nessie.load-factor", "0.95"}}, {.nodes = 1, .keys = 1, .max_keys = 1})
                .find("nessie.hash-functions"),
            std::string::npos);
  EXPECT_NE(refusal({}, {.nodes = 1, .value_size = 1U << 31, .keys = 1, .max_keys = 1}).find("value-size"),
            std::string::npos);
  EXPECT_NE(
      refusal(
          {},
          {.nodes = 1, .value_size = 1 << 20, .keys = 10'000, .max_keys = 10'000, .memory_bytes = 1 << 30})
          .find("keys:"),
      std::string::npos);
  EXPECT_NE(refusal({}, {.nodes = 1, .server_workers = 2, .keys = 10, .max_keys = 10}).find("servers"),
            std::string::npos);
  EXPECT_NE(refusal({}, {.nodes = 2, .keys = 10, .max_keys = 10, .server_nodes = 1}).find("server-nodes"),
            std::string::npos);
  EXPECT_NE(refusal({}, {.nodes = 300, .keys = 10, .max_keys = 10}).find("nodes"), std::string::npos);
  EXPECT_EQ(refusal({{"nessie.backoff-cap", "1us"}}).find("nessie.backoff-cap"), 0u);
}

TEST(Options, FixesAreOfThePublishedVariantAndAllOfThemAreTheHardenedIndex) {
  EXPECT_NE(refusal({{"nessie.mend-h2", "on"}}).find("nessie.mend-h2"), std::string::npos);
  EXPECT_EQ(refusal({{"nessie.variant", "published"}, {"nessie.mend-h2", "on"}}), "");
  const auto module = make_module();
  kv::Options options(module->options());
  EXPECT_TRUE(module->fixes(options).empty());
  ASSERT_TRUE(options.set("nessie.variant", "published"));
  const std::vector<kv::Fix> fixes = module->fixes(options);
  ASSERT_FALSE(fixes.empty());
  kv::Options all = options;
  for (const kv::Fix& fix : fixes) {
    kv::Options one = options;
    ASSERT_TRUE(one.set(fix.option, "on"));
    const auto settings = decide({.keys = 100, .max_keys = 100}, one, "");
    ASSERT_TRUE(settings.has_value()) << settings.error().message;
    EXPECT_NE((*settings)->rules, published_2017()) << fix.hole;
    EXPECT_EQ(module->fixes(one).size(), fixes.size() - 1);
    ASSERT_TRUE(all.set(fix.option, "on"));
  }
  const auto settings = decide({.keys = 100, .max_keys = 100}, all, "");
  ASSERT_TRUE(settings.has_value());
  Rules expected = hardened();
  // migrate_tags closes no known fault of the published design; it serves the repair of dead clients
  expected.migrate_tags = false;
  // has_incarnation closes no known fault of the published design; it serves to declare nodes lost.
  expected.has_incarnation = false;
  EXPECT_EQ((*settings)->rules, expected);
}

// A CAS that is executed late fails, because the generation in the index word has changed, unless generation
// numbers have wrapped around meanwhile (known fault H16 of docs/protocols/nessie.md: a late CAS succeeds on
// another entry).
TEST(Options, ARequestThatMayBeExecutedTooLateIsRefused) {
  const auto module = make_module();
  kv::Options options(module->options());
  fabric::Capabilities can;
  can.request_lifetime = 33'000'000;
  EXPECT_TRUE(fabric::check(module->requirements(options), can));
  ASSERT_TRUE(options.set("nessie.expiry", "2us"));  // generations wrap around after 16,382 * 2 us = 32.8 ms
  const Result<> refused = fabric::check(module->requirements(options), can);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("after it was posted"), std::string::npos)
      << refused.error().message;
  ASSERT_TRUE(options.set("nessie.filter-bits", "11"));  // 10-bit generations wrap around after 1,022 reuses
  ASSERT_TRUE(options.set("nessie.expiry", "30us"));
  EXPECT_FALSE(fabric::check(module->requirements(options), can));
  ASSERT_TRUE(options.set("nessie.expiry", "40us"));
  EXPECT_TRUE(fabric::check(module->requirements(options), can));
}

TEST(Options, EveryMutantExistsAndChangesTheRules) {
  const auto module = make_module();
  for (const auto& [name, mutant] : module->mutants()) {
    Rules rules = hardened();
    EXPECT_TRUE(apply_mutant(name, rules)) << name;
    EXPECT_NE(rules, hardened()) << name;
    EXPECT_FALSE(mutant.breaks.empty());
  }
  Rules rules = hardened();
  EXPECT_FALSE(apply_mutant("no-such-mutant", rules));
}

}  // namespace
}  // namespace loch::nessie::testing
