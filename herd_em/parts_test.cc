// Tests HERD's log, index and partition, which need no fabric.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "herd_em/partition.h"
#include "herd_em/settings.h"

namespace loch::herd {
namespace {

std::vector<std::byte> bytes_of(std::uint64_t number, std::uint32_t size) {
  std::vector<std::byte> out(size);
  for (std::uint32_t at = 0; at < size; ++at)
    out[at] = static_cast<std::byte>(mix64(number * 1000 + at / 8) >> (8 * (at % 8)));
  return out;
}

TEST(Log, AnEntryIncarnationsUntilTheHeadIsACapacityFurther) {
  // The log's size is no multiple of an entry's 32 bytes, so that some entries wrap around the end of its
  // memory.
  Log log(3 * Log::entry_bytes(8) + 8);
  std::vector<std::uint64_t> offsets;
  for (std::uint64_t i = 0; i < 50; ++i) {
    const auto value = bytes_of(i, 8);
    offsets.push_back(log.append({{i, i}, 8, 8}, value.data()));
    for (std::uint64_t j = 0; j <= i; ++j) {
      EXPECT_EQ(log.is_live(offsets[j]), i - j < 3) << i << " " << j;
      if (!log.is_live(offsets[j])) continue;
      EXPECT_EQ(log.header(offsets[j]).key, (KeyHash{j, j}));
      std::vector<std::byte> read(8);
      log.read_value(offsets[j], read.data(), 8);
      EXPECT_EQ(read, bytes_of(j, 8));
    }
  }
  EXPECT_EQ(log.head(), 50u * 32);
}

TEST(Log, OverwritesInPlaceAcrossTheEnd) {
  Log log(100);
  EXPECT_EQ(log.capacity(), 104u);
  const auto one = bytes_of(1, 40), two = bytes_of(2, 40);
  log.append({{1, 1}, 40, 40}, one.data());
  // This entry lies at offsets 64 to 128 of a log with 104 bytes of memory, so that it wraps around.
  const std::uint64_t at = log.append({{2, 2}, 40, 40}, one.data());
  log.overwrite_value(at, two.data(), 40);
  std::vector<std::byte> read(40);
  log.read_value(at, read.data(), 40);
  EXPECT_EQ(read, two);
}

TEST(Log, AnUnderflowingWrapLosesWhatLiesBeyondTheEnd) {
  Log log(104, {.checks_nothing = false, .wrap_underflows = true});
  const auto value = bytes_of(1, 40);
  std::vector<std::byte> read(40);
  log.read_value(log.append({{1, 1}, 40, 40}, value.data()), read.data(), 40);
  // The entry at offset 64 is stored well: the defect, by which bytes beyond the end of the memory are lost,
  // affects only entries at offsets from 104 on.
  log.append({{2, 2}, 40, 40}, value.data());
  // This entry, at offset 128, fits at bytes 24 to 88 of the log's memory, so that the defect (bytes beyond
  // the memory's end are lost) does no harm.
  log.read_value(log.append({{3, 3}, 40, 40}, value.data()), read.data(), 40);
  EXPECT_EQ(read, value);
  const auto other = bytes_of(2, 40);
  // This entry begins at byte 88 of the log's 104 bytes of memory; the defect loses what lies beyond the end
  // instead of wrapping it around.
  log.read_value(log.append({{4, 4}, 40, 40}, other.data()), read.data(), 40);
  EXPECT_NE(read, other);
}

TEST(Index, FindsBehindAnotherKeyOfTheSameTag) {
  Index index(1, 1, Eviction::oldest);
  const KeyHash a{0, 1}, b{0, 2};
  const auto live = [](std::uint64_t) { return true; };
  index.set(a, index.room(a, false, live).place, 100);
  index.set(b, index.room(b, false, live).place, 200);
  EXPECT_EQ(index.first_with_tag(b), (Index::Place{0, 0}));
  EXPECT_EQ(index.find(b, [](std::uint64_t offset) { return offset == 200; }), (Index::Place{0, 1}));
  index.clear({0, 0});
  EXPECT_EQ(index.first_with_tag(b), (Index::Place{0, 1}));
}

TEST(Index, EvictsTheOldestOrByTag) {
  for (const Eviction eviction : {Eviction::oldest, Eviction::by_tag}) {
    Index index(1, 16, eviction);
    const auto live = [](std::uint64_t) { return true; };
    for (std::uint64_t i = 0; i < Index::ways; ++i) {
      const KeyHash key{i << 60, i};
      const Index::Room room = index.room(key, false, live);
      EXPECT_FALSE(room.evicts);
      index.set(key, room.place, i == 5 ? 7 : 100 + i);
    }
    const KeyHash late{0x3000'0000'0000'0000ULL | 0x0003'0000'0000'0000ULL, 9};
    const Index::Room room = index.room(late, false, live);
    EXPECT_TRUE(room.evicts);
    EXPECT_EQ(room.place.way, eviction == Eviction::oldest ? 5u : late.tag(16) % 8);
    // The log entry at offset 102 counts as overwritten, so that its slot, way 2, is free for a new entry.
    EXPECT_EQ(index.room(late, false, [](std::uint64_t offset) { return offset != 102; }).place.way, 2u);
  }
}

// Compares the partition with a std::map: for all value sizes, a GET returns the newest value or nothing. Log
// entries of keys are prefetched, and the keys changed afterwards.
void against_a_map(PartitionShape shape, std::uint64_t seed, std::uint64_t* found, std::uint64_t* wrong) {
  Rng rng(seed), prefetching(seed + 1'000);
  shape.value_bytes = 48;
  Partition partition(shape);
  std::map<std::uint64_t, std::vector<std::byte>> truth;
  std::array<std::byte, 48> read{};
  const auto key_of = [](std::uint64_t number) { return KeyHash{mix64(number), mix64(number + 77)}; };
  for (int i = 0; i < 4'000; ++i) {
    if (prefetching.chance(0.5)) partition.prefetch_entry(key_of(prefetching.below(24)));
    const std::uint64_t number = rng.below(24);
    const KeyHash key = key_of(number);
    const std::uint64_t draw = rng.below(10);
    if (draw < 4) {
      const auto value = bytes_of(static_cast<std::uint64_t>(i), rng.chance(0.7) ? 32 : 48);
      const auto size = static_cast<std::uint32_t>(value.size());
      ASSERT_TRUE(partition.put(key, value.data(), size, size));
      truth[number] = value;
    } else if (draw < 5) {
      partition.remove(key);
      truth.erase(number);
    } else if (const auto length = partition.get(key, read.data())) {
      ++*found;
      const auto known = truth.find(number);
      const bool is_right = known != truth.end() && known->second.size() == *length &&
                            std::memcmp(read.data(), known->second.data(), *length) == 0;
      *wrong += is_right ? 0 : 1;
    }
  }
}

TEST(Partition, ReadsTheNewestValueOrNothing) {
  for (const Eviction eviction : {Eviction::oldest, Eviction::by_tag}) {
    for (const std::uint64_t buckets : {1, 2, 64}) {
      for (const std::uint32_t tag_bits : {1, 16}) {
        for (const std::uint64_t log : {200, 456, 1 << 20}) {
          std::uint64_t found = 0, wrong = 0;
          against_a_map({.buckets = buckets, .log_bytes = log, .tag_bits = tag_bits, .eviction = eviction},
                        log, &found, &wrong);
          EXPECT_GT(found, 0u);
          EXPECT_EQ(wrong, 0u) << buckets << " buckets, " << log << " bytes, tags of " << tag_bits;
        }
      }
    }
  }
}

TEST(Partition, EveryKnownDefectIsSeen) {
  const auto wrongs = [](PartitionShape shape) {
    std::uint64_t found = 0, wrong = 0;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) against_a_map(shape, seed, &found, &wrong);
    return wrong;
  };
  EXPECT_GT(wrongs({.buckets = 1,
                    .log_bytes = 456,
                    .tag_bits = 1,
                    .log = {.checks_nothing = true, .wrap_underflows = false}}),
            0u);
  EXPECT_GT(wrongs({.buckets = 1,
                    .log_bytes = 456,
                    .tag_bits = 1,
                    .log = {.checks_nothing = false, .wrap_underflows = true}}),
            0u);
  EXPECT_GT(wrongs({.buckets = 1, .log_bytes = 1 << 20, .tag_bits = 1, .inserts_by_first_tag = true}), 0u);
}

TEST(Partition, RemembersWhatFits) {
  Partition partition({.buckets = 64, .log_bytes = 1 << 20, .value_bytes = 32});
  const auto value = bytes_of(1, 32);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_TRUE(partition.put({mix64(i), i}, value.data(), 32, 32));
  std::array<std::byte, 32> out{};
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(partition.get({mix64(i), i}, out.data()), 32u);
  EXPECT_EQ(partition.counts().evictions, 0u);
  EXPECT_TRUE(partition.remove({mix64(7), 7}));
  EXPECT_FALSE(partition.remove({mix64(7), 7}));
  EXPECT_FALSE(partition.get({mix64(7), 7}, out.data()).has_value());
}

TEST(Partition, AStoreForgetsNothingAndSaysWhenItIsFull) {
  const std::uint64_t entry = Log::entry_bytes(32);
  Partition partition({.buckets = 1, .log_bytes = 40 * entry, .value_bytes = 48, .is_lossless = true});
  const auto key = [](std::uint64_t i) { return KeyHash{mix64(i), i}; };
  std::array<std::byte, 48> out{};
  for (std::uint64_t i = 0; i < 40; ++i) EXPECT_TRUE(partition.put(key(i), bytes_of(i, 32).data(), 32, 32));
  EXPECT_FALSE(partition.put(key(40), bytes_of(40, 32).data(), 32, 32));
  EXPECT_TRUE(partition.put(key(7), bytes_of(107, 32).data(), 32, 32)) << "in place";
  for (std::uint64_t i = 0; i < 40; ++i) {
    ASSERT_EQ(partition.get(key(i), out.data()), 32u);
    EXPECT_EQ(std::memcmp(out.data(), bytes_of(i == 7 ? 107 : i, 32).data(), 32), 0);
  }
  EXPECT_FALSE(partition.get(key(40), out.data()).has_value());
  EXPECT_TRUE(partition.remove(key(3)));
  EXPECT_FALSE(partition.put(key(41), bytes_of(41, 48).data(), 48, 48)) << "another size";
  EXPECT_TRUE(partition.put(key(40), bytes_of(40, 32).data(), 32, 32));
  EXPECT_EQ(partition.counts().evictions, 0u);
}

// Known-bad stores with room for 20 entries forget keys that they have accepted; the test puts 40 keys and
// counts the forgotten ones.
TEST(Partition, AStoreThatWrapsOrEvictsForgets) {
  const std::uint64_t entry = Log::entry_bytes(32);
  const auto forgotten = [&](const PartitionShape& shape) {
    Partition partition(shape);
    std::array<std::byte, 48> out{};
    std::vector<std::uint64_t> taken;
    for (std::uint64_t i = 0; i < 40; ++i) {
      if (partition.put({mix64(i), i}, bytes_of(i, 32).data(), 32, 32)) taken.push_back(i);
    }
    return std::ranges::count_if(
        taken, [&](std::uint64_t i) { return !partition.get({mix64(i), i}, out.data()).has_value(); });
  };
  PartitionShape shape{.buckets = 1, .log_bytes = 20 * entry, .value_bytes = 48, .is_lossless = true};
  EXPECT_EQ(forgotten(shape), 0);
  shape.wraps_in_store_mode = true;
  EXPECT_EQ(forgotten(shape), 20);
  shape.wraps_in_store_mode = false;
  shape.evicts_in_store_mode = true;
  EXPECT_EQ(forgotten(shape), 12) << "a bucket has eight slots";
}

// ---- Settings -------------------------------------------------------------------------------------
kv::DeployConfig config() {
  kv::DeployConfig c;
  c.nodes = 3;
  c.server_workers = 2;
  c.client_workers = 2;
  c.window = 4;
  c.key_size = 16;
  c.value_size = c.kept_value_bytes = 32;
  c.keys = c.max_keys = 1'000;
  return c;
}

Result<Settings> decided(const kv::DeployConfig& c, const std::map<std::string, std::string>& given,
                         std::string_view mutant = {}) {
  kv::Options options(option_specs());
  for (const auto& [key, value] : given) LOCH_TRY(options.set(key, value));
  return decide(c, options, mutant);
}

TEST(Settings, RefusesInOneLine) {
  const auto message = [](const kv::DeployConfig& c, const std::map<std::string, std::string>& given = {},
                          std::string_view mutant = {}) {
    const auto settings = decided(c, given, mutant);
    return settings ? std::string("accepted") : settings.error().message;
  };
  kv::DeployConfig c = config();
  EXPECT_EQ(message(c), "accepted");
  c.window = 0;
  EXPECT_EQ(message(c), "--window 0: a herd client has at least 1 request slot to each server");
  c = config();
  c.server_workers = 0;
  EXPECT_NE(message(c).find("--servers 0"), std::string::npos);
  c = config();
  c.key_size = 0;
  EXPECT_EQ(message(c), "--key-size 0: a key has at least 1 byte");
  c = config();
  c.client_workers = 0;
  EXPECT_NE(message(c).find("--clients 0"), std::string::npos);
  c = config();
  c.value_size = c.kept_value_bytes = 5'000;
  EXPECT_NE(message(c).find("--value-size 5000"), std::string::npos);
  c.value_size = c.kept_value_bytes = 300;
  EXPECT_EQ(message(c), "accepted");
  EXPECT_NE(message(c, {{"herd.layout", "2016"}}).find("--value-size 300"), std::string::npos);
  EXPECT_NE(message(c, {{"herd.slot", "64"}}).find("--herd.slot 64"), std::string::npos);
  EXPECT_NE(message(c, {{"herd.batch", "8"}, {"herd.prefetch", "pipeline"}}).find("--herd.batch 8"),
            std::string::npos);
  EXPECT_NE(message(c, {{"herd.retry", "1s"}}).find("--herd.give-up"), std::string::npos);
  EXPECT_NE(message(c, {}, "no-such").find("mutant"), std::string::npos);
  for (const auto& [name, mutant] : mutants()) EXPECT_EQ(message(c, {}, name), "accepted");
  c.memory_bytes = 1'000;
  EXPECT_NE(message(c).find("--herd.log"), std::string::npos);
}

// HERD 2014, section 4.2: with 16 servers, 200 clients and 2 slots each, the request region has
// "approximately 6 MB" (6.25 MiB; `./loch calibrate` lists this published value as V154).
TEST(Settings, TheRequestRegionOfThePaper) {
  kv::DeployConfig c = config();
  c.nodes = 201;
  c.server_nodes = 1;
  c.server_workers = 16;
  c.client_workers = 1;
  c.window = 2;
  const auto settings = decided(c, {});
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->slot_at(16, 0), 16u * 200 * 2 * 1024);
}

TEST(Settings, EveryKeyHasOneServer) {
  kv::DeployConfig c = config();
  c.nodes = 5;
  c.server_nodes = 3;
  const auto settings = decided(c, {});
  ASSERT_TRUE(settings);
  std::map<std::uint32_t, int> keys;
  for (std::uint64_t i = 0; i < 6'000; ++i) {
    const KeyHash hash = hash_of({reinterpret_cast<const std::byte*>(&i), sizeof i}, true);
    EXPECT_NE(hash.second & 0xFF, 0u);
    ++keys[settings->server_of(hash)];
  }
  ASSERT_EQ(keys.size(), 6u);
  for (const auto& [server, count] : keys) {
    EXPECT_NEAR(count, 1'000, 150);
    EXPECT_LT(settings->node_of_server(server), 3);
  }
  EXPECT_EQ(settings->address_of_client(3).node, 4);
  EXPECT_EQ(settings->address_of_client(3).worker, 1);
}

}  // namespace
}  // namespace loch::herd
