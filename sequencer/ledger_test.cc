// Tests that the ledger detects numbers that were given out twice, numbers out of order, and numbers that the
// sequencer never gave out.
#include "sequencer/ledger.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace loch::sequencer {
namespace {

TEST(Ledger, ANumberMayBeGivenOnce) {
  Ledger ledger(100);
  EXPECT_EQ(ledger.beyond(), 100u);
  ledger.give(100, 100);
  ledger.give(102, 100);
  ledger.give(101, 100);
  EXPECT_EQ(ledger.beyond(), 103u);
  EXPECT_EQ(ledger.counts().twice, 0u);
  ledger.give(102, 100);
  EXPECT_EQ(ledger.counts().twice, 1u);
  EXPECT_EQ(ledger.counts().given, 4u);
  EXPECT_EQ(ledger.counts().out_of_order, 0u);
}

TEST(Ledger, ANumberLiesBeyondWhatWasGivenBeforeItWasAskedFor) {
  Ledger ledger(0);
  ledger.give(7, 0);
  ledger.give(6, 8);
  EXPECT_EQ(ledger.counts().out_of_order, 1u);
  EXPECT_EQ(ledger.counts().twice, 0u);
}

TEST(Ledger, ANumberThatNobodyGaveOutWillComeAgain) {
  Ledger ledger(0);
  ledger.give(7, 0, 8);
  EXPECT_EQ(ledger.counts().unclaimed, 0u);
  ledger.give(9, 0, 9);
  EXPECT_EQ(ledger.counts().unclaimed, 1u);
}

TEST(Ledger, NumbersBeforeTheFirstAndFarAwayAreCounted) {
  Ledger ledger(50);
  ledger.give(49, 0);
  EXPECT_EQ(ledger.counts().unclaimed, 1u);
  ledger.give(50 + (std::uint64_t{1} << 33), 0);  // a large number, still within the bitmap
  EXPECT_EQ(ledger.counts().far, 0u);
  ledger.give(std::uint64_t{1} << 40, 0);
  EXPECT_EQ(ledger.counts().far, 1u);
}

TEST(Ledger, ThreadsShareIt) {
  Ledger ledger(0);
  constexpr std::uint64_t each = 50'000, threads = 4;
  std::vector<std::thread> all;
  all.reserve(threads);
  for (std::uint64_t t = 0; t < threads; ++t) {
    all.emplace_back([&ledger, t] {
      for (std::uint64_t i = 0; i < each; ++i) ledger.give((i * threads + t) * 16, 0);
      ledger.give(t * 16, 0);  // this thread has given the number t * 16 already, at i = 0
    });
  }
  for (std::thread& thread : all) thread.join();
  EXPECT_EQ(ledger.counts().given, threads * (each + 1));
  EXPECT_EQ(ledger.counts().twice, threads);
}

}  // namespace
}  // namespace loch::sequencer
