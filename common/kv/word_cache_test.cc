// Tests a node's cache of remote entries: eviction, expiry, and pins, which keep an entry from being evicted.
#include "common/kv/word_cache.h"

#include <gtest/gtest.h>

#include <cstring>

namespace loch::kv {
namespace {

class WordCacheTest : public ::testing::Test {
 protected:
  void insert(WordCache& cache, std::uint64_t word, Nanos now, Nanos expiry) {
    WordCache::Pin pin = cache.reserve(word, now);
    ASSERT_TRUE(bool{pin});
    std::memcpy(pin.key(), &word, 8);
    std::memcpy(pin.value(), &word, 8);
    cache.publish(pin, word, expiry);
  }
};

TEST_F(WordCacheTest, EvictsTheLeastRecentlyUsed) {
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

TEST_F(WordCacheTest, ExpiresAndExtends) {
  WordCache cache(4, 8, 8);
  insert(cache, 7, 0, 100);
  EXPECT_TRUE(bool{cache.find(7, 99, 150)});    // a hit at time 99 extends the expiry from 100 to 150
  EXPECT_TRUE(bool{cache.find(7, 149, 120)});   // the hit's expiry of 120 does not shorten the present one
  EXPECT_FALSE(bool{cache.find(7, 150, 500)});  // at its expiry time the entry is not found
  EXPECT_FALSE(bool{cache.find(7, 10, 500)});
  insert(cache, 7, 200, 300);
  EXPECT_TRUE(bool{cache.find(7, 250, 300)});
}

TEST_F(WordCacheTest, PinnedEntriesAreNotEvicted) {
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

}  // namespace
}  // namespace loch::kv
