// Control over a Channel: meetings, messages and losses. Each rank sends what it brings to a meeting
// to all who need it and waits for theirs, so that there is nobody whose death would stop a meeting.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/cluster/channel.h"
#include "common/cluster/control.h"

namespace loch::cluster {

class ChannelControl final : public Control, private ChannelListener {
 public:
  // `channel` outlives this. `hosts`: the host name of each rank. `life`: of this one.
  ChannelControl(Channel& channel, std::uint32_t rank, std::vector<std::string> hosts,
                 std::uint32_t incarnation = 0);
  ~ChannelControl() override;

  [[nodiscard]] std::uint32_t rank() const override { return rank_; }
  [[nodiscard]] std::uint32_t ranks() const override { return static_cast<std::uint32_t>(hosts_.size()); }
  [[nodiscard]] Result<std::vector<std::string>> all_gather(std::string_view what, const std::string& mine,
                                                            Nanos within) override;
  [[nodiscard]] Result<std::vector<std::string>> gather(std::string_view what, const std::string& mine,
                                                        Nanos within) override;
  [[nodiscard]] Result<> barrier(std::string_view what, Nanos within) override;
  [[nodiscard]] bool is_lost(std::uint32_t rank) const override;
  void send(std::uint32_t to, std::string_view message) override;
  void on_message(std::function<void(std::uint32_t, std::string_view)> handler) override;
  void on_lost(std::function<void(std::uint32_t)> handler) override;
  [[nodiscard]] std::uint32_t incarnation(std::uint32_t rank) const override;
  void on_back(std::function<void(std::uint32_t)> handler) override;
  [[nodiscard]] std::string host(std::uint32_t rank) const override { return hosts_.at(rank); }

  // Messages that were dropped because they were malformed, from another age, or too many.
  [[nodiscard]] std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  using Key = std::pair<std::uint64_t, std::uint32_t>;  // meeting, rank
  // A message, loss or return that waits to be passed to its handler.
  struct Event {
    enum class What : std::uint8_t { text, loss, back };
    What what = What::text;
    std::uint32_t rank = 0;
    std::string text;
  };

  void on_arrival(Kind kind, std::uint32_t from, std::string payload) override;
  void on_fate(const Notice& notice) override;
  void keep_part(std::uint32_t from, std::string payload);
  void come_back(const Notice& notice);
  void push(Event event);

  Result<std::vector<std::string>> meet(Meeting meeting, std::string_view what, const std::string& mine,
                                        Nanos within);
  // The ranks whose part of a meeting may still come. Called with mutex_ held, as the next two.
  [[nodiscard]] std::vector<std::uint32_t> awaited(std::uint64_t number) const;
  [[nodiscard]] std::optional<Error> quarrel(const Part& mine) const;
  [[nodiscard]] std::string people(const std::vector<std::uint32_t>& who) const;
  void forget_until(std::uint64_t number);

  void control_loop();
  // The first that has a handler: what a rank has said is heard before its end, and that before its
  // return.
  [[nodiscard]] std::deque<Event>::iterator next_event();
  void call_handler(std::unique_lock<std::mutex>& lock);
  // Runs `change` while no handler runs.
  void between_calls(const std::function<void()>& change);

  Channel& channel_;
  const std::uint32_t rank_;
  const std::vector<std::string> hosts_;
  std::unique_ptr<std::atomic<bool>[]> lost_;
  std::unique_ptr<std::atomic<std::uint32_t>[]> incarnations_;
  std::atomic<std::uint64_t> dropped_ = 0;

  std::mutex mutex_;                 // over all that follows
  std::condition_variable arrived_;  // a part of a meeting, or a rank's loss or return
  std::condition_variable for_handlers_;
  std::map<Key, Part> parts_;
  std::size_t held_bytes_ = 0;                // texts in parts_
  std::vector<std::optional<Notice>> fates_;  // the first of each: it is in no meeting any more
  std::vector<bool> is_gone_;
  std::uint64_t next_meeting_ = 0;
  std::deque<Event> events_;
  std::size_t waiting_texts_ = 0;  // in events_
  std::function<void(std::uint32_t, std::string_view)> message_handler_;
  std::function<void(std::uint32_t)> lost_handler_, back_handler_;
  bool is_closing_ = false;

  std::mutex calling_;  // held while a handler runs; taken before mutex_
  std::thread control_thread_;
};

}  // namespace loch::cluster
