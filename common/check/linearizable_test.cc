// Tests the checker on hand-written histories, each the smallest of its kind.
#include "common/check/linearizable.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace loch::check {
namespace {

using ::testing::HasSubstr;

// Builds a history operation by operation: client, interval, kind, value and outcome.
class Story {
 public:
  Story& put(std::string value, Nanos from, Nanos to, Outcome outcome = Outcome::ok) {
    return add(OpKind::put, outcome, std::move(value), from, to);
  }
  Story& put_lost(std::string value, Nanos from) {
    return add(OpKind::put, Outcome::unknown, std::move(value), from, std::nullopt);
  }
  Story& get(std::string value, Nanos from, Nanos to) {
    return add(OpKind::get, Outcome::ok, std::move(value), from, to);
  }
  Story& miss(Nanos from, Nanos to) { return add(OpKind::get, Outcome::not_found, std::nullopt, from, to); }
  Story& remove(Nanos from, Nanos to, Outcome outcome = Outcome::ok) {
    return add(OpKind::remove, outcome, std::nullopt, from, to);
  }
  Story& remove_lost(Nanos from) {
    return add(OpKind::remove, Outcome::unknown, std::nullopt, from, std::nullopt);
  }
  Story& lose(Nanos from, Nanos to) {
    operations_.push_back({preload_client, OpKind::lost, Outcome::ok, "n0", std::nullopt, from, to});
    return *this;
  }
  Story& preloaded() {
    operations_.push_back(
        {preload_client, OpKind::put, Outcome::ok, "k", std::string(preloaded_value), 0, 0});
    return *this;
  }
  Story& not_preloaded() {
    operations_.push_back({preload_client, OpKind::remove, Outcome::not_found, "k", std::nullopt, 0, 0});
    return *this;
  }

  [[nodiscard]] CheckReport report(CheckOptions options = {}) const {
    return check_operations(operations_, options);
  }
  [[nodiscard]] Verdict verdict(CheckOptions options = {}) const { return report(options).verdict(); }
  [[nodiscard]] std::string reason() const {
    const CheckReport r = report();
    return r.failures.empty() ? "" : r.failures.front().reason;
  }
  [[nodiscard]] std::size_t smallest() const { return report().failures.at(0).sub_history.size(); }

