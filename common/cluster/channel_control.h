// Implements the control plane (Control) over a Channel: collectives ("meetings"), messages and losses. In a
// meeting each rank sends its part to all who need it and waits for the parts of the others; there is no
// coordinator whose death could stop a meeting.
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
  // `channel` must outlive this object. `hosts` has the host name of each rank; `incarnation` is that of
  // this process.
  ChannelControl(Channel& channel, std::uint32_t rank, std::vector<std::string> hosts,
                 std::uint32_t incarnation = 0, Nanos longest_silence = 0);
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
  [[nodiscard]] Nanos longest_silence() const override { return longest_silence_; }
  [[nodiscard]] std::string host(std::uint32_t rank) const override { return hosts_.at(rank); }

  // Number of messages that were dropped because they were malformed, out of date or too many.
  [[nodiscard]] std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  // number of the meeting (collective), and the sending rank
  using Key = std::pair<std::uint64_t, std::uint32_t>;
  // A message, loss or restart that waits to be passed to its handler.
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
  // Returns the ranks whose part of meeting (collective) `number` has not arrived and may still come. Called
  // with mutex_ held, as quarrel(), people() and forget_until() are.
  [[nodiscard]] std::vector<std::uint32_t> awaited(std::uint64_t number) const;
  [[nodiscard]] std::optional<Error> quarrel(const Part& mine) const;
  [[nodiscard]] std::string people(const std::vector<std::uint32_t>& who) const;
  void forget_until(std::uint64_t number);

  void control_loop();
  // The first event whose handler is set. Events are in order: a rank's messages come before its loss,
  // and its loss before its restart.
  [[nodiscard]] std::deque<Event>::iterator next_event();
  void call_handler(std::unique_lock<std::mutex>& lock);
  // Runs `change` at a time when no handler is running.
  void between_calls(const std::function<void()>& change);

  Channel& channel_;
  const std::uint32_t rank_;
  const std::vector<std::string> hosts_;
  const Nanos longest_silence_;
  std::unique_ptr<std::atomic<bool>[]> lost_;
  std::unique_ptr<std::atomic<std::uint32_t>[]> incarnations_;
  std::atomic<std::uint64_t> dropped_ = 0;

  std::mutex mutex_;                 // protects the members from parts_ to is_closing_
  std::condition_variable arrived_;  // signals that a part of a meeting arrived, or a rank's loss or restart
  std::condition_variable for_handlers_;
  std::map<Key, Part> parts_;
  // total size of the texts in parts_, which holds ranks' contributions to collective calls
  std::size_t held_bytes_ = 0;
  // each rank's first loss or end; such a rank takes part in no further collective call
  std::vector<std::optional<Notice>> fates_;
  std::vector<bool> is_gone_;
  std::uint64_t next_meeting_ = 0;
  std::deque<Event> events_;
  std::size_t waiting_texts_ = 0;  // number of messages in events_
  std::function<void(std::uint32_t, std::string_view)> message_handler_;
  std::function<void(std::uint32_t)> lost_handler_, back_handler_;
  bool is_closing_ = false;

  std::mutex calling_;  // held while a handler runs; to be locked before mutex_
  std::thread control_thread_;
};

}  // namespace loch::cluster
