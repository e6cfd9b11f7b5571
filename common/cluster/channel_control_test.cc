// Tests meetings (collective calls), losses and returns of ranks over an in-memory network with delays.
#include "common/cluster/channel_control.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <mutex>

#include "common/cluster/memory_channel.h"

namespace loch::cluster {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
constexpr Nanos plenty = 20'000'000'000, little = 100'000'000;

std::vector<std::string> hosts_of(std::uint32_t ranks) {
  std::vector<std::string> hosts;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) hosts.push_back(fmt::format("host{}", rank));
  return hosts;
}

// Runs `work` for every rank of a cluster of `ranks` ranks, each in a thread of its own.
void in_ranks(MemoryNetwork& network, std::uint32_t ranks, const std::function<void(ChannelControl&)>& work) {
  std::vector<std::unique_ptr<ChannelControl>> controls;
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    controls.push_back(std::make_unique<ChannelControl>(network.channel(rank), rank, hosts_of(ranks)));
  std::vector<std::thread> threads;
  for (const auto& control : controls) threads.emplace_back([&work, &control] { work(*control); });
  for (std::thread& thread : threads) thread.join();
}

void wait_until(const std::function<bool()>& condition) {
  for (int i = 0; i < 20'000 && !condition(); ++i) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(condition());
}

TEST(ChannelControl, EveryoneGetsEverythingWhateverTheDelays) {
  constexpr std::uint32_t ranks = 5;
  for (unsigned seed = 1; seed <= 3; ++seed) {
    MemoryNetwork network(ranks, 3ms, seed);
    std::atomic<int> arrived[20] = {};
    in_ranks(network, ranks, [&](ChannelControl& control) {
      for (int round = 0; round < 20; ++round) {
        const auto all = control.all_gather("words", fmt::format("{}.{}", round, control.rank()), plenty);
        ASSERT_TRUE(all.has_value()) << all.error().message;
        for (std::uint32_t rank = 0; rank < ranks; ++rank)
          EXPECT_EQ((*all)[rank], fmt::format("{}.{}", round, rank));
        ++arrived[round];
        const auto ok = control.barrier("together", plenty);
        ASSERT_TRUE(ok.has_value()) << ok.error().message;
        // no rank leaves the barrier before all have come
        EXPECT_EQ(arrived[round], static_cast<int>(ranks));
      }
      EXPECT_EQ(control.dropped(), 0U);
    });
  }
}

TEST(ChannelControl, AGatherIsForRankZeroAndTheOthersGoOn) {
  MemoryNetwork network(3, 2ms);
  in_ranks(network, 3, [](ChannelControl& control) {
    for (int round = 0; round < 200; ++round) {
      const auto got = control.gather("results", fmt::format("{}:{}", control.rank(), round), plenty);
      ASSERT_TRUE(got.has_value());
      if (control.rank() == 0) {
        EXPECT_THAT(*got, ElementsAre(fmt::format("0:{}", round), fmt::format("1:{}", round),
                                      fmt::format("2:{}", round)));
      } else {
        EXPECT_TRUE(got->empty());
      }
    }
  });
}

TEST(ChannelControl, NamesWhoIsMissingAndWhere) {
  MemoryNetwork network(4);
  in_ranks(network, 4, [](ChannelControl& control) {
    if (control.rank() == 1 || control.rank() == 3) return;
    const auto ok = control.barrier("tables laid out", little);
    ASSERT_FALSE(ok.has_value());
    EXPECT_EQ(ok.error().code, ErrorCode::timed_out);
    EXPECT_EQ(ok.error().message,
              "tables laid out: no word within 100ms from rank 1 (host1), rank 3 (host3)");
  });
}

TEST(ChannelControl, AfterALateComerTheNextMeetingIsHeld) {
  MemoryNetwork network(3);
  std::atomic<int> gave_up = 0;
  in_ranks(network, 3, [&](ChannelControl& control) {
    if (control.rank() == 2) wait_until([&] { return gave_up == 2; });
    const auto first = control.barrier("first", little);
    ++gave_up;
    // only rank 2's call succeeds: it came last and found the parts of the other ranks, whose calls had timed
    // out
    EXPECT_EQ(first.has_value(), control.rank() == 2);
    const auto second = control.all_gather("second", fmt::format("{}", control.rank()), plenty);
    ASSERT_TRUE(second.has_value()) << second.error().message;
    EXPECT_THAT(*second, ElementsAre("0", "1", "2"));
  });
}

TEST(ChannelControl, ALostRankIsNotWaitedFor) {
  MemoryNetwork network(3, 1ms);
  in_ranks(network, 3, [&](ChannelControl& control) {
    std::atomic<int> losses = 0;
    control.on_lost([&](std::uint32_t rank) {
      EXPECT_EQ(rank, 1U);
      EXPECT_TRUE(control.is_lost(1));
      ++losses;
    });
    ASSERT_TRUE(control.barrier("begin", plenty).has_value());
    if (control.rank() == 1) {
      // gives the other ranks time to call all_gather() and wait for this rank
      std::this_thread::sleep_for(50ms);
      network.end({1, Fate::killed, 9});
      return;
    }
    EXPECT_FALSE(control.is_lost(1) && control.is_lost(2));
    const auto all = control.all_gather("rest", fmt::format("{}", control.rank()), plenty);
    ASSERT_TRUE(all.has_value()) << all.error().message;
    EXPECT_THAT(*all, ElementsAre("0", "", "2"));
    EXPECT_TRUE(control.is_lost(1));
    EXPECT_FALSE(control.is_lost(control.rank()));
    ASSERT_TRUE(control.gather("end", "x", plenty).has_value());
    wait_until([&] { return losses == 1; });
    control.send(1, "into the void");
    control.on_lost({});
  });
}

TEST(ChannelControl, WhatALostRankHadSaidCounts) {
  MemoryNetwork network(2);
  in_ranks(network, 2, [&](ChannelControl& control) {
    if (control.rank() == 1) {
      EXPECT_FALSE(control.all_gather("words", "last word", 0).has_value());
      network.end({1, Fate::silent, 0});
      return;
    }
    wait_until([&] { return control.is_lost(1); });
    const auto all = control.all_gather("words", "mine", plenty);
    ASSERT_TRUE(all.has_value());
    EXPECT_THAT(*all, ElementsAre("mine", "last word"));
  });
}

TEST(ChannelControl, WhoHasEndedIsNotLostButAnErrorWhereItWasExpected) {
  MemoryNetwork network(2);
  in_ranks(network, 2, [&](ChannelControl& control) {
    ASSERT_TRUE(control.gather("results", "r", plenty).has_value());
    if (control.rank() == 1) return network.end({1, Fate::ended, 3});
    const auto ok = control.barrier("after", plenty);
    ASSERT_FALSE(ok.has_value());
    EXPECT_EQ(ok.error().code, ErrorCode::unavailable);
    EXPECT_EQ(ok.error().message, "after: rank 1 (host1) has ended with exit status 3 before it came here");
    EXPECT_FALSE(control.is_lost(1));
  });
}

TEST(ChannelControl, DifferentMeetingsAreAnErrorThatNamesBoth) {
  MemoryNetwork network(2);
  in_ranks(network, 2, [](ChannelControl& control) {
    const Result<> ok =
        control.rank() == 0 ? control.barrier("this", plenty) : control.barrier("that", plenty);
    ASSERT_FALSE(ok.has_value());
    EXPECT_EQ(ok.error().code, ErrorCode::internal);
    EXPECT_THAT(ok.error().message, testing::AllOf(HasSubstr("\"this\""), HasSubstr("\"that\"")));
  });
}

TEST(ChannelControl, MessagesComeInOrderAndWaitForTheirHandler) {
  MemoryNetwork network(3, 2ms);
  in_ranks(network, 3, [](ChannelControl& control) {
    constexpr int count = 200;
    for (int i = 0; i < count; ++i) {
      for (std::uint32_t to = 0; to < 3; ++to) {
        if (to != control.rank()) control.send(to, std::to_string(i));
      }
    }
    std::this_thread::sleep_for(20ms);
    std::array<std::atomic<int>, 3> next{};
    control.on_message([&](std::uint32_t from, std::string_view text) {
      EXPECT_EQ(text, std::to_string(next[from]));
      ++next[from];
    });
    ASSERT_TRUE(control.barrier("sent", plenty).has_value());
    for (std::uint32_t from = 0; from < 3; ++from)
      wait_until([&] { return next[from] == (from == control.rank() ? 0 : count); });
    control.on_message({});
  });
}

TEST(ChannelControl, WhenAHandlerIsTakenAwayItRunsNoMore) {
  MemoryNetwork network(2);
  ChannelControl control(network.channel(0), 0, hosts_of(2));
  std::atomic<bool> is_inside = false, is_out = false;
  control.on_message([&](std::uint32_t, std::string_view) {
    is_inside = true;
    std::this_thread::sleep_for(50ms);
    is_out = true;
  });
  network.inject(Kind::text, 1, 0, "x");
  wait_until([&] { return is_inside.load(); });
  control.on_message({});
  EXPECT_TRUE(is_out);
}

TEST(ChannelControl, DropsAndCountsNonsense) {
  MemoryNetwork network(2);
  ChannelControl control(network.channel(0), 0, hosts_of(2));
  network.inject(Kind::part, 1, 0, "short");
  network.inject(Kind::part, 1, 0, to_bytes(Part{1'000'000, Meeting::barrier, "far ahead", ""}));
  network.inject(Kind::heartbeat, 1, 0, "");
  network.inject(Kind::part, 1, 0, to_bytes(Part{0, Meeting::barrier, "now", ""}));
  network.inject(Kind::part, 1, 0, to_bytes(Part{0, Meeting::barrier, "now", "twice"}));
  wait_until([&] { return control.dropped() == 4; });
  EXPECT_TRUE(control.barrier("now", plenty).has_value());
}

TEST(ChannelControl, AloneItMeetsItself) {
  MemoryNetwork network(1);
  ChannelControl control(network.channel(0), 0, {"here"});
  EXPECT_THAT(control.all_gather("a", "x", 0).value(), ElementsAre("x"));
  EXPECT_THAT(control.gather("b", "y", 0).value(), ElementsAre("y"));
  EXPECT_TRUE(control.barrier("c", 0).has_value());
  EXPECT_EQ(control.host(0), "here");
}

TEST(ChannelControl, ARankThatIsBackIsHeardAgainAndLeftOutOfMeetings) {
  MemoryNetwork network(3);
  ChannelControl here(network.channel(0), 0, hosts_of(3)), other(network.channel(2), 2, hosts_of(3));
  std::mutex mutex;
  std::vector<std::string> heard;
  const auto note = [&](std::string what) {
    const std::scoped_lock lock(mutex);
    heard.push_back(std::move(what));
  };
  const auto count = [&] {
    const std::scoped_lock lock(mutex);
    return heard.size();
  };
  {
    ChannelControl before(network.channel(1), 1, hosts_of(3));
    before.send(0, "first");
    wait_until([&] { return here.incarnation(1) == 0; });
    network.end({1, Fate::killed, 9});
  }
  wait_until([&] { return here.is_lost(1); });
  network.end({1, Fate::back, 1});
  wait_until([&] { return here.incarnation(1) == 1 && other.incarnation(1) == 1; });
  EXPECT_FALSE(here.is_lost(1));
  network.inject(Kind::text, 1, 0, "second");
  // Events that arrived before any handler was set are delivered in order of arrival, each once its
  // handler is set.
  here.on_back([&](std::uint32_t rank) { note(fmt::format("back {}", rank)); });
  wait_until([&] { return count() == 1; });
  here.on_message([&](std::uint32_t, std::string_view text) { note(std::string(text)); });
  wait_until([&] { return count() == 3; });
  here.on_lost([&](std::uint32_t rank) { note(fmt::format("lost {}", rank)); });
  wait_until([&] { return count() == 4; });
  EXPECT_THAT(heard, ElementsAre("back 1", "first", "second", "lost 1"));
  std::thread both([&] { EXPECT_TRUE(other.barrier("without it", plenty).has_value()); });
  EXPECT_TRUE(here.barrier("without it", plenty).has_value());
  both.join();
  // Rank 1 is lost again and later ends. Its end is no error for the next collective call, because a
  // restarted rank takes part in none.
  network.end({1, Fate::killed, 9});
  network.end({1, Fate::back, 1});  // dropped, because this incarnation is known already
  network.end({1, Fate::back, 2});
  wait_until([&] { return count() == 6; });
  network.end({1, Fate::ended, 3});
  std::thread again([&] { EXPECT_TRUE(other.barrier("nor then", plenty).has_value()); });
  EXPECT_TRUE(here.barrier("nor then", plenty).has_value());
  again.join();
  EXPECT_EQ(here.dropped(), 1U);
  for (ChannelControl* control : {&here, &other}) {
    control->on_message({});
    control->on_lost({});
    control->on_back({});
  }
}

TEST(ChannelControl, ARankThatIsBackItselfKnowsItsIncarnationAndWhoIsGone) {
  MemoryNetwork network(3);
  ChannelControl control(network.channel(1), 1, hosts_of(3), 2);
  network.end({0, Fate::back, 4});
  network.end({2, Fate::killed, 9});
  wait_until([&] { return control.incarnation(0) == 4 && control.is_lost(2); });
  EXPECT_EQ(control.incarnation(1), 2U);
  EXPECT_FALSE(control.is_lost(0));
  const auto met = control.barrier("anything", plenty);
  ASSERT_FALSE(met.has_value());
  EXPECT_EQ(met.error().code, ErrorCode::unsupported);
}

}  // namespace
}  // namespace loch::cluster