 private:
  Story& add(OpKind kind, Outcome outcome, std::optional<std::string> value, Nanos from,
             std::optional<Nanos> to) {
    operations_.push_back({next_client_++, kind, outcome, "k", std::move(value), from, to});
    return *this;
  }
  std::vector<Operation> operations_;
  std::int32_t next_client_ = 0;
};

constexpr auto holds = Verdict::holds;
constexpr auto violated = Verdict::violated;

// A node's loss may remove a key just before a PUT that, as a GET proves, takes effect while the loss still
// lasts.
TEST(Losses, ComeBeforeAValueThatIsProvenMeanwhile) {
  const auto told = [](Nanos lost_at) {
    return Story()
        .put("a", 1, 2)
        .lose(lost_at, 90)
        .miss(20, 32)
        .put("b", 25, 30)
        .get("b", 32, 40)
        .remove(38, 39);
  };
  EXPECT_EQ(told(10).verdict(), Verdict::holds);
  EXPECT_EQ(told(33).verdict(), Verdict::violated);  // the GET that missed returned before the loss began
}

TEST(Linearizable, ReadsOfTheLastValueHold) {
  EXPECT_EQ(Story().put("a", 1, 2).get("a", 3, 4).put("b", 5, 6).get("b", 7, 8).verdict(), holds);
  EXPECT_EQ(Story().put("a", 1, 2).put("b", 3, 9).get("a", 4, 5).get("b", 6, 7).verdict(), holds);
}

TEST(Linearizable, AStaleReadViolates) {
  const Story story = Story()
                          .put("z", 1, 2)
                          .get("z", 2, 3)
                          .put("a", 10, 11)
                          .put("b", 12, 13)
                          .get("a", 14, 15)
                          .put("c", 20, 21);
  EXPECT_EQ(story.verdict(), violated);
  EXPECT_EQ(story.smallest(), 3U);
  EXPECT_THAT(story.reason(), HasSubstr("PUT b (client 3, 12..13 ns) lies wholly within the time in which"));
}

TEST(Linearizable, ValuesReadInOppositeOrdersViolate) {
  const Story story = Story().put("a", 1, 20).put("b", 1, 20).get("a", 2, 3).get("b", 4, 5).get("a", 6, 7);
  EXPECT_EQ(story.verdict(), violated);
  EXPECT_EQ(Story().put("a", 1, 20).put("b", 1, 20).get("a", 2, 3).get("b", 4, 5).get("b", 6, 7).verdict(),
            holds);
}

TEST(Linearizable, TwoValuesAtOnceViolate) {
  const Story story = Story().put("a", 1, 5).put("b", 1, 5).get("a", 10, 11).get("b", 10, 11);
  EXPECT_EQ(story.verdict(), violated);
  EXPECT_THAT(story.reason(), HasSubstr("at the same time"));
}

TEST(Linearizable, AReadBeforeItsPutViolates) {
  const Story story = Story().get("a", 1, 2).put("a", 3, 4);
  EXPECT_EQ(story.verdict(), violated);
  EXPECT_THAT(story.reason(), HasSubstr("GET a (client 0, 1..2 ns) before PUT a (client 1, 3..4 ns) began"));
}

TEST(Linearizable, EqualTimesCountAsConcurrent) {
  EXPECT_EQ(Story().put("a", 1, 2).put("b", 2, 3).get("a", 3, 4).verdict(), holds);
}

TEST(Linearizable, ACorruptReadViolatesAndIsCounted) {
  const Story story = Story().put("a", 1, 2).get("corrupt:17", 3, 4).get("corrupt:18", 5, 6);
  EXPECT_EQ(story.verdict(), violated);
  EXPECT_EQ(story.report().corrupt_reads, 2U);
  EXPECT_EQ(story.smallest(), 1U);
  EXPECT_THAT(story.reason(), HasSubstr("no PUT of this key wrote that value"));
}

TEST(Linearizable, ALostPutMayTakeEffectAtAnyLaterTimeOrNever) {
  EXPECT_EQ(Story().put("a", 1, 2).put_lost("b", 3).get("a", 4, 5).get("b", 90, 91).verdict(), holds);
  EXPECT_EQ(Story().put("a", 1, 2).put_lost("b", 3).get("a", 90, 91).verdict(), holds);
  // A PUT with unknown outcome takes effect at most once.
  EXPECT_EQ(Story().put("a", 1, 2).put_lost("b", 3).get("b", 4, 5).put("c", 6, 7).get("b", 8, 9).verdict(),
            violated);
  EXPECT_EQ(Story().put("a", 1, 2).put_lost("b", 6).get("b", 4, 5).verdict(), violated);
}

TEST(Linearizable, AFailedPutNeverTakesEffect) {
  const Story story = Story().put("a", 1, 2).put("b", 3, 4, Outcome::failed).get("b", 5, 6);
  EXPECT_EQ(story.verdict(), violated);
  EXPECT_THAT(story.reason(), HasSubstr("the value of a failed PUT b"));
  EXPECT_EQ(Story().put("a", 1, 2).put("b", 3, 4, Outcome::failed).get("a", 5, 6).verdict(), holds);
}

TEST(Linearizable, AFalseMissViolates) {
  const Story story = Story().put("a", 1, 2).get("a", 3, 4).miss(5, 6).get("a", 7, 8);
  EXPECT_EQ(story.verdict(), violated);
  EXPECT_EQ(story.smallest(), 2U);
  const Story between = Story().put("a", 1, 20).get("a", 3, 4).miss(5, 6).get("a", 7, 8).remove(1, 20);
  EXPECT_THAT(between.reason(), HasSubstr("GET not_found (client 2, 5..6 ns) lies wholly within"));
  const Story last = Story().put("a", 1, 2).miss(5, 6);
  EXPECT_EQ(last.verdict(), violated);
  EXPECT_EQ(last.smallest(), 2U);
  EXPECT_THAT(last.reason(), HasSubstr("no order of the operations explains"));
}

TEST(Linearizable, MissesNeedADelete) {
  EXPECT_EQ(Story().put("a", 1, 2).remove(3, 10).miss(4, 5).get("a", 4, 5).verdict(), holds);
  EXPECT_EQ(Story().put("a", 1, 2).remove(3, 10).miss(4, 5).get("a", 6, 7).verdict(), violated);
  EXPECT_EQ(Story().put("a", 1, 2).remove_lost(3).get("a", 4, 5).miss(90, 91).miss(95, 96).verdict(), holds);
  EXPECT_EQ(Story().put("a", 1, 2).remove(3, 4, Outcome::failed).miss(5, 6).verdict(), violated);
}

TEST(Linearizable, ADeleteThatSaysOkRemovedSomething) {
  EXPECT_EQ(Story().put("a", 1, 2).remove(3, 4).remove(5, 6).verdict(), violated);
  EXPECT_EQ(Story().put("a", 1, 2).remove(3, 4).remove(5, 6, Outcome::not_found).verdict(), holds);
  EXPECT_EQ(Story().put("a", 1, 2).remove(3, 4, Outcome::not_found).verdict(), violated);
  EXPECT_EQ(Story().put("a", 1, 2).remove(3, 9).put("b", 3, 9).remove(3, 9).miss(10, 11).verdict(), holds);
  EXPECT_EQ(Story().put("a", 1, 2).remove(3, 9).put_lost("b", 3).remove(3, 9).miss(10, 11).verdict(), holds);
  const CheckOptions lenient{.delete_ok_removes = false};
  EXPECT_EQ(Story().put("a", 1, 2).remove(3, 4).remove(5, 6).miss(7, 8).verdict(lenient), holds);
  EXPECT_EQ(Story().put("a", 1, 2).remove(3, 4).remove(5, 6).get("a", 7, 8).verdict(lenient), violated);
}

TEST(Linearizable, ADeletedValueMayNotRiseAgain) {
  const Story story = Story().put("a", 1, 2).remove(3, 4).get("a", 5, 6);
  EXPECT_EQ(story.verdict(), violated);
  EXPECT_THAT(story.reason(), HasSubstr("DELETE ok (client 1, 3..4 ns) lies wholly within"));
  // A PUT that overlaps the DELETE may take effect after it.
  EXPECT_EQ(Story().put("a", 1, 4).remove(3, 5).get("a", 6, 7).verdict({.delete_ok_removes = false}), holds);
}

TEST(Linearizable, TheStartIsWhatTheLinesSay) {
  EXPECT_EQ(Story().get("init", 5, 6).verdict(), holds);
  EXPECT_EQ(Story().miss(5, 6).verdict(), holds);
  EXPECT_EQ(Story().miss(1, 2).get("init", 5, 6).verdict(), violated);
  EXPECT_EQ(Story().preloaded().get("init", 5, 6).put("a", 7, 8).get("init", 9, 10).verdict(), violated);
  EXPECT_EQ(Story().preloaded().miss(5, 6).verdict(), violated);
  EXPECT_EQ(Story().preloaded().remove(1, 2).miss(5, 6).verdict(), holds);
  EXPECT_EQ(Story().not_preloaded().remove(1, 2).verdict(), violated);
  EXPECT_EQ(Story().not_preloaded().get("init", 1, 2).report().corrupt_reads, 1U);
  EXPECT_EQ(Story().miss(5, 6).verdict({.initial = Initial::present}), violated);
  EXPECT_EQ(Story().get("init", 5, 6).verdict({.initial = Initial::absent}), violated);
}

TEST(Linearizable, ValuesPutTwiceAreSearchedExactly) {
  EXPECT_EQ(Story().put("a", 1, 2).put("b", 3, 4).put("a", 5, 6).get("a", 7, 8).verdict(), holds);
  EXPECT_EQ(Story().put("a", 1, 2).put("b", 3, 4).put("a", 5, 6).get("b", 7, 8).verdict(), violated);
}

TEST(Linearizable, TheSearchGivesUpAtItsLimit) {
  Story story;
  for (Nanos i = 0; i < 40; ++i) story.put("same", 1 + i, 100 + i);
  story.get("same", 1, 200);
  EXPECT_EQ(story.verdict({.search_limit = 100}), Verdict::undecided);
}

TEST(Linearizable, AWrittenAheadLineGivesWayToItsAnswer) {
  Story story;
  story.put_lost("a", 1);
  const Operation ahead{7, OpKind::put, Outcome::unknown, "k", "b", 5, std::nullopt};
  Operation answered = ahead;
  answered.outcome = Outcome::failed;
  answered.return_ns = 9;
  const Operation read{8, OpKind::get, Outcome::ok, "k", "b", 10, 11};
  EXPECT_EQ(check_operations(std::vector{ahead, answered, read}, {}).verdict(), violated);
  EXPECT_EQ(check_operations(std::vector{ahead, read}, {}).verdict(), holds);
  EXPECT_EQ(check_operations(std::vector{ahead, ahead, read}, {}).verdict(), holds);
}

TEST(LossyCache, MayMissButNotBeStale) {
  const CheckOptions lossy{.model = Model::lossy_cache};
  EXPECT_EQ(Story().put("a", 1, 2).miss(3, 4).get("a", 5, 6).verdict(lossy), holds);
  EXPECT_EQ(Story().put("a", 1, 2).put("b", 3, 4).get("a", 5, 6).verdict(lossy), violated);
  EXPECT_EQ(Story().put("a", 1, 2).remove(3, 4).get("a", 5, 6).verdict(lossy), violated);
  EXPECT_EQ(Story().put("a", 1, 2).remove(3, 4).remove(5, 6).miss(7, 8).verdict(lossy), holds);
  EXPECT_EQ(Story().get("corrupt", 1, 2).verdict(lossy), violated);
}

TEST(NoModel, JudgesNothing) {
  EXPECT_EQ(Story().get("corrupt", 1, 2).verdict({.model = Model::none}), holds);
}

TEST(Models, HaveNames) {
  EXPECT_EQ(parse_model("lossy-cache").value(), Model::lossy_cache);
  const auto wrong = parse_model("serial");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message, "--model serial: expected linearizable, lossy-cache or none");
}

