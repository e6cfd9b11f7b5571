// Tests the launcher's state machine: welcome frames, deaths, restarts and silence of ranks.
#include "common/cluster/switchboard.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <set>

namespace loch::cluster {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
constexpr Nanos ms = 1'000'000;

Secret secret_of(std::uint8_t byte) {
  Secret secret;
  secret.fill(byte);
  return secret;
}

class FakeChild final : public ChildLink {
 public:
  void tell(const Frame& frame) override { told.push_back(frame); }
  std::optional<Frame> hear() override {
    if (says.empty()) return std::nullopt;
    Frame frame = says.front();
    says.pop_front();
    return frame;
  }
  void kill() override { is_killed = true; }
  // The frames that the child received after the welcome frame, as text: "lost 1", "text 2 hello", ….
  [[nodiscard]] std::vector<std::string> heard() const {
    std::vector<std::string> out;
    for (const Frame& frame : told) {
      if (frame.kind == FrameKind::lost) out.push_back(fmt::format("lost {}", frame.rank));
      if (frame.kind == FrameKind::back) out.push_back(fmt::format("back {}", frame.rank));
      if (frame.kind == FrameKind::left) out.push_back(fmt::format("left {}", frame.rank));
      if (frame.kind == FrameKind::text) out.push_back(fmt::format("text {} {}", frame.rank, frame.payload));
    }
    return out;
  }

  std::vector<Frame> told;
  std::deque<Frame> says;
  bool is_killed = false;
};

// A cluster of launchers in memory, in virtual time. A machine in `cut` neither sends nor receives.
class Cluster {
 public:
  explicit Cluster(std::uint32_t ranks, const std::set<std::uint32_t>& cut_off = {})
      : ranks_(ranks), queues_(ranks), children(ranks), cut(cut_off) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      wires_.push_back(std::make_unique<End>(*this, rank));
      SwitchboardConfig config = {.rank = rank,
                                  .ranks = ranks,
                                  .host = fmt::format("host{}", rank),
                                  .secret = secret_of(7),
                                  .heartbeat = 250 * ms,
                                  .lost_after = 2000 * ms,
                                  .report = [this](const std::string& line) { reports.push_back(line); }};
      boards.push_back(std::make_unique<Switchboard>(config, *wires_[rank], children[rank], now));
    }
  }
  void run(Nanos span) {
    for (const Nanos end = now + span; now < end; now += 10 * ms) {
      for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
        if (!stopped.contains(rank)) boards[rank]->step(now);
      }
    }
  }
  void inject(std::uint32_t from, std::uint32_t to, std::string bytes) {
    queues_[to].emplace_back(from, std::move(bytes));
  }

 private:
  class End final : public Wire {
   public:
    End(Cluster& cluster, std::uint32_t rank) : cluster_(cluster), rank_(rank) {}
    void send(std::uint32_t to, std::string bytes, bool) override {
      EXPECT_FALSE(given_up_.contains(to));
      if (cluster_.cut.contains(rank_) || cluster_.cut.contains(to)) return;
      cluster_.queues_[to].emplace_back(rank_, std::move(bytes));
    }
    std::optional<std::pair<std::uint32_t, std::string>> receive() override {
      auto& queue = cluster_.queues_[rank_];
      if (queue.empty()) return std::nullopt;
      auto first = std::move(queue.front());
      queue.pop_front();
      return first;
    }
    void give_up(std::uint32_t rank) override { given_up_.insert(rank); }

   private:
    Cluster& cluster_;
    std::uint32_t rank_;
    std::set<std::uint32_t> given_up_;
  };

  std::uint32_t ranks_;
  std::vector<std::deque<std::pair<std::uint32_t, std::string>>> queues_;
  std::vector<std::unique_ptr<End>> wires_;

 public:
  Nanos now = 1000 * ms;
  std::vector<FakeChild> children;
  std::set<std::uint32_t> cut;
  std::vector<std::unique_ptr<Switchboard>> boards;
  std::vector<std::string> reports;
  std::set<std::uint32_t> stopped;
};

TEST(Switchboard, WelcomesWithAllHostNames) {
  Cluster cluster(3);
  EXPECT_THAT(cluster.boards[0]->unheard_of(), ElementsAre(1, 2));
  cluster.run(50 * ms);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(cluster.boards[rank]->is_complete());
    ASSERT_EQ(cluster.children[rank].told.size(), 1U);
    EXPECT_EQ(cluster.children[rank].told[0].rank, rank);
    EXPECT_EQ(parse_hosts(cluster.children[rank].told[0].payload).value(),
              (std::vector<std::string>{"host0", "host1", "host2"}));
  }
}

