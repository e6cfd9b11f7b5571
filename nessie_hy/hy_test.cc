// Tests NessieHY on the simulator, over shared memory and, with LOCH_TEST_VERBS set, on this machine's
// RDMA device: results and costs of operations, clients that READ tables while workers write them, and
// expiring entries.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/cuckoo/placement.h"
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
using support::Lane, support::StoreCluster, support::PatternData, support::Worked;

constexpr std::uint32_t key_size = 32, value_size = 600;  // the sizes that small_deploy() uses
constexpr std::uint64_t entry_bytes = key_size + value_size + 16;

const kv::Module& module() {
  static const std::unique_ptr<kv::Module> made = support::first_module(add_modules);
  return *made;
}

support::OwnedProtocol protocol() {
  return {module(),
          [](kv::Store& store) -> coupled::Tables& { return static_cast<HyStore&>(store).tables(); }};
}

coupled::Tables& tables(StoreCluster& run) { return protocol().tables_of(run); }

// The expected cost of a GET of a preloaded key: one index word for each candidate up to the key's slot,
// one entry for each earlier slot that is occupied, and the key's entry. A miss READs all words
// but the last a second time.
struct Expected {
  std::uint32_t words = 0, entries = 0;
  bool is_local = false;
};
Expected expected_get(StoreCluster& run, std::uint64_t number, fabric::NodeId from) {
  const coupled::Settings& s = tables(run).settings();
  std::vector<std::byte> key(key_size), other(key_size);
  PatternData::write_key(number, key.data(), key_size);
  cuckoo::KeyHash hash = s.family.hash(key);
  Expected cost;
  for (std::uint32_t rank = 0; rank < s.functions(); ++rank) {
    const cuckoo::Place place = hash.candidate(rank);
    const auto node = static_cast<fabric::NodeId>(place.node / s.servers());
    const coupled::RowMemory& memory = tables(run).local(node).rows[place.node % s.servers()]->memory;
    cost.is_local = node == from;
    ++cost.words;
    const std::uint64_t word = memory.word(place.slot);
    if (cuckoo::IndexWord::is_empty(word)) continue;
    ++cost.entries;
    memory.read_key(cuckoo::IndexWord::entry(word), other.data());
    if (other == key) return cost;
  }
  cost.words += s.functions() - 1;
  return cost;
}

class OnFabric : public testing::TestWithParam<std::string> {};

coro::Task<void> get_all(Lane* lane, StoreCluster* run, std::uint64_t present, std::uint64_t all,
                         std::uint64_t* remote) {
  for (std::uint64_t key = 0; key < all; ++key) {
    const Expected cost = expected_get(*run, key, lane->worker().node());
    const Lane::Outcome got = co_await lane->get(key);
    EXPECT_EQ(got.result.status, key < present ? OpStatus::ok : OpStatus::not_found) << key;
    if (key < present) EXPECT_EQ(got.value, key);
    EXPECT_EQ(got.stats.write + got.stats.cas + got.stats.send, 0u);
    if (cost.is_local) {
      EXPECT_EQ(got.stats.read, 0u);
      EXPECT_EQ(got.stats.payload_bytes, 0u);
      EXPECT_EQ(got.stats.local_accesses, cost.words + cost.entries);
      continue;
    }
    ++*remote;
    EXPECT_EQ(got.stats.index_read, cost.words);
    EXPECT_EQ(got.stats.read, cost.words + cost.entries);
    EXPECT_EQ(got.stats.payload_bytes, 8 * cost.words + entry_bytes * cost.entries);
  }
}

TEST_P(OnFabric, AGetReadsWordsAndOccupiedEntries) {
  for (const char* completion : {"watermark", "cqe"}) {
    StoreCluster run(make_fabric(GetParam(), {}), module(),
                     {.config = small_deploy(3, 1, 2, 120),
                      .options = {{"nessie-hy.load-factor", "0.7"}, {"nessie-hy.completion", completion}}});
    std::uint64_t remote = 0;
    run.start(0, [&](Lane* lane) { return get_all(lane, &run, 120, 160, &remote); });
    ASSERT_EQ(run.run(), fabric::RunEnd::finished);
    EXPECT_GT(remote, 60u);
    EXPECT_EQ(support::expect_sound(tables(run)), 120u);
  }
}

