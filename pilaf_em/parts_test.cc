// Tests byte layouts, checksum, buddy allocator and options.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>
#include <string_view>

#include "common/base/rng.h"
#include "pilaf_em/buddy.h"
#include "pilaf_em/checksum.h"
#include "pilaf_em/layout.h"
#include "pilaf_em/module.h"
#include "pilaf_em/settings.h"

namespace loch::pilaf {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

TEST(Checksum, IsCrc64Xz) {
  EXPECT_EQ(crc64(bytes_of("123456789")), 0x995dc9bbdf1939faULL);
  EXPECT_EQ(crc64(bytes_of("6789"), crc64(bytes_of("12345"))), 0x995dc9bbdf1939faULL);
  EXPECT_EQ(crc64({}), 0u);
}

TEST(Bucket, LiesAsPublished) {
  const Bucket bucket{.key_at = 0x0102030405060708,
                      .value_at = 0x1112131415161718,
                      .key_length = 0x21,
                      .value_length = 0x31,
                      .extent_crc = 0x4142434445464748,
                      .capacity = 0x51525354,
                      .is_used = true,
                      .hash = 0x2A};
  const BucketBytes bytes = encode(bucket);
  const auto at = [&](std::size_t i) { return std::to_integer<unsigned>(bytes[i]); };
  EXPECT_EQ(bytes.size(), 53u);
  EXPECT_EQ(at(0), 0x08u);
  EXPECT_EQ(at(8), 0x18u);
  EXPECT_EQ(at(16), 0x21u);
  EXPECT_EQ(at(24), 0x31u);
  EXPECT_EQ(at(32), 0x48u);
  EXPECT_EQ(at(40), 0x54u);
  EXPECT_EQ(at(44), 0x2Au * 2 + 1);
  Bucket read;
  ASSERT_TRUE(decode(bytes.data(), &read));
  EXPECT_EQ(read, bucket);
}

TEST(Bucket, AnyFlippedByteFailsTheGuard) {
  const Bucket bucket{
      .key_at = 4096, .value_at = 4112, .key_length = 16, .value_length = 100, .is_used = true};
  for (std::size_t i = 0; i < bucket_bytes; ++i) {
    BucketBytes bytes = encode(bucket);
    bytes[i] ^= std::byte{0x10};
    Bucket read;
    EXPECT_FALSE(decode(bytes.data(), &read)) << "byte " << i;
  }
}

TEST(Bucket, ZeroedMemoryIsNone) {
  const BucketBytes zeros{};
  Bucket bucket;
  EXPECT_FALSE(decode(zeros.data(), &bucket));
  const RootBytes nothing{};
  Root root;
  EXPECT_FALSE(decode(nothing.data(), &root));
}

TEST(Bucket, AClosedOneSaysSo) {
  Bucket read;
  ASSERT_TRUE(decode(encode(Bucket::closed()).data(), &read));
  EXPECT_TRUE(read.is_closed());
  ASSERT_TRUE(decode(encode(Bucket{}).data(), &read));
  EXPECT_FALSE(read.is_closed());
  EXPECT_FALSE(read.is_used);
}

TEST(Root, GoesThereAndBack) {
  const Root root{.version = 7, .epoch = 3, .table_at = 4711, .slots = 99, .extents_bytes = 1 << 20};
  RootBytes bytes = encode(root);
  Root read;
  ASSERT_TRUE(decode(bytes.data(), &read));
  EXPECT_EQ(read, root);
  bytes[16] ^= std::byte{1};
  EXPECT_FALSE(decode(bytes.data(), &read));
}

TEST(NumberSet, FindsItsLeast) {
  NumberSet set(100'000);
  EXPECT_FALSE(set.least().has_value());
  std::set<std::uint64_t> model;
  Rng rng(3);
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t number = rng.below(100'000);
    if (rng.chance(0.6)) {
      set.insert(number);
      model.insert(number);
    } else {
      set.erase(number);
      model.erase(number);
    }
    ASSERT_EQ(set.contains(number), model.contains(number));
    ASSERT_EQ(set.least(), model.empty() ? std::optional<std::uint64_t>() : *model.begin());
  }
}

TEST(Buddy, SplitsAndMerges) {
  BuddyAllocator arena(1024, 64);
  EXPECT_FALSE(arena.allocate(1).has_value());
  arena.extend(1024);
  EXPECT_EQ(arena.free_bytes(), 1024u);
  EXPECT_EQ(arena.block_of(65), 128u);
  constexpr std::uint64_t nowhere = 1024;
  const std::uint64_t a = arena.allocate(65).value_or(nowhere);
  const std::uint64_t b = arena.allocate(64).value_or(nowhere);
  const std::uint64_t c = arena.allocate(512).value_or(nowhere);
  ASSERT_EQ(a, 0u);
  ASSERT_EQ(b, 128u);
  ASSERT_EQ(c, 512u);
  EXPECT_FALSE(arena.allocate(512).has_value());
  EXPECT_EQ(arena.free_bytes(), 1024u - 128 - 64 - 512);
  arena.free(a, 65);
  arena.free(c, 512);
  EXPECT_FALSE(arena.allocate(1024).has_value());  // block b is not free yet, so the free blocks cannot merge
  arena.free(b, 64);
  EXPECT_EQ(arena.allocate(1024), std::optional<std::uint64_t>(0));
}

TEST(Buddy, GrowsAndMergesAcrossTheSeam) {
  BuddyAllocator arena(1 << 12, 64);
  arena.extend(1 << 10);
  EXPECT_FALSE(arena.allocate(1 << 11).has_value());
  arena.extend(1 << 11);
  EXPECT_EQ(arena.allocate(1 << 11), std::optional<std::uint64_t>(0));
  arena.extend((1 << 11) + 640);  // the added 640 bytes become blocks of 512 and 128
  EXPECT_EQ(arena.allocate(512), std::optional<std::uint64_t>(1 << 11));
  EXPECT_EQ(arena.allocate(128), std::optional<std::uint64_t>((1 << 11) + 512));
  EXPECT_EQ(arena.free_bytes(), 0u);
}

// Random allocations and frees: blocks never overlap, are aligned to their size, and merge to the whole arena
// at the end.
TEST(Buddy, KeepsBlocksApart) {
  constexpr std::uint64_t most = 1 << 16;
  BuddyAllocator arena(most, 8);
  arena.extend(most / 2);
  Rng rng(11);
  std::map<std::uint64_t, std::uint64_t> live;  // offset -> requested bytes
  for (int i = 0; i < 20'000; ++i) {
    if (i == 10'000) arena.extend(most);
    if (live.empty() || rng.chance(0.55)) {
      const std::uint64_t bytes = 1 + rng.below(rng.chance(0.1) ? 5'000 : 100);
      const auto at = arena.allocate(bytes);
      if (!at) continue;
      const std::uint64_t block = arena.block_of(bytes);
      ASSERT_EQ(*at % block, 0u);
      ASSERT_LE(*at + block, arena.arena_bytes());
      const auto next = live.lower_bound(*at);
      if (next != live.end()) ASSERT_GE(next->first, *at + block);
      if (next != live.begin()) {
        const auto before = std::prev(next);
        ASSERT_LE(before->first + arena.block_of(before->second), *at);
      }
      live[*at] = bytes;
    } else {
      auto gone = live.lower_bound(rng.below(most));
      if (gone == live.end()) gone = live.begin();
      arena.free(gone->first, gone->second);
      live.erase(gone);
    }
  }
  for (const auto& [at, bytes] : live) arena.free(at, bytes);
  EXPECT_EQ(arena.free_bytes(), most);
  EXPECT_EQ(arena.allocate(most), std::optional<std::uint64_t>(0));
}

TEST(BuddyDeathTest, ABlockIsFreedOnce) {
  BuddyAllocator arena(1024, 64);
  arena.extend(1024);
  ASSERT_EQ(arena.allocate(64), std::optional<std::uint64_t>(0));
  arena.free(0, 64);
  EXPECT_DEATH(arena.free(0, 64), "is free already|no block");
}

kv::DeployConfig small_shape() {
  kv::DeployConfig config;
  config.nodes = 2;
  config.client_workers = 1;
  config.server_workers = 1;
  config.key_size = 16;
  config.value_size = config.kept_value_bytes = 100;
  config.keys = config.max_keys = 100;
  return config;
}

std::string refusal(const std::map<std::string, std::string>& chosen, const kv::DeployConfig& config) {
  const auto module = make_module("pilaf");
  kv::Options options(module->options());
  for (const auto& [key, value] : chosen) EXPECT_TRUE(options.set(key, value).has_value()) << key;
  const auto deployed = module->deploy(config, options, "");
  return deployed.has_value() ? "" : deployed.error().message;
}

TEST(Options, ImpossibleOnesAreRefusedByName) {
  kv::DeployConfig config = small_shape();
  EXPECT_EQ(refusal({}, config), "");
  EXPECT_NE(refusal({{"pilaf.mend-p1", "true"}}, config).find("pilaf.mend-p1"), std::string::npos);
  EXPECT_NE(refusal({{"pilaf.variant", "em-opt"}, {"pilaf.log", "x"}}, config).find("pilaf.log"),
            std::string::npos);
  config.kept_value_bytes = 32;
  EXPECT_EQ(refusal({}, config), "");
  EXPECT_NE(refusal({{"pilaf.log", "x"}}, config).find("pilaf.log"), std::string::npos);
  config.server_workers = 0;
  EXPECT_NE(refusal({}, config).find("servers"), std::string::npos);
  config = small_shape();
  config.memory_bytes = 1000;
  EXPECT_NE(refusal({}, config).find("keys"), std::string::npos);
}

TEST(Module, SaysWhatItClaims) {
  const auto module = make_module("pilaf");
  kv::Options options(module->options());
  EXPECT_EQ(module->consistency(options), kv::Consistency::linearizable);
  EXPECT_TRUE(module->fixes(options).empty());
  EXPECT_FALSE(module->requirements(options).in_order_placement);
  ASSERT_TRUE(options.set("pilaf.variant", "published").has_value());
  EXPECT_EQ(module->fixes(options).size(), 3u);
  ASSERT_TRUE(options.set("pilaf.mend-p2", "true").has_value());
  EXPECT_EQ(module->fixes(options).size(), 2u);
  ASSERT_TRUE(options.set("pilaf.variant", "em-opt").has_value());
  EXPECT_EQ(module->consistency(options), kv::Consistency::none);
  EXPECT_TRUE(module->requirements(options).uc);
  const auto messages = make_module("pilaf-vo");
  const kv::Options plain(messages->options());
  EXPECT_TRUE(messages->requirements(plain).rc);
  for (const auto& [name, mutant] : module->mutants()) {
    Rules rules;
    rpc::MessageFlaws flaws;
    EXPECT_TRUE(apply_mutant(name, rules, flaws)) << name;
  }
}

}  // namespace
}  // namespace loch::pilaf
