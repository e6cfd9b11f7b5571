// What all emulated devices of this process share (the hub): the settings, the tables of queue pairs and
// regions, the NIC thread for delayed work, and the connection to other processes.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <expected>
#include <memory>
#include <mutex>
#include <queue>
#include <string>
#include <thread>
#include <vector>

#include "common/fabric/verbs/zoo/nic.h"
#include "common/fabric/verbs/zoo/settings.h"
#include "common/fabric/verbs/zoo/slots.h"
#include "common/fabric/verbs/zoo/wire.h"

namespace loch::fabric::verbs::zoo {

class Hub {
 public:
  Hub();

  Settings settings;
  std::vector<std::unique_ptr<Device>> devices;
  Slots<QueuePair> queue_pairs;  // keyed by queue pair number
  Slots<Region> regions;         // keyed by lkey >> 8
  Wire wire;

  // Reads the environment variable LOCH_ZOO if it has changed and no device is open, and resets the counts of
  // calls. On a bad value, prints one line and ends the process with exit status 2.
  void configure();
  // opened() and closed() are called for each device that is opened and closed. closed() ends the NIC thread
  // after the last open device.
  void opened();
  void closed();
  // Counts one event of the kind `call`: a call of a function of libibverbs, a posted request or a
  // completion. Returns 0, or the injected error if this event is to fail: an errno, or for Call::completion
  // an ibv_wc_status.
  [[nodiscard]] int fault(Call call);
  // Counts a successful request, and raises the asynchronous events that are set for this number of requests.
  void went_well(const QueuePair& qp);
  // Counts a completion. Returns whether it is to be dropped instead of delivered (Settings::swallow).
  [[nodiscard]] bool swallows();
  [[nodiscard]] std::uint64_t random();
  [[nodiscard]] bool happens(double probability);

  // add() enters an open device into the list of devices that get the events of raise_everywhere(); remove()
  // takes it out of that list.
  void add(Nic* nic);
  void remove(Nic* nic);

  // Handles messages of other processes on the calling thread, which polls and holds no lock, so that they do
  // not wait for the NIC thread to get a core.
  void assist();
  // Makes the NIC thread, at time `when`, check the reply deadline of the queue pair and execute its due
  // requests.
  void look_later(std::uint32_t qpn, Nanos when);
  // Marks the queue pair, so that the next call of settle() flushes its send queue.
  void flush_later(std::uint32_t qpn);
  // Flushes the send queues that flush_later() named. Takes the send_mutex of each, so the caller must hold
  // no lock.
  void settle();

 private:
  struct Look {
    Nanos when;
    std::uint32_t qpn;
    bool operator>(const Look& other) const { return when > other.when; }
  };

  // A reply that Settings::reply_late_ns delays.
  struct LateReply {
    Nanos when;
    std::uint16_t to;
    Reply reply;
    std::vector<std::byte> data;
  };

  [[nodiscard]] std::expected<void, std::string> open_counters();
  void body();
  void start_thread();
  // handles the queue pairs whose look_later() time has come; returns the next such time
  [[nodiscard]] Nanos look();
  void storm(Nanos at);
  void raise_everywhere(ibv_event_type type);
  void heed(const Wire::Message& message);
  void send_late_replies();

  std::atomic<std::uint64_t> draws_ = 0, well_ = 0, delivered_ = 0;
  std::array<std::atomic<std::uint64_t>, calls_count> calls_{};
  std::mutex control_mutex_;
  std::string read_;
  int open_devices_ = 0;
  std::atomic<bool> is_stopping_ = false, has_thread_ = false;
  std::thread thread_;

  std::mutex receive_mutex_;
  Wire::Message message_;               // the message that is handled, under receive_mutex_
  std::deque<LateReply> late_replies_;  // in the order of `when`, under receive_mutex_
  std::mutex nics_mutex_;
  std::vector<Nic*> nics_;
  std::mutex looks_mutex_;
  std::priority_queue<Look, std::vector<Look>, std::greater<>> looks_;
  std::mutex flushes_mutex_;
  std::vector<std::uint32_t> flushes_;
  std::atomic<bool> has_flushes_ = false;
  Nanos next_event_ = 0;
};

[[nodiscard]] Hub& hub();

// Prints "zoo: …" to standard error: an error of the calling program, which a real library would not report.
[[gnu::format(printf, 1, 2)]] void complain(const char* format, ...);

// Queues an asynchronous event for ibv_get_async_event.
void raise(Nic& nic, ibv_async_event event);
// The network address of the port to which `path` leads from the device `from` of this process.
[[nodiscard]] Place find_place(const Nic& from, const ibv_ah_attr& path);
// Gives a device that is being opened its LID and GIDs.
void set_addresses(Nic& nic);

}  // namespace loch::fabric::verbs::zoo
