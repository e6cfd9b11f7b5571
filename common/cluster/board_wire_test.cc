// Tests messages between ranks over a board in a shared folder: the secret, messages in order and of every
// size, folders that are refused, and that nothing is left behind.
#include "common/cluster/board_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>

#include "common/cluster/folder_board.h"

namespace loch::cluster {
namespace {

using testing::HasSubstr;
constexpr Nanos second = 1'000'000'000;

class BoardWireTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "loch-board-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  [[nodiscard]] std::string folder() const { return root_ + "/launch"; }

  std::unique_ptr<BoardWire> open(std::uint32_t rank, std::uint32_t ranks) {
    auto board = open_folder_board(folder(), rank);
    EXPECT_TRUE(board) << board.error().message;
    return std::make_unique<BoardWire>(std::move(*board), rank, ranks);
  }
  // Opens each rank's connection to the board (its BoardWire); all ranks have then agreed on a secret.
  std::vector<std::unique_ptr<BoardWire>> open_all(std::uint32_t ranks) {
    std::vector<std::unique_ptr<BoardWire>> wires;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) wires.push_back(open(rank, ranks));
    std::vector<Result<Secret>> secrets(ranks, Secret{});
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] { secrets[rank] = wires[rank]->share_secret(20 * second); });
    for (std::thread& thread : threads) thread.join();
    for (const Result<Secret>& each : secrets) {
      EXPECT_TRUE(each) << each.error().message;
      EXPECT_TRUE(each && *each == *secrets[0] && *each != Secret{});
    }
    return wires;
  }
  // Lets all ranks post their messages until the rank of `wire` receives one, and returns this message.
  static std::pair<std::uint32_t, std::string> next(BoardWire& wire,
                                                    std::vector<std::unique_ptr<BoardWire>>& all) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < deadline) {
      for (auto& each : all) each->push();
      if (auto message = wire.receive()) return *message;
    }
    return {99, "nothing came"};
  }

  std::string root_;
};

TEST_F(BoardWireTest, MessagesComeWholeAndInOrder) {
  auto wires = open_all(3);
  std::string large(2 * item_bytes_max + 17, 'x');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 7 % 251);
  wires[0]->send(1, large, false);
  wires[0]->send(1, "", false);
  wires[0]->send(1, std::string(item_bytes_max, 'e'), false);
  wires[0]->send(1, "last", false);
  wires[2]->send(0, "of 2", false);
  EXPECT_EQ(next(*wires[1], wires), std::pair(0U, large));
  EXPECT_EQ(next(*wires[1], wires), std::pair(0U, std::string()));
  EXPECT_EQ(next(*wires[1], wires), std::pair(0U, std::string(item_bytes_max, 'e')));
  EXPECT_EQ(next(*wires[1], wires), std::pair(0U, std::string("last")));
  EXPECT_EQ(next(*wires[0], wires), std::pair(2U, std::string("of 2")));
  EXPECT_FALSE(wires[1]->receive());
  EXPECT_EQ(wires[1]->failure(), "");
}

// Thousands of messages that are sent between two calls of push() share one item of the board.
TEST_F(BoardWireTest, MessagesShareItems) {
  auto wires = open_all(2);
  for (int i = 0; i < 5000; ++i) wires[0]->send(1, std::to_string(i), false);
  while (!wires[0]->push()) {
  }
  const auto files = std::filesystem::directory_iterator(folder() + "/1");
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(next(*wires[1], wires).second, std::to_string(i));
}

// A message that is longer than messages may be arrives as an empty one, and the message after it arrives
// unchanged.
TEST_F(BoardWireTest, AMessageThatIsTooLargeIsAnEmptyOne) {
  auto wires = open_all(2);
  auto board = open_folder_board(folder(), 0);
  ASSERT_TRUE(board);
  const auto frame = [](std::uint64_t length, const std::string& text) {
    return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
  };
  const std::uint64_t length = message_bytes_max + 1;
  (*board)->post({'m', 0, 1, 0}, frame(length, "begins"));
  std::uint64_t number = 1;
  for (std::uint64_t left = length - 6; left > 0; ++number) {
    const std::uint64_t part = std::min<std::uint64_t>(left, item_bytes_max);
    (*board)->post({'m', 0, 1, number}, std::string(part, 'x'));
    left -= part;
  }
  (*board)->post({'m', 0, 1, number}, frame(4, "next"));
  EXPECT_EQ(next(*wires[1], wires), std::pair(0U, std::string()));
  EXPECT_EQ(next(*wires[1], wires), std::pair(0U, std::string("next")));
}

