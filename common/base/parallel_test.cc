// Tests that parts of work are each done once, by as many threads as asked for, and that errors are told.
#include "common/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

namespace loch {
namespace {

TEST(InParallel, EachPartIsDoneOnce) {
  for (const std::size_t threads : {1, 2, 5, 100}) {
    std::vector<std::atomic<int>> done(37);
    ASSERT_TRUE(in_parallel(done.size(), threads, [&](std::size_t i) -> Result<> {
      ++done[i];
      return {};
    }));
    for (const auto& each : done) EXPECT_EQ(each, 1);
  }
  EXPECT_TRUE(in_parallel(0, 4, [](std::size_t) { return fail(ErrorCode::internal, "no part"); }));
}

// Each part waits until all have begun, which one thread alone could not end.
TEST(InParallel, PartsRunAtTheSameTime) {
  constexpr std::size_t threads = 3;
  std::barrier all_there(threads);
  EXPECT_TRUE(in_parallel(threads, threads, [&](std::size_t) -> Result<> {
    all_there.arrive_and_wait();
    return {};
  }));
}

TEST(InParallel, OneThreadIsTheCallers) {
  const auto caller = std::this_thread::get_id();
  std::vector<std::size_t> order;
  EXPECT_TRUE(in_parallel(4, 1, [&](std::size_t i) -> Result<> {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    order.push_back(i);
    return {};
  }));
  EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2, 3}));
}

TEST(InParallel, TheLowestPartsErrorIsReturned) {
  std::atomic<std::size_t> begun = 0;
  std::atomic<bool> has_third_failed = false;
  const Result<> result = in_parallel(1'000'000, 2, [&](std::size_t i) -> Result<> {
    ++begun;
    if (i == 2) {  // ends after part 3 has failed
      while (!has_third_failed) std::this_thread::yield();
      return fail(ErrorCode::exhausted, "part 2");
    }
    if (i < 3) return {};
    has_third_failed = true;
    return fail(ErrorCode::exhausted, "a later part");
  });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "part 2");
  EXPECT_LT(begun, 1'000U) << "parts begin after one has failed";
}

TEST(UsableCores, ThereIsOne) { EXPECT_GE(usable_cores(), 1U); }

}  // namespace
}  // namespace loch
