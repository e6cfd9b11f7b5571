// Tests how the time is measured for which a NIC gives no completion although requests are outstanding.
#include "common/fabric/verbs/silence.h"

#include <gtest/gtest.h>

namespace loch::fabric::verbs {
namespace {

constexpr Nanos second = 1'000'000'000;

// Polls without finding a completion until `silence` has read the clock once, which shows `at`. Returns
// whether the silence has then lasted too long.
bool look(Silence& silence, Nanos at) {
  bool is_over = false;
  for (std::uint32_t i = 0; i < Silence::polls_per_look; ++i) is_over = silence.is_over([at] { return at; });
  return is_over;
}

TEST(Silence, IsOverAfterItsTime) {
  Silence silence(3 * second);
  for (Nanos at = 0; at <= 3 * second; at += second / 2) EXPECT_FALSE(look(silence, at)) << at;
  EXPECT_TRUE(look(silence, 7 * second / 2));
}

TEST(Silence, ACompletionEndsIt) {
  Silence silence(3 * second);
  for (Nanos at = 0; at <= 3 * second; at += second) EXPECT_FALSE(look(silence, at));
  silence.end();
  EXPECT_FALSE(look(silence, 4 * second));
  EXPECT_FALSE(look(silence, 5 * second));
}

TEST(Silence, AProcessThatWasStoppedDoesNotBlameTheNic) {
  Silence silence(3 * second);
  EXPECT_FALSE(look(silence, 0));
  EXPECT_FALSE(look(silence, 3600 * second));
  EXPECT_FALSE(look(silence, 3601 * second));
}

}  // namespace
}  // namespace loch::fabric::verbs