// A violation in a history of thousands of operations is reduced to at most four.
TEST(Minimise, FindsTheFewThatMatter) {
  Story story;
  for (Nanos i = 0; i < 4'000; ++i) {
    const std::string value = "v" + std::to_string(i);
    story.put(value, 10 * i + 1, 10 * i + 4).get(value, 10 * i + 5, 10 * i + 6);
    if (i % 7 == 0) story.remove(10 * i + 7, 10 * i + 8).miss(10 * i + 9, 10 * i + 9);
  }
  story.get("v2000", 30'005, 30'006);  // reads a value that 1,000 later PUTs have replaced
  EXPECT_EQ(story.verdict(), violated);
  EXPECT_LE(story.smallest(), 4U);
  Story missed;
  for (Nanos i = 0; i < 4'000; ++i) missed.put("v" + std::to_string(i), 10 * i + 1, 10 * i + 4);
  missed.miss(25'005, 25'006);
  EXPECT_EQ(missed.smallest(), 2U);
}

// The table of keys compares 32 bits of their hashes first, in which some of so many keys agree.
TEST(Keys, WhoseHashesAgreeAreDifferentKeys) {
  constexpr std::uint32_t keys = 300'000;
  std::vector<Operation> operations;
  for (std::uint32_t key = 0; key < keys; ++key)
    operations.push_back({1, OpKind::get, Outcome::not_found, fmt::format("user{}", key), {}, key, key});
  EXPECT_EQ(check_operations(operations, {}).keys, keys);
}

// The checker packs names such as "w3.17" into a few bits. Names that do not fit, or that only resemble them,
// are values of their own.
TEST(Values, OfAllFormsAreTheirOwn) {
  const std::vector<std::string> names = {"init",
                                          "w0.0",
                                          "w1.0",
                                          "w0.1",
                                          "w01.0",
                                          "w1.00",
                                          "w1048575.1",
                                          "w1048576.1",
                                          "w0.1048577",
                                          "w2.68719476736",
                                          "w2.137438953471",
                                          "w2.137438953472",
                                          "w2.0",
                                          "w1048575.137438953471",
                                          "w1048575.137438953470",
                                          "w18446744073709551615.18446744073709551615",
                                          "w.1",
                                          ""};
  for (const std::string& put : names) {
    for (const std::string& read : names) {
      const std::vector<Operation> operations = {{1, OpKind::put, Outcome::ok, "k", put, 0, 1},
                                                 {2, OpKind::get, Outcome::ok, "k", read, 2, 3}};
      const CheckReport report = check_operations(operations, {.initial = Initial::absent});
      EXPECT_EQ(report.verdict() == Verdict::holds, put == read) << put << ", then " << read;
      if (put == read) continue;
      ASSERT_EQ(report.failures.size(), 1U);
      ASSERT_FALSE(report.failures[0].sub_history.empty());
      EXPECT_EQ(report.failures[0].sub_history.back().value, read);
    }
  }
}

}  // namespace
}  // namespace loch::check
