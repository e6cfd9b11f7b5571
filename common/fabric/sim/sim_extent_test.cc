// Tests that memory which stands for more records than it holds is translated as all of them would be: a run
// with a part of a data set misses the NIC's cache of translations as often as one with the whole.
#include "common/base/rng.h"
#include "common/fabric/sim/microbenchmark.h"
#include "tests/support/sim_cluster.h"

namespace loch::fabric::sim {
namespace {

constexpr std::uint32_t record_bytes = 2048;
constexpr int reads_of_a_run = 4000;

// A cluster of two nodes, each with a table of records on node 0 and a landing buffer of the client on
// node 1.
struct Table {
  Table(std::uint64_t records, double data_scale, bool grows = true, const char* hardware = "connectx3-10gbe")
      : records(records) {
    SimConfig config = small_config(2, hardware);
    config.data_scale = data_scale;
    fabric = make_sim(config).value();
    const RegionSpec table{.name = "table",
                           .bytes = records * record_bytes,
                           .remote_read = true,
                           .remote_atomic = true,
                           .record_bytes = grows ? record_bytes : 0};
    EXPECT_TRUE(fabric->register_region(0, table).has_value());
    landing = fabric->register_region(1, {.name = "landing", .bytes = record_bytes}).value();
    client = fabric->add_worker({1, Role::client, 0, -1, "client"}).value();
    LOCH_CHECK(fabric->add_worker({0, Role::client, 0, -1, "server"}).has_value(), "no worker");
    LOCH_CHECK(fabric->exchange(1).has_value(), "no exchange");
    remote = fabric->lookup(0, "table").value();
  }
  void run(coro::Task<void> task) {
    fabric->start(*client, std::move(task));
    EXPECT_EQ(fabric->run().value(), RunEnd::finished);
  }
  [[nodiscard]] double misses() const {
    return fabric->report().nodes[0].counters.at("nic_translation_misses");
  }

  std::uint64_t records;
  std::unique_ptr<Fabric> fabric;
  Region* landing = nullptr;
  Worker* client = nullptr;
  RemoteRegion remote;
};

// READs records at random, each `again` times in a row.
coro::Task<void> read_at_random(Table* table, int again) {
  Rng random(7);
  for (int i = 0; i < reads_of_a_run / again; ++i) {
    const std::uint64_t offset = random() % table->records * record_bytes;
    for (int k = 0; k < again; ++k) {
      const Completion done =
          co_await table->client->read(table->remote, offset, {table->landing, 0}, record_bytes / 2);
      EXPECT_TRUE(done.ok());
    }
  }
}

double misses(std::uint64_t records, double data_scale, int again = 1, bool grows = true) {
  Table table(records, data_scale, grows);
  table.run(read_at_random(&table, again));
  return table.misses();
}

// The cache holds 2,048 pages of 4 KB, which 1,000 records of 2 KB do not fill and 100,000 exceed 24 times.
// 5,000 fill it, and are many beside the 100 that are READ before each is drawn anew.
TEST(SimExtent, APartOfADataSetMissesAsOftenAsTheWhole) {
  const double part = misses(1000, 1), whole = misses(100'000, 1), stands_for_whole = misses(5000, 20);
  EXPECT_LE(part, 501);
  EXPECT_GT(whole, 0.9 * reads_of_a_run);
  EXPECT_NEAR(stands_for_whole, whole, 0.02 * reads_of_a_run);
  EXPECT_LT(misses(5000, 1), 0.7 * reads_of_a_run);
}

// A request that follows another one to the same record, as an operation's second does, finds its page.
TEST(SimExtent, RequestsOfAnOperationMeanTheSameRecord) {
  EXPECT_NEAR(misses(5000, 20, 4), misses(100'000, 1, 4), 0.01 * reads_of_a_run);
}

TEST(SimExtent, RegionsThatDoNotGrowWithTheRecordsAreTheirOwnSize) {
  EXPECT_EQ(misses(1000, 100, 1, false), misses(1000, 1));
}

// Adds to a word 200 times.
coro::Task<void> add_again(Table* table, Nanos* took) {
  const Nanos from = table->client->now();
  for (int i = 0; i < 200; ++i) {
    const Completion done = co_await table->client->faa(table->remote, 0, 1);
    EXPECT_TRUE(done.ok());
  }
  *took = table->client->now() - from;
}

// A card of which it is known how long atomics are held where.
constexpr const char* measured_card = "connectx3-56g-ib";

Nanos adding(std::uint64_t records, double data_scale) {
  Nanos took = 0;
  Table table(records, data_scale, true, measured_card);
  table.run(add_again(&table, &took));
  return took;
}

// An atomic is held for as long as one on a word of a table that the processor's cache does not hold.
TEST(SimExtent, AtomicsAreHeldAsInTheWholeTable) {
  const HardwareProfile profile = small_config(2, measured_card).hardware;
  const std::uint64_t cached = profile.cpu.last_level_cache_bytes / record_bytes;
  ASSERT_GT(cached, 1000u);
  const auto longer = static_cast<Nanos>(profile.nic.atomic_hold_memory_ns - profile.nic.atomic_hold_ns);
  ASSERT_GT(longer, 0);
  const double scale = 2.0 * static_cast<double>(cached) / 1000;
  EXPECT_NEAR(static_cast<double>(adding(1000, scale) - adding(1000, 1)), static_cast<double>(200 * longer),
              400);
  EXPECT_EQ(adding(1000, scale), adding(2 * cached, 1));
}

}  // namespace
}  // namespace loch::fabric::sim
