// Tests NessieHY's server workers with nessie-hy.index-access nic: what they READ and CAS through the NIC of
// their node, and what they make of a CAS that ended in an error.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/fabric/memory.h"
#include "nessie_hy/module.h"
#include "nessie_hy/store.h"
#include "tests/support/owned_suite.h"
#include "tests/support/owned_tables.h"
#include "tests/support/store_cluster.h"

namespace loch::nessie_hy {
namespace {

using kv::OpStatus;
using support::FabricOptions, support::make_fabric, support::small_deploy;
using support::Lane, support::StoreCluster, support::Worked;

using Options = std::map<std::string, std::string>;

support::OwnedProtocol protocol() {
  static const std::unique_ptr<kv::Module> made = support::first_module(add_modules);
  return {*made, [](kv::Store& store) -> coupled::Tables& { return static_cast<HyStore&>(store).tables(); }};
}

coupled::Tables& tables(StoreCluster& run) { return protocol().tables_of(run); }

Options by_nic(Options more = {}) {
  more["nessie-hy.index-access"] = "nic";
  return more;
}

// Number of candidate slots of the key up to the one that holds it.
std::uint32_t words_up_to(StoreCluster& run, std::uint64_t number) {
  const coupled::Settings& s = tables(run).settings();
  std::vector<std::byte> key(s.entry.key_size()), other(s.entry.key_size());
  support::PatternData::write_key(number, key.data(), s.entry.key_size());
  cuckoo::KeyHash hash = s.family.hash(key);
  for (std::uint32_t rank = 0; rank < s.functions(); ++rank) {
    const cuckoo::Place place = hash.candidate(rank);
    const auto node = static_cast<fabric::NodeId>(place.node / s.servers());
    const coupled::RowMemory& memory = tables(run).local(node).rows[place.node % s.servers()]->memory;
    const std::uint64_t word = memory.word(place.slot);
    if (cuckoo::IndexWord::is_empty(word)) continue;
    memory.read_key(cuckoo::IndexWord::entry(word), other.data());
    if (other == key) return rank + 1;
  }
  LOCH_CHECK(false, "key {} is there", number);
}

struct Touched {
  std::uint64_t reads = 0, swaps = 0;
};

coro::Task<void> change_all(Lane* lane, StoreCluster* run, std::uint64_t keys, Touched* expected) {
  const std::uint32_t functions = tables(*run).settings().functions();
  for (std::uint64_t key = 0; key < keys; ++key) {
    const std::uint32_t words = words_up_to(*run, key);
    // PUT and DELETE READ `words` words each; a second DELETE READs one for each function
    expected->reads += 2 * words + functions;
    expected->swaps += 2;
    const Lane::Outcome put = co_await lane->put(key, key + 1000);
    EXPECT_EQ(put.result.status, OpStatus::ok);
    const Lane::Outcome got = co_await lane->get(key);
    EXPECT_EQ(got.value, key + 1000);
    const Lane::Outcome removed = co_await lane->remove(key);
    EXPECT_EQ(removed.result.status, OpStatus::ok);
    const Lane::Outcome gone = co_await lane->remove(key);
    EXPECT_EQ(gone.result.status, OpStatus::not_found);
    // The client counts its own two WRITEs only, not the READs and CASes by which the server worker executes
    // the PUT.
    EXPECT_EQ(put.stats.read + put.stats.cas, 0u);
  }
}

class ByNic : public testing::TestWithParam<std::string> {};

TEST_P(ByNic, AChangeReadsItsWordsAndSwapsOne) {
  for (const char* completion : {"watermark", "cqe"}) {
    StoreCluster run(make_fabric(GetParam(), {}), protocol().module,
                     {.config = small_deploy(3, 1, 2, 60),
                      .options = by_nic({{"nessie-hy.completion", completion},
                                         {"nessie-hy.load-factor", "0.7"},
                                         {"nessie-hy.retry-after", "500ms"}})});
    Touched expected;
    run.start(0, [&](Lane* lane) { return change_all(lane, &run, 60, &expected); });
    ASSERT_EQ(run.run(), fabric::RunEnd::finished);
    EXPECT_EQ(run.counter("nic_index_reads"), static_cast<double>(expected.reads));
    EXPECT_EQ(run.counter("nic_index_swaps"), static_cast<double>(expected.swaps));
    EXPECT_EQ(support::expect_sound(tables(run)), 0u);
  }
}

TEST_P(ByNic, ManyClientsOnFewKeys) {
  for (const Options& options :
       {by_nic(), by_nic({{"nessie-hy.variant", "published"}, {"nessie-hy.mend-h2", "on"}})}) {
    const StoreCluster::Shape shape{.config = small_deploy(3, 2, 2, 24), .options = options};
    const Worked worked = support::expect_sound_work(protocol(), GetParam(), shape, 36, 300);
    EXPECT_EQ(worked.other, 0u);
    EXPECT_GT(worked.counters.at("nic_index_swaps"), 300);
  }
}

TEST_P(ByNic, ALoadedTableMovesItsKeysByCas) {
  support::expect_moves_of_keys(protocol(), GetParam(), 400, by_nic());
}

TEST_P(ByNic, FailedConnectionsOfServersToThemselvesLoseNothing) {
  const auto counters = support::expect_no_loss_by_failures(
      protocol(), GetParam(), by_nic({{"nessie-hy.min-spare", "4096"}, {"nessie-hy.expiry", "60s"}}));
  EXPECT_GT(counters.at("nic_reconnects"), 0);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, ByNic, testing::ValuesIn(support::fabrics()),
                         [](const auto& info) { return info.param; });

// Without nessie-hy.index-access nic, the server worker stores index words by the CPU, and counts no READs
// and CASes.
TEST(ByNicOnSim, ByDefaultTheNicIsLeftAlone) {
  StoreCluster run(make_fabric("sim", {}), protocol().module, {.config = small_deploy(3, 1, 1, 24)});
  EXPECT_FALSE(run.store().counters().contains("nic_index_reads"));
  EXPECT_EQ(tables(run).local(0).nic_words, nullptr);
}

// Counts GETs that return another value than that of the PUT before them, if that PUT had returned ok. GETs
// that end in an error, because their READs failed twice, are not counted.
coro::Task<void> put_and_get(Lane* lane, std::uint64_t first, std::uint64_t* wrong) {
  for (std::uint64_t i = 0; i < 300; ++i) {
    const Lane::Outcome put = co_await lane->put(first + i % 4, i);
    const Lane::Outcome got = co_await lane->get(first + i % 4);
    const bool both_ok = put.result.status == OpStatus::ok && got.result.status == OpStatus::ok;
    if (both_ok && got.value != i) ++*wrong;
  }
}

// A PUT whose CAS ended in an error may have taken effect or not, which a GET by the same client shows. The
// server worker learns it only by reading the slot; the known-bad variant does not read it.
TEST(ByNicOnSim, ACasThatEndedInAnErrorIsLookedAt) {
  for (const std::string_view mutant : {"", "failed-swap-trusted"}) {
    FabricOptions lossy;
    lossy.losses = {.seed = 5, .rc_error = 0.02, .rc_error_executed = 0.5};
    StoreCluster run(make_fabric("sim", lossy), protocol().module,
                     {.config = small_deploy(3, 2, 1, 24),
                      .options = by_nic({{"nessie-hy.min-spare", "4096"},
                                         {"nessie-hy.expiry", "60s"},
                                         {"nessie-hy.give-up-after", "60s"},
                                         {"nessie-hy.reconnect-timeout", "10s"},
                                         {"nessie-hy.retry-after", "5ms"}}),
                      .mutant = std::string(mutant)});
    std::vector<std::uint64_t> wrong(run.workers());
    for (std::size_t w = 0; w < run.workers(); ++w)
      run.start(w, [&wrong, w](Lane* lane) { return put_and_get(lane, 4 * w, &wrong[w]); });
    ASSERT_EQ(run.run(), fabric::RunEnd::finished);
    std::uint64_t all = 0;
    for (const std::uint64_t each : wrong) all += each;
    EXPECT_GT(run.counter("nic_reconnects"), 0) << mutant;
    if (mutant.empty())
      EXPECT_EQ(all, 0u);
    else
      EXPECT_GT(all, 0u);
  }
}

TEST(ByNicDeploy, SwapsNeedADeviceWithAtomics) {
  kv::Options options(protocol().module.options());
  EXPECT_EQ(protocol().module.requirements(options).atomic_scope, fabric::AtomicScope::none);
  ASSERT_TRUE(options.set("nessie-hy.index-access", "nic").has_value());
  EXPECT_EQ(protocol().module.requirements(options).atomic_scope, fabric::AtomicScope::nic);
}

}  // namespace
}  // namespace loch::nessie_hy
