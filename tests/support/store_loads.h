// Loads for a StoreCluster, each run by one slot of a client's window (Lane, hand.h); shared by tests of
// several protocols.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>

#include "tests/support/hand.h"

namespace loch::support {

struct Tally {
  std::atomic<std::uint64_t> ok{0}, not_found{0}, other{0}, torn{0}, foreign{0};
};

// A value's number is its key's number plus a multiple of `stride`, so that a GET that returns another key's
// value, or mixes two values, is detected.
constexpr std::uint64_t stride = 1'000'000;

inline coro::Task<void> work(Lane* lane, std::uint64_t keys, std::uint32_t operations, Tally* tally) {
  Rng& rng = lane->worker().rng();
  for (std::uint32_t i = 0; i < operations; ++i) {
    const std::uint64_t key = rng.below(keys), draw = rng.below(10);
    Lane::Outcome outcome;
    if (draw < 5) {
      outcome = co_await lane->get(key);
      if (outcome.is_torn) ++tally->torn;
      if (outcome.result.status == kv::OpStatus::ok && !outcome.is_torn && outcome.value % stride != key)
        ++tally->foreign;
    } else if (draw < 9) {
      outcome = co_await lane->put(key, key + stride * (1 + i));
    } else {
      outcome = co_await lane->remove(key);
    }
    if (outcome.result.status == kv::OpStatus::ok)
      ++tally->ok;
    else if (outcome.result.status == kv::OpStatus::not_found)
      ++tally->not_found;
    else
      ++tally->other;
  }
}

// Makes 300 pairs of a PUT and a GET, on four keys in turn. Counts in `wrong` the pairs in which the PUT or
// the GET failed, or the GET did not return the value just written.
inline coro::Task<void> write_and_read(Lane* lane, std::uint64_t first, std::uint64_t* wrong) {
  for (std::uint64_t i = 0; i < 300; ++i) {
    const std::uint64_t key = first + i % 4;
    const Lane::Outcome put = co_await lane->put(key, key + stride * i);
    const Lane::Outcome got = co_await lane->get(key);
    if (put.result.status != kv::OpStatus::ok || got.result.status != kv::OpStatus::ok || got.is_torn ||
        got.value != key + stride * i)
      ++*wrong;
  }
}

// PUTs keys 0 … keys-1 into an empty table; counts those refused because the table is full.
inline coro::Task<void> fill(Lane* lane, std::uint64_t keys, std::uint64_t* full) {
  for (std::uint64_t key = 0; key < keys; ++key) {
    const Lane::Outcome put = co_await lane->put(key, key);
    if (put.result.status == kv::OpStatus::table_full) {
      EXPECT_EQ(put.result.effect, kv::Effect::none);
      ++*full;
      const Lane::Outcome got = co_await lane->get(key);
      EXPECT_EQ(got.result.status, kv::OpStatus::not_found);
    }
  }
}

// Numbers of PUTs by their outcome while a node dies: unknown effect, error without effect, ok.
struct Deaths {
  std::uint64_t unknown = 0, errors = 0, ok = 0;
};
inline coro::Task<void> until_dead(Lane* lane, Deaths* seen) {
  for (std::uint64_t i = 0; i < 400; ++i) {
    const Lane::Outcome put = co_await lane->put(i % 24, i);
    if (put.result.status == kv::OpStatus::ok) ++seen->ok;
    if (put.result.effect == kv::Effect::unknown) ++seen->unknown;
    if (put.result.status == kv::OpStatus::error) {
      EXPECT_EQ(put.result.effect, kv::Effect::none);
      ++seen->errors;
    }
  }
}

}  // namespace loch::support
