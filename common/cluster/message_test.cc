// Tests that messages are unchanged by formatting and parsing, and that altered, truncated or repeated
// ones are refused.
#include "common/cluster/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/cluster/frame.h"

namespace loch::cluster {
namespace {

Secret secret_of(std::uint8_t byte) {
  Secret secret;
  secret.fill(byte);
  return secret;
}

class Messages : public testing::Test {
 protected:
  Sealer sealer_{secret_of(7), 3};
  Opener opener_{secret_of(7), 1, 3};
  std::string sealed_ = sealer_.seal({Kind::text, 0, 1, "good day"});
};

TEST_F(Messages, ArriveAsTheyWereSent) {
  const auto message = opener_.open(sealed_, 0);
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->kind, Kind::text);
  EXPECT_EQ(message->from, 0U);
  EXPECT_EQ(message->to, 1U);
  EXPECT_EQ(message->payload, "good day");
  const auto empty = opener_.open(sealer_.seal({Kind::heartbeat, 0, 1, ""}), 0);
  ASSERT_TRUE(empty.has_value());
  EXPECT_EQ(empty->payload, "");
}

TEST_F(Messages, NoByteMayChange) {
  for (std::size_t i = 0; i < sealed_.size(); ++i) {
    for (const int bit : {0, 7}) {
      std::string changed = sealed_;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      EXPECT_FALSE(opener_.open(changed, 0).has_value()) << "byte " << i;
    }
  }
  EXPECT_TRUE(opener_.open(sealed_, 0).has_value());
}

TEST_F(Messages, NeitherShorterNorLonger) {
  for (std::size_t length = 0; length < sealed_.size(); ++length)
    EXPECT_EQ(opener_.open(sealed_.substr(0, length), 0).error(), Refusal::size);
  EXPECT_EQ(opener_.open(sealed_ + "x", 0).error(), Refusal::size);
  EXPECT_EQ(opener_.refused()[static_cast<std::size_t>(Refusal::size)], sealed_.size() + 1);
}

TEST_F(Messages, AnotherSecretIsRefused) {
  Sealer stranger(secret_of(8), 3);
  EXPECT_EQ(opener_.open(stranger.seal({Kind::lost, 0, 1, "x"}), 0).error(), Refusal::tag);
}

TEST_F(Messages, AreWorthNothingTheSecondTime) {
  const std::string later = sealer_.seal({Kind::text, 0, 1, "later"});
  EXPECT_TRUE(opener_.open(sealed_, 0).has_value());
  EXPECT_EQ(opener_.open(sealed_, 0).error(), Refusal::replay);
  EXPECT_TRUE(opener_.open(later, 0).has_value());
  EXPECT_EQ(opener_.open(sealed_, 0).error(), Refusal::replay);
}

TEST_F(Messages, HeartbeatsMayOvertake) {
  const std::string beat = sealer_.seal({Kind::heartbeat, 0, 1, ""});
  EXPECT_TRUE(opener_.open(beat, 0).has_value());
  EXPECT_TRUE(opener_.open(sealed_, 0).has_value());
  EXPECT_EQ(opener_.open(beat, 0).error(), Refusal::replay);
}

TEST_F(Messages, SpeakForTheirSenderToTheirReceiver) {
  EXPECT_EQ(opener_.open(sealed_, 2).error(), Refusal::rank);
  EXPECT_EQ(opener_.open(sealer_.seal({Kind::text, 0, 2, "x"}), 0).error(), Refusal::rank);
  EXPECT_EQ(opener_.open(sealer_.seal({Kind::text, 1, 1, "x"}), 1).error(), Refusal::rank);
  EXPECT_EQ(opener_.open(sealer_.seal({Kind::text, 9, 1, "x"}), 9).error(), Refusal::rank);
}

TEST(Secrets, AreDrawnAfresh) {
  const auto one = draw_secret(), two = draw_secret();
  ASSERT_TRUE(one && two);
  EXPECT_NE(*one, *two);
}

TEST(Parts, SurviveTheirBytes) {
  const Part part = {41, Meeting::gather, "results", std::string("a\0b", 3)};
  const auto again = parse_part(to_bytes(part));
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(again->number, 41U);
  EXPECT_EQ(again->meeting, Meeting::gather);
  EXPECT_EQ(again->what, "results");
  EXPECT_EQ(again->text, part.text);
}

TEST(Parts, AreRefusedWhenTheyAreNone) {
  const std::string good = to_bytes(Part{1, Meeting::barrier, "go", ""});
  EXPECT_FALSE(parse_part(good.substr(0, 15)).has_value());
  std::string bad = good;
  bad[8] = 4;  // no kind of collective call (Meeting) has the number 4
  EXPECT_FALSE(parse_part(bad).has_value());
  bad = good;
  bad[12] = 3;  // the length of the meeting's name exceeds the message
  EXPECT_FALSE(parse_part(bad).has_value());
  EXPECT_FALSE(parse_part(good + std::string(300, 'x')).value().text.empty());
}

TEST(Notices, SurviveTheirBytesAndKnowTheRanks) {
  const std::string bytes = to_bytes(Notice{2, Fate::killed, 9});
  const auto again = parse_notice(bytes, 3);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->rank, 2U);
  EXPECT_EQ(again->fate, Fate::killed);
  EXPECT_EQ(again->detail, 9U);
  EXPECT_FALSE(parse_notice(bytes, 2).has_value());
  EXPECT_FALSE(parse_notice(bytes + "x", 3).has_value());
  std::string bad = bytes;
  bad[4] = 0;
  EXPECT_FALSE(parse_notice(bad, 3).has_value());
}

TEST(Frames, AreCutFromAnyPieces) {
  std::string stream;
  for (const char* text : {"", "one", "two and more"}) stream += to_bytes(Frame{FrameKind::text, 5, text});
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    FrameReader reader;
    std::vector<std::string> got;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      reader.feed(std::string_view(stream).substr(at, piece));
      for (;;) {
        const auto frame = reader.next();
        ASSERT_TRUE(frame.has_value());
        if (!*frame) break;
        EXPECT_EQ((*frame)->rank, 5U);
        got.push_back((*frame)->payload);
      }
    }
    EXPECT_THAT(got, testing::ElementsAre("", "one", "two and more")) << piece;
  }
}

TEST(Frames, NonsenseEndsTheStream) {
  const std::string good = to_bytes(Frame{FrameKind::text, 5, "x"});
  for (const std::size_t byte : {3, 4, 10}) {  // high bytes of a frame's length, kind and rank
    std::string bad = good;
    bad[byte] = 0x7f;
    FrameReader reader;
    reader.feed(bad);
    EXPECT_FALSE(reader.next().has_value()) << byte;
  }
}

TEST(Hosts, AreLinesOfPrintableText) {
  const std::vector<std::string> hosts = {"a.example", "b", "c-3"};
  EXPECT_EQ(parse_hosts(to_bytes(hosts)), hosts);
  EXPECT_FALSE(parse_hosts("a\nb").has_value());
  EXPECT_EQ(clean_host("a\x1b[2J b\n"), "a?[2J?b?");
  EXPECT_EQ(clean_host(""), "?");
  EXPECT_EQ(clean_host(std::string(999, 'h')).size(), host_bytes_max);
}

}  // namespace
}  // namespace loch::cluster