TEST_F(BoardWireTest, UrgentMessagesDoNotWaitForOthers) {
  auto wires = open_all(2);
  wires[0]->send(1, "ordinary", false);
  wires[0]->send(1, "urgent", true);
  std::vector<std::string> got = {next(*wires[1], wires).second, next(*wires[1], wires).second};
  EXPECT_THAT(got, testing::UnorderedElementsAre("ordinary", "urgent"));
}

TEST_F(BoardWireTest, ARankThatIsGivenUpIsNeitherHeardNorSentTo) {
  auto wires = open_all(3);
  wires[1]->send(0, "late", false);
  wires[0]->give_up(1);
  wires[0]->send(1, "for nobody", false);
  wires[2]->send(0, "heard", false);
  EXPECT_EQ(next(*wires[0], wires), std::pair(2U, std::string("heard")));
  EXPECT_FALSE(wires[0]->receive());
  EXPECT_FALSE(std::filesystem::exists(folder() + "/1"));
}

TEST_F(BoardWireTest, NothingIsLeftWhenAllHaveLeft) {
  auto wires = open_all(3);
  wires[0]->send(1, "unread", false);
  wires[0]->send(1, "and more", false);
  for (auto& wire : wires) {
    EXPECT_TRUE(std::filesystem::exists(folder()));
    wire->flush(second);
    wire->close(true);
  }
  EXPECT_FALSE(std::filesystem::exists(folder()));
}

// No file of the board contains the secret, although the board carries all that ranks exchange to agree on
// it.
TEST_F(BoardWireTest, TheSecretIsNotInTheClear) {
  auto zero = open(0, 2), one = open(1, 2);
  Result<Secret> secret = Secret{};
  std::thread thread([&] { secret = zero->share_secret(20 * second); });
  auto board = open_folder_board(folder(), 1);  // the test posts as rank 1, with a public key of its own
  ASSERT_TRUE(board);
  (*board)->post({'k', 1, 0, 0}, std::string(32, '\x09'));
  thread.join();
  ASSERT_TRUE(secret) << secret.error().message;
  const auto content_of = [&](const char* name) {
    std::ifstream file(folder() + "/1/" + name, std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  EXPECT_EQ(content_of("k-0-0").size(), 32U);        // the public key
  EXPECT_EQ(content_of("k-0-1").size(), 32U + 16U);  // the secret, encrypted
  for (const char* name : {"k-0-0", "k-0-1"})
    EXPECT_EQ(content_of(name).find(std::string(secret->begin(), secret->end())), std::string::npos);
}

TEST_F(BoardWireTest, RanksThatDoNotComeAreNamed) {
  auto zero = open(0, 4);
  auto two = open_folder_board(folder(), 2);
  ASSERT_TRUE(two);
  (*two)->post({'k', 2, 0, 0}, std::string(32, '\x09'));
  const auto secret = zero->share_secret(second / 5);
  ASSERT_FALSE(secret);
  EXPECT_EQ(secret.error().message, "no word within 200ms from rank 1, 3");
  auto one = open(1, 4);
  const auto unanswered = one->share_secret(second / 5);
  ASSERT_FALSE(unanswered);
  EXPECT_THAT(unanswered.error().message, HasSubstr("no word from rank 0 within 200ms"));
}

TEST_F(BoardWireTest, FoldersOfOthersAreRefused) {
  EXPECT_FALSE(open_folder_board(root_ + "/missing/launch", 0));
  ASSERT_EQ(mkdir(folder().c_str(), 0700), 0);
  struct stat made{};
  ASSERT_TRUE(open_folder_board(folder(), 0));
  ASSERT_EQ(stat((folder() + "/0").c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777, 0700U);
  ASSERT_EQ(chmod(folder().c_str(), 0777), 0);
  const auto open_to_all = open_folder_board(folder(), 1);
  ASSERT_FALSE(open_to_all);
  EXPECT_THAT(open_to_all.error().message, HasSubstr("nobody else may write to"));
  std::filesystem::create_symlink(root_, root_ + "/link");
  EXPECT_FALSE(open_folder_board(root_ + "/link", 0));
}

}  // namespace
}  // namespace loch::cluster
