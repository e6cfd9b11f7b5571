// Channels in memory between the threads of a test, each of which stands for a rank: every message is delayed
// by a random time, and ranks can die, end and be restarted.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/cluster/channel.h"

namespace loch::cluster {

class MemoryNetwork {
 public:
  explicit MemoryNetwork(std::uint32_t ranks, std::chrono::microseconds delay_max = {}, unsigned seed = 1)
      : delay_max_(delay_max), random_(seed), boxes_(ranks) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      channels_.push_back(std::make_unique<End>(*this, rank));
  }
  Channel& channel(std::uint32_t rank) { return *channels_[rank]; }

  // Reports to all other ranks that a rank was killed, has ended or was restarted, after the messages that it
  // has sent. From then on the rank's messages are dropped, until it is reported as restarted.
  void end(const Notice& notice) {
    if (notice.fate == Fate::back) {
      const std::lock_guard lock(mutex_);
      boxes_[notice.rank].is_dead = false;
    }
    for (std::uint32_t to = 0; to < boxes_.size(); ++to) {
      if (to != notice.rank) post(to, {.from = notice.rank, .notice = notice, .is_notice = true});
    }
    const std::lock_guard lock(mutex_);
    boxes_[notice.rank].is_dead = notice.fate != Fate::back;
  }
  // Delivers arbitrary bytes, such as a malformed message, to `to` as if `from` had sent them.
  void inject(Kind kind, std::uint32_t from, std::uint32_t to, std::string payload) {
    post(to, {.from = from, .kind = kind, .payload = std::move(payload)});
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Item {
    std::uint32_t from = 0;
    Kind kind = Kind::text;
    std::string payload;
    Notice notice{};
    bool is_notice = false;
    Clock::time_point due{};
  };
  struct Box {
    std::vector<Item> items;
    bool is_dead = false;
    bool is_stopping = false;
  };

  class End final : public Channel {
   public:
    End(MemoryNetwork& network, std::uint32_t rank) : network_(network), rank_(rank) {}
    ~End() override { stop(); }
    void start(ChannelListener& listener) override {
      reader_ = std::thread([this, &listener] { network_.deliver(rank_, listener); });
    }
    void stop() override {
      if (!reader_.joinable()) return;
      {
        const std::lock_guard lock(network_.mutex_);
        network_.boxes_[rank_].is_stopping = true;
      }
      network_.changed_.notify_all();
      reader_.join();
    }
    void send(Kind kind, std::uint32_t to, const std::string& payload) override {
      network_.post(to, {.from = rank_, .kind = kind, .payload = payload});
    }

   private:
    MemoryNetwork& network_;
    std::uint32_t rank_;
    std::thread reader_;
  };

  void post(std::uint32_t to, Item item) {
    {
      const std::lock_guard lock(mutex_);
      if (boxes_[item.from].is_dead) return;
      const auto most = static_cast<std::uint64_t>(delay_max_.count());
      item.due = Clock::now() + std::chrono::microseconds(most == 0 ? 0 : random_() % most);
      boxes_[to].items.push_back(std::move(item));
    }
    changed_.notify_all();
  }

  // Delivers the messages to rank `rank` to its listener: those of one sender in order, those of different
  // senders in any order.
  void deliver(std::uint32_t rank, ChannelListener& listener) {
    std::unique_lock lock(mutex_);
    Box& box = boxes_[rank];
    while (!box.is_stopping) {
      std::vector<bool> has_older(boxes_.size(), false);
      const auto now = Clock::now();
      auto next = box.items.end();
      for (auto it = box.items.begin(); it != box.items.end() && next == box.items.end(); ++it) {
        if (!has_older[it->from] && it->due <= now) next = it;
        has_older[it->from] = true;
      }
      if (next == box.items.end()) {
        changed_.wait_for(lock, std::chrono::microseconds(200));
        continue;
      }
      const Item item = std::move(*next);
      box.items.erase(next);
      lock.unlock();
      if (item.is_notice) {
        listener.on_fate(item.notice);
      } else {
        listener.on_arrival(item.kind, item.from, item.payload);
      }
      lock.lock();
    }
  }

  const std::chrono::microseconds delay_max_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::mt19937 random_;
  std::vector<Box> boxes_;
  std::vector<std::unique_ptr<End>> channels_;
};

}  // namespace loch::cluster