coro::Task<void> one_of_each(Lane* lane, std::uint64_t keys) {
  for (std::uint64_t key = 0; key < keys; ++key) {
    const Lane::Outcome put = co_await lane->put(key, key + 1000);
    EXPECT_EQ(put.result.status, OpStatus::ok);
    const Lane::Outcome second = co_await lane->get(key);
    EXPECT_EQ(second.value, key + 1000);
    EXPECT_FALSE(second.is_torn);
    const Lane::Outcome removed = co_await lane->remove(key);
    EXPECT_EQ(removed.result.status, OpStatus::ok);
    const Lane::Outcome gone = co_await lane->get(key);
    EXPECT_EQ(gone.result.status, OpStatus::not_found);
    const Lane::Outcome anew = co_await lane->put(key, key + 2000);
    EXPECT_EQ(anew.result.status, OpStatus::ok);
    const Lane::Outcome last = co_await lane->get(key);
    EXPECT_EQ(last.value, key + 2000);
    const bool is_local = put.stats.local_accesses > 0;
    EXPECT_EQ(put.stats.write, is_local ? 0u : 2u);
    EXPECT_EQ(put.stats.payload_bytes, is_local ? 0u : value_size + key_size + 24 + 8);
    EXPECT_EQ(removed.stats.payload_bytes, is_local ? 0u : key_size + 16 + 8);
    EXPECT_EQ(put.stats.read + removed.stats.read, 0u);
  }
}

TEST_P(OnFabric, PutsAndDeletesAreTheServersAndGetsSeeThem) {
  std::vector<std::map<std::string, std::string>> variants = {
      {},
      {{"nessie-hy.filter-bits", "7"}, {"nessie-hy.cache", "on"}, {"nessie-hy.cache-fraction", "0.5"}},
      {{"nessie-hy.multi-read", "on"}, {"nessie-hy.completion", "cqe"}},
  };
  for (auto& options : variants) {
    options["nessie-hy.retry-after"] = "500ms";  // no request is sent twice, even on a busy machine
    StoreCluster run(make_fabric(GetParam(), {}), module(),
                     {.config = small_deploy(3, 1, 2, 60), .options = options});
    run.start(0, [](Lane* lane) { return one_of_each(lane, 60); });
    ASSERT_EQ(run.run(), fabric::RunEnd::finished);
    EXPECT_EQ(support::expect_sound(tables(run)), 60u);
  }
}

