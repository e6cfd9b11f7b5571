// What all emulated devices of this process share: the settings, the tables of queue pairs and regions, the
// NIC thread for delayed work, and the connection to other processes.
#pragma once

#include <array>
#include <atomic>
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
  Slots<QueuePair> queue_pairs;  // by queue pair number
  Slots<Region> regions;         // by lkey >> 8
  Wire wire;

  // Reads the environment variable LOCH_ZOO if it has changed and no device is open, and resets the counts of
  // calls. On a bad value, prints one line and ends the process with exit status 2.
  void configure();
  // Counts the open devices up or down. closed() ends the NIC thread after the last one.
  void opened();
  void closed();
  // Counts a call of the function. Returns the injected error (an errno; for `completion`, an ibv_wc_status)
  // if this call is to fail, else 0.
  [[nodiscard]] int fault(Call call);
  // Counts a request that went well, and raises the events that are due after it.
  void went_well(const QueuePair& qp);
  // Counts a completion that is to be delivered. Returns whether it is swallowed.
  [[nodiscard]] bool swallows();
  [[nodiscard]] std::uint64_t random();
  [[nodiscard]] bool happens(double probability);

  // Add an open device to, and remove it from, the list that is used for events that concern all devices.
  void add(Nic* nic);
  void remove(Nic* nic);

  // The NIC thread will check the queue pair's time-outs and execute what is due at time `when`.
  void look_later(std::uint32_t qpn, Nanos when);
  // Marks the queue pair, whose sending half settle() will flush.
  void flush_later(std::uint32_t qpn);
  // Flushes the marked queue pairs. Called with no lock held, since it takes their send_mutex.
  void settle();

 private:
  struct Look {
    Nanos when;
    std::uint32_t qpn;
    bool operator>(const Look& other) const { return when > other.when; }
  };

  [[nodiscard]] std::expected<void, std::string> open_counters();
  void body();
  void start_thread();
  [[nodiscard]] Nanos look();  // returns the time of the next due queue pair
  void storm(Nanos at);
  void raise_everywhere(ibv_event_type type);
  void heed(const Wire::Message& message);

  std::atomic<std::uint64_t> draws_ = 0, well_ = 0, delivered_ = 0;
  std::array<std::atomic<std::uint64_t>, calls_count> calls_{};
  std::mutex control_mutex_;
  std::string read_;
  int open_devices_ = 0;
  std::atomic<bool> is_stopping_ = false, has_thread_ = false;
  std::thread thread_;

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
// The port that an address leads to, seen from a device of this process.
[[nodiscard]] Place find_place(const Nic& from, const ibv_ah_attr& path);
// Gives a device that is being opened its LID and GIDs.
void set_addresses(Nic& nic);

}  // namespace loch::fabric::verbs::zoo
