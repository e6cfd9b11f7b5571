// Tests the socket pair between launcher and working process: welcome, order of frames, end of a process,
// and malformed frames.
#include "common/cluster/socket_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>

namespace loch::cluster {
namespace {

constexpr Nanos ms = 1'000'000;

class Heard final : public ChannelListener {
 public:
  void on_arrival(Kind kind, std::uint32_t from, std::string payload) override {
    EXPECT_EQ(kind, Kind::text);
    EXPECT_EQ(from, 2U);
    bytes += payload.size();
    ++messages;
  }
  void on_fate(const Notice& notice) override {
    EXPECT_EQ(notice.rank, 1U);
    is_told = true;
  }
  std::atomic<std::size_t> bytes = 0;
  std::atomic<int> messages = 0;
  std::atomic<bool> is_told = false;
};

class Sockets : public testing::Test {
 protected:
  Sockets() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    launcher_ = std::make_unique<SocketChild>(ends[0]);
    worker_ = std::make_unique<SocketChannel>(ends[1]);
    raw_ = ends[0];
  }
  std::unique_ptr<SocketChild> launcher_;
  std::unique_ptr<SocketChannel> worker_;
  int raw_ = -1;
};

TEST_F(Sockets, TheWelcomeBringsTheHosts) {
  launcher_->tell({FrameKind::welcome, 0, to_bytes(std::vector<std::string>{"a", "b"})});
  EXPECT_EQ(worker_->await_welcome(1000 * ms).value(), (std::vector<std::string>{"a", "b"}));
}

TEST_F(Sockets, NoWelcomeIsAnErrorInTime) {
  EXPECT_EQ(worker_->await_welcome(20 * ms).error().code, ErrorCode::timed_out);
  launcher_->tell({FrameKind::text, 0, "early"});
  EXPECT_EQ(worker_->await_welcome(1000 * ms).error().code, ErrorCode::corrupt);
  launcher_.reset();
  EXPECT_EQ(worker_->await_welcome(1000 * ms).error().code, ErrorCode::unavailable);
}

// The launcher sends more than the socket's buffer holds to a child that does not read yet, without
// blocking.
TEST_F(Sockets, TheLauncherNeverWaitsForItsWorker) {
  const std::string large(3'000'000, 'x');
  for (int i = 0; i < 10; ++i) launcher_->tell({FrameKind::text, 2, large});
  launcher_->tell({FrameKind::lost, 1, to_bytes(Notice{1, Fate::killed, 9})});
  Heard heard;
  worker_->start(heard);
  for (int i = 0; i < 10'000 && !heard.is_told; ++i) {
    EXPECT_FALSE(launcher_->hear().has_value());  // hear() also writes the frames that were queued
    launcher_->wait(1 * ms);
  }
  EXPECT_TRUE(heard.is_told);
  EXPECT_EQ(heard.messages, 10);
  EXPECT_EQ(heard.bytes, 10 * large.size());
  worker_->stop();
}

TEST_F(Sockets, WhatTheWorkerSaysArrivesInOrderAndAfterItsEnd) {
  std::thread working([&] {
    const std::string large(1'000'000, 'y');
    for (std::uint32_t i = 0; i < 5; ++i) worker_->send(Kind::part, i, large);
    worker_->send(Kind::text, 7, "last");
    worker_.reset();
  });
  std::vector<std::uint32_t> ranks;
  for (int i = 0; i < 10'000 && ranks.size() < 6; ++i) {
    while (auto frame = launcher_->hear()) ranks.push_back(frame->rank);
    launcher_->wait(1 * ms);
  }
  working.join();
  EXPECT_THAT(ranks, testing::ElementsAre(0, 1, 2, 3, 4, 7));
}

TEST_F(Sockets, NonsenseIsNotTakenForFrames) {
  const std::string nonsense(64, '\x7f');
  ASSERT_EQ(send(raw_, nonsense.data(), nonsense.size(), MSG_NOSIGNAL), 64);
  Heard heard;
  worker_->start(heard);  // the reader thread ends at a malformed frame
  worker_->stop();
  EXPECT_EQ(heard.messages, 0);
}

}  // namespace
}  // namespace loch::cluster