TEST_P(OnFabric, ManyClientsOnFewKeys) {
  const std::vector<std::map<std::string, std::string>> variants = {
      {},
      {{"nessie-hy.expiry", "2ms"}, {"nessie-hy.min-spare", "16"}, {"nessie-hy.spare-memory", "0"}},
      {{"nessie-hy.cache", "on"}, {"nessie-hy.cache-fraction", "1"}, {"nessie-hy.multi-read", "on"}},
  };
  for (const auto& options : variants) {
    const StoreCluster::Shape shape{.config = small_deploy(3, 2, 2, 24), .options = options};
    const Worked worked = support::expect_sound_work(protocol(), GetParam(), shape, 36, 400);
    EXPECT_EQ(worked.workers, 6u);
    // With the default expiry period no operation may fail; with a short one operations may expire or
    // find no free entry.
    if (!options.contains("nessie-hy.expiry")) EXPECT_EQ(worked.other, 0u);
    EXPECT_GT(worked.ok, 1'200u);
  }
}

TEST_P(OnFabric, ALoadedTableMovesItsKeysUnderReaders) {
  support::expect_moves_of_keys(protocol(), GetParam(), 600);
}

TEST_P(OnFabric, FailedConnectionsLoseAndRepeatNothing) {
  const auto counters = support::expect_no_loss_by_failures(
      protocol(), GetParam(), {{"nessie-hy.min-spare", "4096"}, {"nessie-hy.expiry", "60s"}});
  EXPECT_GT(counters.at("get_reconnects"), 0);
}

TEST_P(OnFabric, OneNodeMayServeAll) { support::expect_one_node_to_serve(protocol(), GetParam()); }

INSTANTIATE_TEST_SUITE_P(Fabrics, OnFabric, testing::ValuesIn(support::fabrics()),
                         [](const auto& info) { return info.param; });

// Replaced entries may be reused only after the expiry period. A PUT that finds no free entry waits
// until one is free.
coro::Task<void> replace_often(Lane* lane, std::uint64_t* waited) {
  for (std::uint64_t i = 0; i < 60; ++i) {
    const Lane::Outcome put = co_await lane->put(0, i);
    EXPECT_EQ(put.result.status, OpStatus::ok) << i;
    *waited += put.result.retries;
    const Lane::Outcome got = co_await lane->get(0);
    EXPECT_EQ(got.value, i);
  }
}

TEST(OnSim, ReplacedEntriesRestForTheExpiryPeriod) {
  StoreCluster run(
      make_fabric("sim", {.nodes = 2}), module(),
      {.config = small_deploy(2, 1, 1, 2),
       .options = {
           {"nessie-hy.expiry", "300us"}, {"nessie-hy.min-spare", "2"}, {"nessie-hy.load-factor", "0.9"}}});
  std::uint64_t waited = 0;
  run.start(0, [&](Lane* lane) { return replace_often(lane, &waited); });
  ASSERT_EQ(run.run(), fabric::RunEnd::finished);
  EXPECT_GT(waited, 0u);
  EXPECT_GT(run.counter("back_pressure"), 0);
}

// For a long load a node gets additional entries. They lie behind the entries that the node has anyway: they
// overlap none of those and change none of their addresses.
TEST(Entries, OfALoadLieBehindTheOthersAndApart) {
  kv::DeployConfig config = small_deploy(2, 1, 3, 2);
  StoreCluster short_run(make_fabric("sim", {.nodes = 2}), module(), {.config = config});
  config.load_time = 20'000'000;
  StoreCluster long_run(make_fabric("sim", {.nodes = 2}), module(), {.config = config});
  const coupled::Settings& before = tables(short_run).settings();
  const coupled::Settings& after = tables(long_run).settings();
  ASSERT_EQ(before.servers(), 3u);
  ASSERT_GT(after.entries_per_row, before.entries_per_row + 100);
  std::set<std::uint64_t> offsets;
  for (std::uint32_t server = 0; server < after.servers(); ++server) {
    for (std::uint32_t entry = 0; entry < after.entries_per_row; ++entry) {
      const std::uint64_t at = after.entry_at(server, entry);
      ASSERT_TRUE(offsets.insert(at).second) << server << ' ' << entry;
      ASSERT_EQ(at % after.entry.stride(), 0u);
      ASSERT_LT(at, after.data_bytes());
      if (entry < before.entries_per_row) ASSERT_EQ(at, before.entry_at(server, entry));
    }
  }
}

// Counts index words that a slot holds a second time, after other words. No word may return: a client that
// READs the same word twice concludes that the slot did not change in between. With the mutant
// word-not-unique, whose index words do not contain the number of the store, a key that is moved away and
// back has its old word again.
struct SeenWords {
  std::map<std::pair<const coupled::Row*, std::uint64_t>, std::vector<std::uint64_t>> history;
  std::uint64_t returned = 0;
  void look(StoreCluster& run) {
    const coupled::Settings& s = tables(run).settings();
    for (const auto& row : tables(run).local(0).rows) {
      for (std::uint64_t slot = 0; slot < s.slots_per_row; ++slot) {
        std::vector<std::uint64_t>& before = history[{row.get(), slot}];
        const std::uint64_t word = row->memory.word(slot);
        if (!before.empty() && before.back() == word) continue;
        if (std::ranges::find(before, word) != before.end()) ++returned;
        before.push_back(word);
      }
    }
  }
};

coro::Task<void> stir(Lane* lane, StoreCluster* run, SeenWords* seen) {
  for (std::uint32_t i = 0; i < 4'000; ++i) {
    const std::uint64_t key = 6 + lane->worker().rng().below(8);
    Lane::Outcome done;
    if (lane->worker().rng().chance(0.5))
      done = co_await lane->put(key, i);
    else
      done = co_await lane->remove(key);
    EXPECT_TRUE(done.result.status != OpStatus::error && done.result.status != OpStatus::timeout);
    seen->look(*run);
  }
}

TEST(OnSim, NoWordComesBackToASlot) {
  for (const std::string_view mutant : {"", "word-not-unique", "empty-not-unique"}) {
    kv::DeployConfig config = small_deploy(1, 1, 1, 6);
    config.max_keys = 8;
    StoreCluster run(make_fabric("sim", {.nodes = 1}), module(),
                     {.config = config,
                      .options = {{"nessie-hy.load-factor", "0.8"},
                                  {"nessie-hy.hash-functions", "2"},
                                  {"nessie-hy.min-spare", "8192"}},
                      .mutant = std::string(mutant)});
    SeenWords seen;
    run.start(0, [&](Lane* lane) { return stir(lane, &run, &seen); });
    ASSERT_EQ(run.run(), fabric::RunEnd::finished);
    EXPECT_GT(run.counter("moves"), 20) << mutant;
    if (mutant.empty())
      EXPECT_EQ(seen.returned, 0u);
    else
      EXPECT_GT(seen.returned, 0u) << mutant;
  }
}

// Clients measure the expiry period by clocks whose rates may differ from that of the server worker's clock,
// so that an entry must not be reused before 1.001 expiry periods have passed.
coro::Task<void> replace_once(Lane* lane, Nanos* replaced_by) {
  for (std::uint32_t i = 0; i < 2; ++i) {
    const Lane::Outcome put = co_await lane->put(0, i);
    EXPECT_EQ(put.result.status, OpStatus::ok);
  }
  *replaced_by = lane->worker().now();
}

TEST(OnSim, AReplacedEntryRestsForTheDriftOfClocksToo) {
  constexpr Nanos expiry = 100'000'000;
  for (const std::string_view mutant : {"", "no-drift-margin"}) {
    StoreCluster run(make_fabric("sim", {.nodes = 1}), module(),
                     {.config = small_deploy(1, 1, 1, 0),
                      .options = {{"nessie-hy.expiry", "100ms"}},
                      .mutant = std::string(mutant)});
    Nanos replaced_by = 0;
    run.start(0, [&](Lane* lane) { return replace_once(lane, &replaced_by); });
    ASSERT_EQ(run.run(), fabric::RunEnd::finished);
    cuckoo::EntryPool entries = tables(run).local(0).rows[0]->entries;
    ASSERT_EQ(entries.retired(), 1u);
    while (entries.free() > 0) ASSERT_TRUE(entries.allocate(replaced_by));
    EXPECT_EQ(entries.allocate(replaced_by + expiry).has_value(), !mutant.empty());
    EXPECT_EQ(entries.allocate(replaced_by + expiry + expiry / 1000).has_value(), mutant.empty());
  }
}

// The smallest key number whose first candidate slot is on node 0.
std::uint64_t key_of_node_0(StoreCluster& run) {
  std::vector<std::byte> key(key_size);
  for (std::uint64_t number = 0;; ++number) {
    PatternData::write_key(number, key.data(), key_size);
    cuckoo::KeyHash hash = tables(run).settings().family.hash(key);
    if (hash.candidate(0).node / tables(run).settings().servers() == 0) return number;
  }
}

// A client's cache finds an entry by its index word. A row (the table of one server worker) that is
// initialised again must therefore store no word of its former incarnations; otherwise a client could be
// answered with a cached value of a former incarnation.
enum class Phase : std::uint8_t { first_incarnation, over, second_incarnation };
struct Incarnations {
  Phase phase = Phase::first_incarnation;
  std::uint64_t key = 0, slots = 0, got = 0;
};

coro::Task<void> await(fabric::Worker* worker, const Incarnations* incarnations, Phase phase) {
  while (incarnations->phase != phase) co_await worker->sleep_until(worker->now() + 1'000);
}

coro::Task<void> live_twice(Lane* lane, Incarnations* incarnations) {
  // Each store of an index word has a number, which the word contains; after a restart the known-bad variant
  // counts from zero again. A round of the first incarnation makes two stores (PUT and DELETE); the second
  // incarnation makes one for each slot at its beginning, then one a round. So the known-bad variant's last
  // PUT has the number that the PUT of value `slots` had in the first incarnation, and thus the same word.
  for (std::uint64_t i = 0; i <= incarnations->slots + 2; ++i) {
    const Lane::Outcome put = co_await lane->put(incarnations->key, i);
    EXPECT_EQ(put.result.status, OpStatus::ok);
    const Lane::Outcome got = co_await lane->get(incarnations->key);
    EXPECT_EQ(got.value, i);
    const Lane::Outcome removed = co_await lane->remove(incarnations->key);
    EXPECT_EQ(removed.result.status, OpStatus::ok);
  }
  incarnations->phase = Phase::over;
  co_await await(&lane->worker(), incarnations, Phase::second_incarnation);
  for (std::uint64_t i = 0; i <= incarnations->slots; ++i) {
    const Lane::Outcome put = co_await lane->put(incarnations->key, 1'000 + i);
    EXPECT_EQ(put.result.status, OpStatus::ok);
  }
  const Lane::Outcome got = co_await lane->get(incarnations->key);
  EXPECT_EQ(got.result.status, OpStatus::ok);
  incarnations->got = got.value;
}

coro::Task<void> lay_out_anew(Lane* lane, StoreCluster* run, Incarnations* incarnations) {
  co_await await(&lane->worker(), incarnations, Phase::over);
  const Result<> restarted = tables(*run).restart_node(0);
  EXPECT_TRUE(restarted);
  tables(*run).lay_out(*tables(*run).local(0).rows[0], lane->worker());
  incarnations->phase = Phase::second_incarnation;
}

TEST(OnSim, NoWordOfAFormerIncarnationIsStoredAgain) {
  for (const std::string_view mutant : {"", "words-begin-anew"}) {
    kv::DeployConfig config = small_deploy(2, 1, 1, 0);
    config.max_keys = 16;
    StoreCluster run(make_fabric("sim", {.nodes = 2}), module(),
                     {.config = config,
                      .options = {{"nessie-hy.cache", "true"}, {"nessie-hy.cache-fraction", "1"}},
                      .mutant = std::string(mutant)});
    Incarnations incarnations{.key = key_of_node_0(run), .slots = tables(run).settings().slots_per_row};
    run.start(0, [&](Lane* lane) { return lay_out_anew(lane, &run, &incarnations); });
    run.start(1, [&](Lane* lane) { return live_twice(lane, &incarnations); });
    ASSERT_EQ(run.run(), fabric::RunEnd::finished);
    EXPECT_EQ(incarnations.got, mutant.empty() ? 1'000 + incarnations.slots : incarnations.slots) << mutant;
  }
}

// A GET that read its index word before the server restarted must end in an error: its entry may now hold
// half of a PUT that the new incarnation has not linked yet.
struct Rebirth {
  StoreCluster* run = nullptr;
  std::uint64_t key = 0;
  Lane::Outcome got;
};

coro::Task<void> get_once(Lane* lane, Rebirth* rebirth) {
  const Lane::Outcome got = co_await lane->get(rebirth->key);
  rebirth->got = got;
}

// Offset in node 0's data region of the preloaded key's entry.
std::uint64_t place_of_entry(StoreCluster& run, std::uint64_t number) {
  std::vector<std::byte> key(key_size), other(key_size);
  PatternData::write_key(number, key.data(), key_size);
  cuckoo::KeyHash hash = tables(run).settings().family.hash(key);
  const coupled::RowMemory& memory = tables(run).local(0).rows[0]->memory;
  for (std::uint32_t rank = 0; rank < tables(run).settings().functions(); ++rank) {
    const std::uint64_t word = memory.word(hash.candidate(rank).slot);
    if (cuckoo::IndexWord::is_empty(word)) continue;
    memory.read_key(cuckoo::IndexWord::entry(word), other.data());
    if (other == key) return memory.entry_at(cuckoo::IndexWord::entry(word));
  }
  LOCH_CHECK(false, "key {} is preloaded", number);
}

// Writes an entry as a server worker leaves it between copying the two halves of the value.
void write_half(StoreCluster& run, std::uint64_t number, std::uint64_t at) {
  const coupled::EntryLayout& layout = tables(run).settings().entry;
  fabric::Region& data = *tables(run).local(0).data;
  std::vector<std::byte> key(key_size), value(value_size);
  PatternData::write_key(number, key.data(), key_size);
  PatternData::write_value(77, value.data(), value_size);
  fabric::copy_to_shared(data.at(at), key.data(), key.size());
  fabric::store_word_release(data.at(at + layout.meta_at()), 1 | coupled::watermark);
  fabric::copy_to_shared(data.at(at + layout.value_at()), value.data(), value.size() / 16 * 8);
  fabric::store_word_release(data.at(at + layout.tail_at()), coupled::watermark);
}

// Runs a GET from node 1 while node 0, which stores the key, loses its memory at time `crash_at` (ns) and is
// back 20 us later. Returns the GET's result.
Lane::Outcome get_across(Nanos crash_at, std::string_view mutant) {
  FabricOptions options{.nodes = 2};
  options.faults.schedule.push_back({.kind = fabric::sim::ScheduledFault::Kind::crash,
                                     .node = 0,
                                     .worker = 0,
                                     .at = crash_at,
                                     .span = 20'000});
  StoreCluster run(make_fabric("sim", options), module(),
                   {.config = small_deploy(2, 1, 1, 24), .mutant = std::string(mutant)});
  Rebirth rebirth{.run = &run, .key = key_of_node_0(run), .got = {}};
  const std::uint64_t at = place_of_entry(run, rebirth.key);
  run.fabric().on_restart([&](fabric::NodeId node) {
    EXPECT_TRUE(run.store().restart_node(run.fabric(), node));
    write_half(run, rebirth.key, at);
    auto server = run.fabric().add_worker({.node = node,
                                           .role = fabric::Role::server,
                                           .index = static_cast<std::uint16_t>(run.config().server_index(0)),
                                           .core = -1,
                                           .name = "server"});
    ASSERT_TRUE(server);
    run.fabric().start(**server, run.store().serve(**server, 0));
  });
  run.start(1, [&](Lane* lane) { return get_once(lane, &rebirth); });
  EXPECT_EQ(run.run(), fabric::RunEnd::finished);
  return rebirth.got;
}

TEST(OnSim, AGetDoesNotGoOnInAnotherIncarnationOfItsServer) {
  for (const std::string_view mutant : {"", "reborn-get-goes-on"}) {
    std::uint32_t torn = 0, errors = 0;
    for (Nanos at = 500; at < 10'000; at += 500) {
      const Lane::Outcome got = get_across(at, mutant);
      torn += got.result.status == OpStatus::ok && got.is_torn ? 1 : 0;
      errors += got.result.status == OpStatus::error ? 1 : 0;
    }
    EXPECT_GT(errors, 0u) << mutant;
    if (mutant.empty())
      EXPECT_EQ(torn, 0u);
    else
      EXPECT_GT(torn, 0u) << mutant;
  }
}

TEST(OnSim, AFullTableSaysSoAndKeepsWhatItHas) { support::expect_full_table_to_say_so(protocol()); }

TEST(OnSim, ADeadNodeIsAnError) { support::expect_errors_of_a_dead_node(protocol()); }

// A node came back with empty memory and its tables were not initialised again. GETs of its keys must be
// errors, not misses, however often a client retries; keys on other nodes must be found.
struct Gets {
  std::uint64_t ok = 0, missed = 0, errors = 0;
};
coro::Task<void> get_after_the_loss(Lane* lane, Gets* seen) {
  co_await lane->worker().sleep_until(5'000'000);
  for (std::uint64_t i = 0; i < 72; ++i) {
    const Lane::Outcome got = co_await lane->get(i % 24);
    ++(got.result.status == OpStatus::ok          ? seen->ok
       : got.result.status == OpStatus::not_found ? seen->missed
                                                  : seen->errors);
  }
}

TEST(OnSim, MemoryThatNobodyLaidOutIsAnErrorAndNoMiss) {
  for (const char* mutant : {"", "void-is-empty"}) {
    FabricOptions options;
    options.faults.schedule.push_back({.kind = fabric::sim::ScheduledFault::Kind::crash,
                                       .node = 2,
                                       .worker = 0,
                                       .at = 400'000,
                                       .span = 1'000'000});
    StoreCluster run(make_fabric("sim", options), module(),
                     {.config = small_deploy(3, 1, 1, 24), .mutant = std::string(mutant)});
    Gets seen;
    run.start(0, [&](Lane* lane) { return get_after_the_loss(lane, &seen); });
    ASSERT_EQ(run.run(), fabric::RunEnd::finished);
    EXPECT_GT(seen.ok, 20u) << mutant;
    EXPECT_GT(seen.errors, 0u) << mutant;
    if (*mutant == 0)
      EXPECT_EQ(seen.missed, 0u);
    else
      EXPECT_GT(seen.missed, 0u) << mutant;
  }
}

TEST(Deploy, ImpossibleCombinationsAreRefusedInOneLine) {
  kv::Options options(module().options());
  const kv::DeployConfig config = support::expect_deployments(protocol());
  ASSERT_TRUE(options.set("nessie-hy.mend-h2", "on").has_value());
  EXPECT_FALSE(module().deploy(config, options, "").has_value()) << "there is nothing to fix";
  EXPECT_TRUE(module().fixes(options).empty());
  ASSERT_TRUE(options.set("nessie-hy.variant", "published").has_value());
  EXPECT_TRUE(module().deploy(config, options, "").has_value());
  ASSERT_TRUE(options.set("nessie-hy.mend-h2", "off").has_value());
  EXPECT_EQ(module().fixes(options).size(), 1u);
}

}  // namespace
}  // namespace loch::nessie_hy