TEST(Switchboard, PassesMessagesOnAndKeepsEarlyOnes) {
  Cluster cluster(3, {2});
  Sealer third(secret_of(7), 3);  // signs messages in the name of rank 2, which is cut off
  cluster.inject(2, 0, third.seal({Kind::hello, 2, 0, "host2"}));
  cluster.children[0].says.push_back({FrameKind::text, 1, "early"});
  cluster.children[0].says.push_back({FrameKind::text, 1, "second"});
  cluster.children[0].says.push_back({FrameKind::lost, 1, "a child may not say this"});
  cluster.children[0].says.push_back({FrameKind::text, 9, "nor this"});
  cluster.run(50 * ms);
  EXPECT_TRUE(cluster.boards[0]->is_complete());
  EXPECT_THAT(cluster.children[1].told, IsEmpty());
  cluster.inject(2, 1, third.seal({Kind::hello, 2, 1, "host2"}));
  cluster.run(50 * ms);
  EXPECT_EQ(cluster.children[1].told.front().kind, FrameKind::welcome);
  EXPECT_THAT(cluster.children[1].heard(), ElementsAre("text 0 early", "text 0 second"));
  EXPECT_EQ(cluster.boards[0]->refused(), "2 malformed");
}

TEST(Switchboard, AKilledChildIsAnnouncedAtOnceAndItsLauncherStays) {
  Cluster cluster(3);
  cluster.run(50 * ms);
  cluster.children[1].says.push_back({FrameKind::text, 0, "last word"});
  cluster.boards[1]->child_ended(Fate::killed, 9);
  cluster.run(20 * ms);
  EXPECT_THAT(cluster.children[0].heard(), ElementsAre("text 1 last word", "lost 1"));
  EXPECT_THAT(cluster.children[2].heard(), ElementsAre("lost 1"));
  EXPECT_FALSE(cluster.boards[1]->is_over());
  cluster.run(10'000 * ms);
  EXPECT_FALSE(cluster.boards[0]->has_silent());
  cluster.boards[0]->child_ended(Fate::ended, 0);
  cluster.boards[2]->child_ended(Fate::ended, 1);
  cluster.run(20 * ms);
  for (const auto& board : cluster.boards) {
    EXPECT_TRUE(board->is_over());
    EXPECT_FALSE(board->has_silent());
    EXPECT_EQ(board->refused(), "");
  }
}

TEST(Switchboard, AChildThatIsStartedAgainIsAnotherIncarnation) {
  Cluster cluster(3);
  cluster.run(50 * ms);
  cluster.children[2].says.push_back({FrameKind::text, 1, "for the former incarnation, on the wire"});
  cluster.boards[2]->step(cluster.now);
  cluster.boards[1]->child_ended(Fate::killed, 9);
  cluster.children[1].told.clear();
  cluster.boards[1]->child_returned();
  cluster.run(20 * ms);
  EXPECT_EQ(cluster.boards[1]->incarnation(), 1U);
  EXPECT_EQ(cluster.children[1].told.at(0).kind, FrameKind::welcome);
  EXPECT_THAT(cluster.children[0].heard(), ElementsAre("lost 1", "back 1"));
  // Until the child of rank 0 acknowledges the restart of rank 1, the child's messages to rank 1 are meant
  // for rank 1's former incarnation and are dropped.
  cluster.children[0].says.push_back(
      {FrameKind::text, 1, "for the former incarnation, from one who did not know"});
  cluster.children[0].says.push_back({FrameKind::back, 1, cluster.children[0].told.back().payload});
  cluster.children[0].says.push_back({FrameKind::text, 1, "for the new one"});
  cluster.children[1].says.push_back({FrameKind::text, 2, "from the new one"});
  cluster.run(20 * ms);
  EXPECT_THAT(cluster.children[1].heard(), ElementsAre("text 0 for the new one"));
  EXPECT_THAT(cluster.children[2].heard(), ElementsAre("lost 1", "back 1", "text 1 from the new one"));
  // A child that is restarted later is told which ranks have ended and which were restarted before.
  cluster.boards[2]->child_ended(Fate::ended, 0);
  cluster.boards[0]->child_ended(Fate::killed, 9);
  cluster.children[0].told.clear();
  cluster.run(20 * ms);
  cluster.boards[0]->child_returned();
  cluster.children[0].says.push_back({FrameKind::text, 1, "again"});
  cluster.run(20 * ms);
  EXPECT_THAT(cluster.children[0].heard(), ElementsAre("back 1", "left 2"));
  EXPECT_THAT(cluster.children[1].heard(),
              ElementsAre("text 0 for the new one", "left 2", "lost 0", "back 0", "text 0 again"));
  cluster.boards[0]->child_ended(Fate::ended, 0);
  cluster.boards[1]->child_ended(Fate::ended, 0);
  cluster.run(20 * ms);
  for (const auto& board : cluster.boards) {
    EXPECT_TRUE(board->is_over());
    EXPECT_EQ(board->refused(), "");
  }
}

TEST(Switchboard, ASilentMachineIsLostForAllAndEndsItself) {
  Cluster cluster(3);
  cluster.run(50 * ms);
  cluster.cut = {1};
  cluster.run(1900 * ms);
  EXPECT_THAT(cluster.children[0].heard(), IsEmpty());
  cluster.run(500 * ms);
  EXPECT_THAT(cluster.children[0].heard(), ElementsAre("lost 1"));
  EXPECT_THAT(cluster.children[2].heard(), ElementsAre("lost 1"));
  EXPECT_TRUE(cluster.boards[0]->has_silent());
  EXPECT_TRUE(cluster.children[1].is_killed);  // rank 1 received nothing from any other rank
  EXPECT_TRUE(cluster.boards[1]->is_cut_off());
  EXPECT_THAT(cluster.reports, Contains("node 1 (host1) is lost: nothing was heard of it for 2s"));
  EXPECT_FALSE(cluster.children[0].is_killed);
  EXPECT_FALSE(cluster.children[2].is_killed);
  cluster.boards[0]->child_ended(Fate::ended, 0);
  cluster.boards[2]->child_ended(Fate::ended, 0);
  cluster.run(20 * ms);
  EXPECT_TRUE(cluster.boards[0]->is_over());
  EXPECT_TRUE(cluster.boards[2]->is_over());
}

TEST(Switchboard, WhoIsTakenForLostEndsItsWorkWhenItComesBack) {
  Cluster cluster(3);
  cluster.run(50 * ms);
  cluster.stopped = {1};  // a stopped machine: messages to it are queued
  cluster.run(2500 * ms);
  EXPECT_THAT(cluster.children[0].heard(), ElementsAre("lost 1"));
  cluster.stopped.clear();
  cluster.run(50 * ms);
  EXPECT_TRUE(cluster.children[1].is_killed);
  EXPECT_THAT(cluster.children[1].heard(), IsEmpty());  // the child of rank 1 was told of no loss
  EXPECT_THAT(
      cluster.reports,
      Contains(testing::ContainsRegex("node 1 .host1. ends: rank [02] .host[02]. has taken it for lost")));
  cluster.run(5000 * ms);
  EXPECT_THAT(cluster.children[0].heard(), ElementsAre("lost 1"));
}

TEST(Switchboard, RankZeroGoesOnWhenItHearsNobody) {
  Cluster cluster(2);
  cluster.run(50 * ms);
  cluster.cut = {1};
  cluster.run(2500 * ms);
  EXPECT_FALSE(cluster.children[0].is_killed);
  EXPECT_TRUE(cluster.children[1].is_killed);
  cluster.boards[0]->child_ended(Fate::ended, 0);
  EXPECT_TRUE(cluster.boards[0]->is_over());
}

TEST(Switchboard, StrangersAndLiarsAreCountedAndNotHeard) {
  Cluster cluster(3);
  cluster.run(50 * ms);
  Sealer stranger(secret_of(9), 3);
  cluster.inject(1, 0, stranger.seal({Kind::lost, 1, 0, to_bytes(Notice{2, Fate::silent, 0})}));
  cluster.inject(1, 0, "nonsense");
  // These messages are signed with the right secret and refused all the same: each announces a death or
  // restart of another rank, has a fate that does not go with its kind, or is malformed.
  Sealer liar(secret_of(7), 3);
  for (int i = 0; i < 100; ++i) (void)liar.seal({Kind::text, 1, 0, ""});
  cluster.inject(1, 0, liar.seal({Kind::lost, 1, 0, to_bytes(Notice{2, Fate::killed, 9})}));
  cluster.inject(1, 0, liar.seal({Kind::left, 1, 0, to_bytes(Notice{1, Fate::killed, 9})}));
  cluster.inject(1, 0, liar.seal({Kind::lost, 1, 0, "x"}));
  cluster.inject(1, 0, liar.seal({Kind::back, 1, 0, to_bytes(Notice{2, Fate::back, 1})}));
  cluster.inject(1, 0,
                 // refused, because it announces the return of rank 1, which was never lost
                 liar.seal({Kind::back, 1, 0, to_bytes(Notice{1, Fate::back, 1})}));
  cluster.run(20 * ms);
  EXPECT_THAT(cluster.children[0].heard(), IsEmpty());
  EXPECT_EQ(cluster.boards[0]->refused(), "1 size, 1 tag, 5 malformed");
}

}  // namespace
}  // namespace loch::cluster
