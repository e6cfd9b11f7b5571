// Runs Nessie on the simulator, over shared memory and, with LOCH_TEST_VERBS set, on this machine's RDMA
// device: several clients work on few keys, with every rule of the hardened variant. Afterwards the table
// must have no duplicate and no unfinished entry.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>

#include "common/fabric/memory.h"
#include "nessie/test_run.h"
#include "tests/support/fabrics.h"

namespace loch::nessie::testing {
namespace {

std::unique_ptr<fabric::Fabric> make_fabric(const std::string& name, std::uint32_t nodes, std::uint64_t seed,
                                            const fabric::sim::SimFaults& faults = {}) {
  return support::make_fabric(name, {.nodes = nodes, .seed = seed, .faults = faults});
}

struct Tally {
  std::atomic<std::uint64_t> ok{0}, not_found{0}, conflict{0}, timeout{0}, other{0}, torn{0}, foreign{0};
};

constexpr std::uint32_t value_size = 600;

kv::DeployConfig small(std::uint32_t nodes, std::uint32_t clients, std::uint64_t keys) {
  kv::DeployConfig config;
  config.nodes = nodes;
  config.client_workers = clients;
  config.key_size = 32;
  config.value_size = value_size;
  config.kept_value_bytes = value_size;
  config.keys = keys;
  config.max_keys = keys + keys / 2;
  return config;
}

// Each value encodes its key's number plus a multiple of `stride`, so that a GET that returns another
// key's value, or a torn one, is detected.
constexpr std::uint64_t stride = 1'000'000;

coro::Task<void> work(TestRun* run, std::size_t w, std::uint32_t operations, Tally* tally) {
  NessieClient& client = run->client(w);
  fabric::Worker& worker = run->worker(w);
  const kv::DeployConfig& config = run->config();
  std::vector<std::byte> bytes(config.key_size);
  std::vector<std::byte> value(config.value_size);
  const kv::Key key{bytes.data(), config.key_size};
  const kv::ValueView view{value.data(), config.value_size, config.value_size};
  fabric::OpStats stats;
  for (std::uint32_t i = 0; i < operations; ++i) {
    const std::uint64_t number = worker.rng().below(config.max_keys);
    const std::uint64_t draw = worker.rng().below(10);
    PatternData::write_key(number, bytes.data(), config.key_size);
    kv::OpResult result;
    if (draw < 5) {
      const kv::OpResult got = co_await client.get(key, &stats);
      result = got;
      std::uint64_t seen = 0;
      if (got.status == kv::OpStatus::ok) {
        if (!PatternData::read_value(got.value, &seen))
          ++tally->torn;
        else if (seen % stride != number)
          ++tally->foreign;
      }
    } else if (draw < 9) {
      PatternData::write_value(number + stride * (1 + i), value.data(), config.value_size);
      const kv::OpResult put = co_await client.put(key, view, &stats);
      result = put;
    } else {
      const kv::OpResult removed = co_await client.remove(key, &stats);
      result = removed;
    }
    switch (result.status) {
      case kv::OpStatus::ok:
        ++tally->ok;
        break;
      case kv::OpStatus::not_found:
        ++tally->not_found;
        break;
      case kv::OpStatus::conflict:
        ++tally->conflict;
        break;
      case kv::OpStatus::timeout:
        ++tally->timeout;
        break;
      default:
        ++tally->other;
        break;
    }
  }
}

// Expects each key at most once, and each linked entry to be committed, in a candidate slot of its key, and
// not marked as having left the index.
void expect_sound(TestRun& run) {
  const Settings& s = run.store().settings();
  std::map<std::string, int> entries;
  for (std::uint32_t node = 0; node < s.config.nodes; ++node) {
    fabric::Region* index = run.fabric().direct(static_cast<fabric::NodeId>(node), index_region);
    for (std::uint64_t slot = 0; slot < s.slots_per_node; ++slot) {
      const Word word = fabric::load_word(index->at(slot * 8));
      ASSERT_TRUE(WordFormat::is_stored(word));
      if (s.format.is_empty(word)) continue;
      const EntryId id = s.format.entry(word);
      fabric::Region* data = run.fabric().direct(static_cast<fabric::NodeId>(id.node), data_region);
      const std::uint64_t at = id.index * s.entry.stride();
      const EntryMeta meta = EntryMeta::unpack(fabric::load_word(data->at(at + s.entry.meta_at())));
      EXPECT_TRUE(meta.is_valid);
      EXPECT_EQ(meta.generation & 0x3FFF, id.generation);
      EXPECT_EQ(fabric::load_word(data->at(at + s.entry.stamp_at())), 0u);
      std::vector<std::byte> key(s.entry.key_size());
      fabric::copy_from_shared(key.data(), data->at(at), key.size());
      cuckoo::KeyHash hash = s.family.hash(key);
      EXPECT_LT(hash.rank_of({node, slot}), s.functions());
      EXPECT_EQ(++entries[std::string(reinterpret_cast<const char*>(key.data()), key.size())], 1);
    }
  }
}

class OnFabric : public ::testing::TestWithParam<std::string> {};

TEST_P(OnFabric, ManyClientsOnFewKeys) {
  const std::vector<std::map<std::string, std::string>> variants = {
      {},
      {{"nessie.commit", "cas"}, {"nessie.completion", "cqe"}, {"nessie.stamping", "eager"}},
      {{"nessie.fast-update", "on"}, {"nessie.single-cas-delete", "on"}, {"nessie.multi-read", "on"}},
      {{"nessie.expiry", "2ms"}, {"nessie.clock-margin", "100us"}, {"nessie.min-spare", "64"}},
  };
  for (const auto& options : variants) {
    TestRun run(make_fabric(GetParam(), 3, 7), small(3, 2, 24), options);
    Tally tally;
    for (std::size_t w = 0; w < run.workers(); ++w)
      run.start(w, [&run, &tally, w] { return work(&run, w, 400, &tally); });
    ASSERT_EQ(run.run(), fabric::RunEnd::finished);
    EXPECT_EQ(tally.torn, 0u);
    EXPECT_EQ(tally.foreign, 0u);
    // With the default expiry no operation may fail, except that on an emulated machine with Soft-RoCE some
    // may time out, because Soft-RoCE's threads can be without a core for a whole second.
    // With an expiry of 2 ms many do there: Soft-RoCE takes a good part of it for the steps of one operation.
    const bool is_expiring = options.contains("nessie.expiry");
    if (!is_expiring) {
      EXPECT_EQ(tally.other, 0u);
      EXPECT_LE(tally.timeout, std::string_view(GetParam()) == "verbs" ? 24u : 0u);
    }
    EXPECT_GT(tally.ok, is_expiring && GetParam() == "verbs" ? 200u : 1'200u);
    EXPECT_GT(tally.not_found, 0u);
    EXPECT_EQ(tally.ok + tally.not_found + tally.conflict + tally.timeout + tally.other, 2'400u);
    expect_sound(run);
  }
}

TEST_P(OnFabric, ALoadedTableMigrates) {
  kv::DeployConfig config = small(2, 2, 380);
  config.max_keys = 440;  // keys beyond the preload are inserted until the table is nearly full
  TestRun run(make_fabric(GetParam(), 2, 9), config, {{"nessie.load-factor", "0.8"}});
  Tally tally;
  for (std::size_t w = 0; w < run.workers(); ++w)
    run.start(w, [&run, &tally, w] { return work(&run, w, 500, &tally); });
  ASSERT_EQ(run.run(), fabric::RunEnd::finished);
  EXPECT_EQ(tally.torn + tally.foreign, 0u);
  EXPECT_GT(run.store().counters().at("migrations"), 0);
  expect_sound(run);
}

// To name one of 300 nodes, an index word needs 9 bits: with the paper's 8, words that name the nodes from
// 256 on would name others.
TEST(ManyNodes, AreNamedByAWiderDti) {
  constexpr std::uint32_t nodes = 300;
  TestRun run(make_fabric("sim", nodes, 5), small(nodes, 1, 900), {{"nessie.dti-bits", "9"}});
  Tally tally;
  for (std::size_t w = 0; w < run.workers(); ++w)
    run.start(w, [&run, &tally, w] { return work(&run, w, 10, &tally); });
  ASSERT_EQ(run.run(), fabric::RunEnd::finished);
  EXPECT_EQ(tally.torn + tally.foreign + tally.other + tally.timeout, 0U);
  EXPECT_GT(tally.ok, 1'500U);
  expect_sound(run);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, OnFabric, ::testing::ValuesIn(support::fabrics()),
                         [](const auto& info) { return std::string(info.param); });

coro::Task<void> one_put_of_each(TestRun* run, std::vector<fabric::OpStats>* out) {
  const kv::DeployConfig& config = run->config();
  std::vector<std::byte> bytes(config.key_size);
  std::vector<std::byte> value(config.value_size);
  const kv::ValueView view{value.data(), config.value_size, config.value_size};
  for (std::uint64_t number = 0; number < 50; ++number) {
    PatternData::write_key(number, bytes.data(), config.key_size);
    const kv::Key key{bytes.data(), config.key_size};
    fabric::OpStats stats;
    const kv::OpResult put = co_await run->client(0).put(key, view, &stats);
    EXPECT_EQ(put.status, kv::OpStatus::ok);
    out->push_back(stats);
  }
}

// An expiry period of a few round trips lets GETs, PUTs and DELETEs expire: each one that answers "timeout"
// is counted, and no operation times out for another reason.
TEST(OnSim, EachOperationThatExpiresIsCounted) {
  TestRun run(make_fabric("sim", 3, 7), small(3, 2, 24), {{"nessie.expiry", "10us"}});
  Tally tally;
  for (std::size_t w = 0; w < run.workers(); ++w)
    run.start(w, [&run, &tally, w] { return work(&run, w, 100, &tally); });
  ASSERT_EQ(run.run(), fabric::RunEnd::finished);
  EXPECT_GT(tally.timeout, 50U);
  EXPECT_GT(tally.ok, 50U);
  EXPECT_EQ(run.store().counters().at("expired_operations"), tally.timeout);
}

// A PUT READs five index words and executes one CAS, as counted both by the protocol and by the counting
// fabric decorator.
TEST(OnSim, APutIsFiveIndexReadsAndOneSwap) {
  TestRun run(make_fabric("sim", 5, 3), small(5, 1, 100), {});
  std::vector<fabric::OpStats> all;
  run.start(0, [&] { return one_put_of_each(&run, &all); });
  ASSERT_EQ(run.run(), fabric::RunEnd::finished);
  ASSERT_EQ(all.size(), 50u);
  for (const fabric::OpStats& stats : all) {
    EXPECT_EQ(stats.index_read, 5u);
    EXPECT_EQ(stats.index_cas, 1u);
    EXPECT_EQ(stats.cas, 1u);
    EXPECT_GE(stats.read, 5u);
    EXPECT_LE(stats.payload_bytes, 48u + 2 * (32 + 24));
  }
}

coro::Task<void> idle(TestRun* run, Nanos span) {
  fabric::Worker& worker = run->worker(0);
  co_await worker.sleep_until(worker.now() + span);
}

// A worker's background work wakes each 100 us to look for stamps (marks of entries that have left the index)
// to write. If operations write their stamps themselves, it finds none and sleeps longer and longer.
TEST(OnSim, BackgroundWorkWithNothingToDoSleepsLonger) {
  const auto events = [](const char* stamping) {
    TestRun run(make_fabric("sim", 2, 3), small(2, 1, 10), {{"nessie.stamping", stamping}});
    run.start(0, [&] { return idle(&run, 40'000'000); });
    EXPECT_EQ(run.run(), fabric::RunEnd::finished);
    return run.fabric().report().sim->events;
  };
  EXPECT_GT(events("lazy"), 300u);
  EXPECT_LT(events("eager"), events("lazy") / 4);
}

coro::Task<void> scrub_later(TestRun* run, Nanos at, std::map<std::string, std::uint64_t>* counts) {
  co_await run->worker(0).sleep_until(at);
  std::vector<kv::ClientId> dead;
  for (std::uint32_t i = 0; i < run->config().client_workers; ++i)
    dead.push_back({2, static_cast<std::uint16_t>(i)});
  const kv::Repair found = co_await run->store().scrub(run->worker(0), dead);
  *counts = found.counts;
}

// A client is killed in the middle of its work, at many different instants, while others continue; after the
// repair of what it left half-done (scrub) every key must be readable and writable.
TEST(OnSim, AKilledClientIsScrubbed) {
  std::uint64_t repaired = 0;
  for (Nanos at = 101'000; at < 141'000; at += 1'000) {
    fabric::sim::SimFaults faults;
    faults.schedule.push_back(
        {.kind = fabric::sim::ScheduledFault::Kind::kill, .node = 2, .worker = 0, .at = at});
    TestRun run(make_fabric("sim", 3, 5, faults), small(3, 1, 6), {{"nessie.attempts", "8"}});
    Tally tally;
    std::map<std::string, std::uint64_t> counts;
    run.start(1, [&] { return work(&run, 1, 20, &tally); });
    run.start(2, [&] { return work(&run, 2, 100'000, &tally); });
    run.start(0, [&] { return scrub_later(&run, 5'000'000, &counts); });
    ASSERT_EQ(run.run(), fabric::RunEnd::finished);
    EXPECT_EQ(tally.torn + tally.foreign, 0u);
    EXPECT_EQ(counts["unreachable"] + counts["index_unreachable"] + counts["raced"], 0u);
    repaired += counts["puts_taken_back"] + counts["deletes_taken_back"];
    expect_sound(run);
  }
  EXPECT_GT(repaired, 3u);
}

}  // namespace
}  // namespace loch::nessie::testing
