// Tests which symptom, such as a stale read, is found in small histories.
#include "app/fuzz/cause.h"

#include <gtest/gtest.h>

#include <vector>

namespace loch::fuzz {
namespace {

using check::Operation;

Operation get(const std::optional<std::string>& value, Nanos from, Nanos to) {
  return {.client = 1,
          .kind = OpKind::get,
          .outcome = value ? Outcome::ok : Outcome::not_found,
          .key = "k",
          .value = value,
          .invoke_ns = from,
          .return_ns = to};
}
Operation put(std::string value, Nanos from, Nanos to, Outcome outcome = Outcome::ok) {
  return {.client = 2,
          .kind = OpKind::put,
          .outcome = outcome,
          .key = "k",
          .value = std::move(value),
          .invoke_ns = from,
          .return_ns = to};
}
Operation remove(Nanos from, Nanos to, Outcome outcome = Outcome::ok) {
  return {.client = 3,
          .kind = OpKind::remove,
          .outcome = outcome,
          .key = "k",
          .value = std::nullopt,
          .invoke_ns = from,
          .return_ns = to};
}
Symptom of(std::vector<Operation> history) { return symptom_of(history, "k"); }

TEST(Symptom, AMissBetweenTwoSightings) {
  EXPECT_EQ(of({put("a", 1, 2), get(std::nullopt, 3, 4), get("a", 5, 6)}), Symptom::false_not_found);
  EXPECT_EQ(of({get(std::nullopt, 3, 4), get("init", 5, 6)}), Symptom::false_not_found);
  // The key was written again between the miss and the later GET, so that GET does not show that the first
  // value was present.
  EXPECT_EQ(of({put("a", 1, 2), remove(2, 3), get(std::nullopt, 3, 4), put("b", 4, 5), get("b", 5, 6)}),
            Symptom::none);
}

TEST(Symptom, AValueThatVanished) {
  EXPECT_EQ(of({put("a", 1, 2), get(std::nullopt, 3, 4)}), Symptom::lost_update);
  EXPECT_EQ(of({put("a", 1, 2), remove(1, 3, Outcome::failed), get(std::nullopt, 3, 4)}),
            Symptom::lost_update);
  EXPECT_EQ(of({put("a", 1, 2), remove(1, 3, Outcome::unknown), get(std::nullopt, 3, 4)}), Symptom::none);
  // The DELETE ended before a GET returned the value, so it cannot have caused the later miss.
  EXPECT_EQ(of({remove(1, 3), put("a", 1, 5), get("a", 6, 7), get(std::nullopt, 8, 9)}),
            Symptom::lost_update);
}

TEST(Symptom, AnOlderValueAfterANewer) {
  EXPECT_EQ(of({put("a", 1, 2), put("b", 3, 4), get("a", 5, 6)}), Symptom::stale_read);
  EXPECT_EQ(of({put("a", 1, 2), put("b", 3, 6), get("a", 5, 7)}), Symptom::none);
  EXPECT_EQ(of({put("a", 1, 2), put("b", 3, 4, Outcome::failed), get("a", 5, 6)}), Symptom::none);
}

TEST(Symptom, OtherKeysDoNotCount) {
  Operation other = get("a", 5, 6);
  other.key = "z";
  EXPECT_EQ(symptom_of(std::vector{put("a", 1, 2), other}, "z"), Symptom::none);
}

TEST(Cause, FollowsTheCounters) {
  using Counters = std::map<std::string, double>;
  EXPECT_TRUE(cause_of(Symptom::lost_update, Counters{{"removed_then_aborted", 2}}).starts_with("H1"));
  EXPECT_TRUE(cause_of(Symptom::stale_read, Counters{{"removed_then_aborted", 2}}).starts_with("H1"));
  EXPECT_TRUE(cause_of(Symptom::false_not_found, Counters{{"migrations", 2}}).starts_with("H2"));
  EXPECT_TRUE(cause_of(Symptom::lost_update, Counters{{"migrations", 2}}).starts_with("H2"));
  EXPECT_EQ(cause_of(Symptom::lost_update, Counters{}), "lost update");
  EXPECT_EQ(cause_of(Symptom::none, Counters{{"migrations", 2}}), "");
}

}  // namespace
}  // namespace loch::fuzz
