// Tests a node's cache of remote entries: eviction, expiry, and pins, which keep an entry from being evicted.
#include "common/kv/word_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

namespace loch::kv {
namespace {

// With the parameter true, entries are cached by insert(), else by reserve() and publish().
class WordCacheTest : public ::testing::TestWithParam<bool> {
 protected:
  const bool at_once = GetParam();
  void insert(WordCache& cache, std::uint64_t word, Nanos now, Nanos expiry) {
    if (at_once) {
      return cache.insert(word, now, expiry, [&](std::byte* key, std::byte* value) {
        std::memcpy(key, &word, 8);
        std::memcpy(value, &word, 8);
      });
    }
    WordCache::Pin pin = cache.reserve(word, now);
    ASSERT_TRUE(bool{pin});
    std::memcpy(pin.key(), &word, 8);
    std::memcpy(pin.value(), &word, 8);
    cache.publish(pin, word, expiry);
  }
};

TEST_P(WordCacheTest, EvictsTheLeastRecentlyUsed) {
  WordCache cache(4, 8, 8);
  for (std::uint64_t word = 1; word <= 4; ++word) insert(cache, word, 0, 100);
  EXPECT_TRUE(bool{cache.find(1, 1, 100)});
  insert(cache, 5, 1, 100);
  EXPECT_EQ(cache.size(), 4u);
  EXPECT_FALSE(bool{cache.find(2, 1, 100)});
  WordCache::Pin one = cache.find(1, 1, 100);
  ASSERT_TRUE(bool{one});
  std::uint64_t stored = 0;
  std::memcpy(&stored, one.value(), 8);
  EXPECT_EQ(stored, 1u);
}

TEST_P(WordCacheTest, ExpiresAndExtends) {
  WordCache cache(4, 8, 8);
  insert(cache, 7, 0, 100);
  EXPECT_TRUE(bool{cache.find(7, 99, 150)});    // a hit at time 99 extends the expiry from 100 to 150
  EXPECT_TRUE(bool{cache.find(7, 149, 120)});   // the hit's expiry of 120 does not shorten the present one
  EXPECT_FALSE(bool{cache.find(7, 150, 500)});  // at its expiry time the entry is not found
  EXPECT_FALSE(bool{cache.find(7, 10, 500)});
  insert(cache, 7, 200, 300);
  EXPECT_TRUE(bool{cache.find(7, 250, 300)});
}

TEST_P(WordCacheTest, PinnedEntriesAreNotEvicted) {
  WordCache cache(2, 8, 8);
  insert(cache, 1, 0, 100);
  insert(cache, 2, 0, 100);
  WordCache::Pin one = cache.find(1, 0, 100);
  WordCache::Pin two = cache.find(2, 0, 100);
  EXPECT_FALSE(bool{cache.reserve(3, 0)});
  one.release();
  insert(cache, 3, 0, 100);
  EXPECT_FALSE(bool{cache.find(1, 0, 100)});
  EXPECT_TRUE(bool{cache.find(2, 0, 100)});
}

// Threads that cache and find words of one shard at the same time neither lose nor mix up entries.
TEST_P(WordCacheTest, ThreadsShareAShard) {
  constexpr std::uint64_t words = 24, rounds = 2'000;
  WordCache cache(16, 8, 8);
  std::atomic<std::uint64_t> hits = 0, wrong = 0;
  const auto work = [&](std::uint64_t first) {
    for (std::uint64_t i = 0; i < rounds; ++i) {
      const std::uint64_t word = 1 + mix64(first + i) % words;
      std::uint64_t stored = word;
      if (const WordCache::Pin hit = cache.find(word, 0, 100); hit) {
        std::memcpy(&stored, hit.value(), 8);
        ++hits;
      } else if (at_once) {
        insert(cache, word, 0, 100);
      } else if (WordCache::Pin pin = cache.reserve(word, 0); pin) {
        std::memcpy(pin.key(), &word, 8);
        std::memcpy(pin.value(), &word, 8);
        cache.publish(pin, word, 100);
      }
      if (stored != word) ++wrong;
    }
  };
  std::thread other(work, rounds);
  work(0);
  other.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_LE(cache.size(), 16u);
  EXPECT_GT(hits, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, WordCacheTest, ::testing::Bool());

}  // namespace
}  // namespace loch::kv
