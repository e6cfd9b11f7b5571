// Tests the board between processes that mpirun has started, with ranks of one process: messages of every
// size, ranks that end, strangers that connect, and addresses at which nobody or somebody else answers.
#include "common/cluster/tcp_board.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "common/cluster/board_wire.h"
#include "common/cluster/memory_bulletin.h"
#include "common/cluster/tcp_frames.h"

namespace loch::cluster {
namespace {

using testing::HasSubstr;
constexpr Nanos second = 1'000'000'000;
using Heard = std::pair<std::uint32_t, std::string>;

class TcpBoardTest : public testing::Test {
 protected:
  std::unique_ptr<BoardWire> open(std::uint32_t rank, std::uint32_t ranks, std::string_view only = "lo") {
    auto board = open_tcp_board({.rank = rank, .ranks = ranks, .only = only}, texts_.of(rank));
    EXPECT_TRUE(board) << board.error().message;
    return std::make_unique<BoardWire>(std::move(*board), rank, ranks);
  }
  // Lets the ranks agree on a secret; each serves the others until all are done.
  static std::vector<Result<Secret>> share(std::vector<std::unique_ptr<BoardWire>>& wires, Nanos within) {
    std::vector<Result<Secret>> secrets(wires.size(), Secret{});
    std::vector<std::thread> threads;
    std::atomic<std::size_t> done = 0;
    for (std::size_t rank = 0; rank < wires.size(); ++rank) {
      threads.emplace_back([&, rank] {
        secrets[rank] = wires[rank]->share_secret(within);
        ++done;
        while (done < wires.size()) {
          EXPECT_FALSE(wires[rank]->receive());
          std::this_thread::yield();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return secrets;
  }
  // All ranks, which have agreed on a secret.
  std::vector<std::unique_ptr<BoardWire>> open_all(std::uint32_t ranks, std::string_view only = "lo") {
    std::vector<std::unique_ptr<BoardWire>> wires;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) wires.push_back(open(rank, ranks, only));
    const auto secrets = share(wires, 20 * second);
    for (const Result<Secret>& each : secrets) {
      EXPECT_TRUE(each) << each.error().message;
      EXPECT_TRUE(each && *each == *secrets[0] && *each != Secret{});
    }
    return wires;
  }
  // Lets all ranks send and receive until that of `rank` has a message.
  Heard next(std::vector<std::unique_ptr<BoardWire>>& all, std::uint32_t rank) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (inboxes_[rank].empty() && std::chrono::steady_clock::now() < deadline) {
      for (std::uint32_t each = 0; each < all.size(); ++each) {
        if (!all[each]) continue;
        all[each]->push();
        while (auto message = all[each]->receive()) inboxes_[each].push_back(std::move(*message));
      }
    }
    if (inboxes_[rank].empty()) return {99, "nothing came"};
    Heard first = std::move(inboxes_[rank].front());
    inboxes_[rank].pop_front();
    return first;
  }

  SharedTexts texts_;
  std::map<std::uint32_t, std::deque<Heard>> inboxes_;
};

// A connection of somebody else's to the rank that a card describes.
class Caller {
 public:
  explicit Caller(const Card& card) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(card.port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    const timeval patience{.tv_sec = 0, .tv_usec = 20'000};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~Caller() { close(socket_); }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
  void say(const std::string& bytes) { (void)!send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // What the other side says until it ends the connection; nothing if it does not end it within 20 s. `serve`
  // lets the other side work.
  template <typename Serve>
  std::optional<std::string> hear_out(const Serve& serve) {
    std::string heard;
    for (int i = 0; i < 1000; ++i) {
      serve();
      char buffer[256];
      const ssize_t got = recv(socket_, buffer, sizeof buffer, 0);
      if (got == 0 || (got < 0 && errno == ECONNRESET)) return heard;
      if (got > 0) heard.append(buffer, static_cast<std::size_t>(got));
    }
    return std::nullopt;
  }

 private:
  int socket_;
};

Card card_of(SharedTexts& texts, std::uint32_t rank) {
  auto card = parse_card(texts.text_of(rank));
  EXPECT_TRUE(card) << card.error().message;
  return card.value_or(Card{});
}

TEST_F(TcpBoardTest, MessagesComeWholeAndInOrder) {
  for (const char* only : {"lo", ""}) {
    texts_.clear();
    auto wires = open_all(3, only);
    std::string large(2 * item_bytes_max + 17, 'x');
    for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 7 % 251);
    wires[0]->send(1, large, false);
    wires[0]->send(1, "", false);
    wires[0]->send(1, std::string(item_bytes_max, 'e'), false);
    wires[0]->send(1, "last", false);
    wires[2]->send(0, "of 2", false);
    wires[1]->send(2, large, false);
    EXPECT_EQ(next(wires, 1), Heard(0, large));
    EXPECT_EQ(next(wires, 1), Heard(0, ""));
    EXPECT_EQ(next(wires, 1), Heard(0, std::string(item_bytes_max, 'e')));
    EXPECT_EQ(next(wires, 1), Heard(0, "last"));
    EXPECT_EQ(next(wires, 0), Heard(2, "of 2"));
    EXPECT_EQ(next(wires, 2), Heard(1, large));
    EXPECT_FALSE(wires[1]->receive());
    for (auto& each : wires) {
      EXPECT_EQ(each->failure(), "");
      EXPECT_EQ(each->with_trouble("said"), "said");
    }
  }
}

TEST_F(TcpBoardTest, SixtyRanksMeetAndAllHearEachOther) {
  constexpr std::uint32_t ranks = 60;
  auto wires = open_all(ranks);
  for (std::uint32_t from = 0; from < ranks; ++from) {
    for (std::uint32_t to = 0; to < ranks; ++to) {
      if (to != from) wires[from]->send(to, std::to_string(from), from % 2 == 0);
    }
  }
  for (std::uint32_t to = 0; to < ranks; ++to) {
    std::set<std::uint32_t> heard;
    for (std::uint32_t i = 1; i < ranks; ++i) {
      const Heard message = next(wires, to);
      EXPECT_EQ(message.second, std::to_string(message.first));
      heard.insert(message.first);
    }
    EXPECT_EQ(heard.size(), ranks - 1);
  }
}

// What a rank has sent arrives although it ends at once, and although the other has not read all that it was
// sent.
TEST_F(TcpBoardTest, WhatWasSentArrivesAfterTheSendersEnd) {
  auto wires = open_all(2);
  const std::string large(item_bytes_max / 2, 'l');
  wires[1]->send(0, large, false);
  wires[1]->send(0, "last words", false);
  wires[0]->send(1, "never read", false);
  wires[0]->push();
  std::thread leaving([last = std::move(wires[1])]() mutable {
    last->flush(20 * second);
    last->close(true);
    last.reset();
  });
  EXPECT_TRUE(next(wires, 0).second == large);
  leaving.join();
  EXPECT_EQ(next(wires, 0).second, "last words");
  EXPECT_FALSE(wires[0]->receive());
}

TEST_F(TcpBoardTest, ARankThatIsGivenUpIsNeitherHeardNorSentTo) {
  auto wires = open_all(3);
  wires[1]->send(0, "late", false);
  wires[1]->push();
  wires[0]->give_up(1);
  wires[0]->send(1, "for nobody", false);
  wires[2]->send(0, "heard", false);
  EXPECT_EQ(next(wires, 0), Heard(2, "heard"));
  EXPECT_FALSE(wires[0]->receive());
  wires[0]->flush(20 * second);  // does not wait for the one that was given up
}

// A rank whose process ends takes nobody with it, and messages to it are dropped.
TEST_F(TcpBoardTest, OthersGoOnWhenARankEnds) {
  auto wires = open_all(3);
  wires[2].reset();
  for (int i = 0; i < 100; ++i) wires[0]->send(2, std::string(100'000, 'x'), false);
  wires[0]->send(1, "on", false);
  EXPECT_EQ(next(wires, 1), Heard(0, "on"));
  wires[1]->send(0, "and on", false);
  EXPECT_EQ(next(wires, 0), Heard(1, "and on"));
  EXPECT_EQ(wires[0]->failure(), "");
}

TEST_F(TcpBoardTest, StrangersAreTurnedAway) {
  std::vector<std::unique_ptr<BoardWire>> wires;
  wires.push_back(open(0, 2));
  std::atomic<bool> is_over = false;
  Result<Secret> of_zero;
  std::thread zero([&] {
    of_zero = wires[0]->share_secret(20 * second);
    while (!is_over) EXPECT_FALSE(wires[0]->receive());
  });
  while (texts_.text_of(0).empty()) std::this_thread::yield();
  const Card card = card_of(texts_, 0);
  Card wrong = card;
  wrong.token[15] ^= 1;
  const auto serve = [] {};  // the thread of rank 0 does
  for (const std::string& said :
       {std::string("GET / HTTP/1.1\r\nHost: somebody\r\n\r\n"), greeting(wrong.token, 1),
        greeting(card.token, 0), greeting(card.token, 2), greeting(card.token, 1) + "loch-tpc"}) {
    Caller caller(card);
    caller.say(said);
    const auto heard = caller.hear_out(serve);
    ASSERT_TRUE(heard) << said;
    EXPECT_EQ(*heard, said.ends_with("loch-tpc") ? std::string(tcp_magic) : "") << said;
  }
  // One that says nothing, and one that does not go on, are in nobody's way.
  Caller silent(card), slow(card);
  slow.say(greeting(card.token, 1));
  auto one = open(1, 2);
  const auto of_one = one->share_secret(20 * second);
  EXPECT_TRUE(of_one);
  is_over = true;
  zero.join();
  ASSERT_TRUE(of_zero && of_one && *of_zero == *of_one);
  wires.push_back(std::move(one));
  wires[0]->send(1, "to the right one", false);
  EXPECT_EQ(next(wires, 1), Heard(0, "to the right one"));
  // The place of a rank that is here is taken.
  Caller second_one(card);
  second_one.say(greeting(card.token, 1) + std::string(tcp_magic));
  EXPECT_EQ(second_one.hear_out([&] { (void)wires[0]->receive(); }), std::string(tcp_magic));
  wires[1]->send(0, "still the right one", false);
  EXPECT_EQ(next(wires, 0), Heard(1, "still the right one"));
}

TEST_F(TcpBoardTest, ARankThatSendsNonsenseIsHeardNoMore) {
  std::vector<std::unique_ptr<BoardWire>> wires;
  wires.push_back(open(0, 3));
  std::thread zero([&] { (void)wires[0]->share_secret(second / 5); });
  zero.join();
  Caller liar(card_of(texts_, 0));
  liar.say(greeting(card_of(texts_, 0).token, 2) + std::string(tcp_magic) + item_header('z', 1) + "z");
  EXPECT_TRUE(liar.hear_out([&] { (void)wires[0]->receive(); }));
  EXPECT_EQ(wires[0]->failure(), "");
}

// The first address of rank 0 has no route; at its second one it answers.
TEST_F(TcpBoardTest, AddressesAreTriedInTurn) {
  texts_.change = [](std::uint32_t, std::string text) {
    Card card = *parse_card(text);
    card.network = "another";
    card.addresses = {"2001:db8::1", "127.0.0.7"};
    return to_text(card);
  };
  auto wires = open_all(2, "");
  wires[0]->send(1, "found", false);
  EXPECT_EQ(next(wires, 1), Heard(0, "found"));
  EXPECT_EQ(wires[1]->with_trouble("said"), "said");
}

TEST_F(TcpBoardTest, ARankThatCannotBeReachedIsNamedWithItsAddress) {
  for (const bool has_address : {true, false}) {
    texts_.clear();
    texts_.change = [has_address](std::uint32_t, std::string text) {
      Card card = *parse_card(text);
      card.network = "another";
      card.addresses.clear();
      if (has_address) card.addresses.emplace_back("127.0.0.7");
      card.port = 1;  // of no program that runs
      return to_text(card);
    };
    std::vector<std::unique_ptr<BoardWire>> wires;
    for (const std::uint32_t rank : {0U, 1U}) wires.push_back(open(rank, 2, ""));
    std::thread zero([&] { (void)wires[0]->share_secret(second); });
    const auto secret = wires[1]->share_secret(second);
    zero.join();
    ASSERT_FALSE(secret);
    EXPECT_EQ(secret.error().message,
              std::string("no word from rank 0 within 1s (rank 0 at ") +
                  (has_address ? "127.0.0.7 port 1: Connection refused" : "no address") +
                  "; LOCH_RENDEZVOUS=FOLDER, a folder that all hosts share, does without TCP)");
  }
}

// A card of rank 0 that names another program's port: whoever listens there does not know the token.
TEST_F(TcpBoardTest, AnotherProgramIsNotTakenForARank) {
  SharedTexts elsewhere;  // of another launch
  auto board = open_tcp_board({.rank = 0, .ranks = 2, .only = "lo"}, elsewhere.of(0));
  ASSERT_TRUE(board);
  BoardWire stranger(std::move(*board), 0, 2);
  (void)stranger.share_secret(second / 100);
  const std::uint16_t port = card_of(elsewhere, 0).port;
  texts_.change = [port](std::uint32_t rank, std::string text) {
    Card card = *parse_card(text);
    if (rank == 0) card.port = port;
    return to_text(card);
  };
  auto zero = open(0, 2), one = open(1, 2);
  std::thread thread([&] { (void)zero->share_secret(second / 2); });
  std::thread serving([&] { (void)stranger.share_secret(second / 2); });
  const auto secret = one->share_secret(second / 2);
  thread.join();
  serving.join();
  ASSERT_FALSE(secret);
  EXPECT_THAT(secret.error().message, HasSubstr("another program answers"));
}

TEST_F(TcpBoardTest, ACardOfAnotherKindEndsTheLaunch) {
  texts_.change = [](std::uint32_t rank, std::string text) { return rank == 0 ? "9 " + text : text; };
  auto zero = open(0, 2), one = open(1, 2);
  std::thread thread([&] { (void)zero->share_secret(second / 5); });
  const auto secret = one->share_secret(5 * second);
  thread.join();
  ASSERT_FALSE(secret);
  EXPECT_EQ(secret.error().message, "rank 0: a rank's card is malformed");
}

}  // namespace
}  // namespace loch::cluster
