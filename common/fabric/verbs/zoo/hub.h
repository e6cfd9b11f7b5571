// What all devices of this process share: the settings, the tables of queue pairs and regions, the NIC's own
// thread for whatever happens later than its cause, and the wire to other processes.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <queue>
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
  Slots<QueuePair> queue_pairs;  // by number
  Slots<Region> regions;         // by key >> 8
  Wire wire;

  // Reads LOCH_ZOO where it has changed, unless a device is open; calls are counted anew. Bad: says so and
  // ends the process with exit status 2.
  void configure();
  // A device was opened or closed; the last one ends the thread.
  void opened();
  void closed();
  // Whether this call of the function is to fail, and why (an errno, or an ibv_wc_status); else 0.
  [[nodiscard]] int fault(Call call);
  [[nodiscard]] std::uint64_t random();
  [[nodiscard]] bool happens(double probability);

  // Open devices.
  void add(Nic* nic);
  void remove(Nic* nic);

  // The queue pair is looked after at that instant.
  void look_later(std::uint32_t qpn, Nanos when);
  // Its sending half is to be flushed, by settle().
  void flush_later(std::uint32_t qpn);
  // With no lock held.
  void settle();

 private:
  struct Look {
    Nanos when;
    std::uint32_t qpn;
    bool operator>(const Look& other) const { return when > other.when; }
  };

  void body();
  void start_thread();
  [[nodiscard]] Nanos look();  // until when nothing is to be done
  void storm(Nanos at);
  void raise_everywhere(ibv_event_type type);
  void heed(const Wire::Message& message);

  std::atomic<std::uint64_t> draws_ = 0;
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

// "zoo: …" on standard error: something that a program must not do, and that a real library would suffer
// silently.
[[gnu::format(printf, 1, 2)]] void complain(const char* format, ...);

// An asynchronous event, to be fetched by ibv_get_async_event.
void raise(Nic& nic, ibv_async_event event);
// Where an address leads, from a device of this process.
[[nodiscard]] Place find_place(const Nic& from, const ibv_ah_attr& path);
// Gives a device that is being opened its addresses.
void set_addresses(Nic& nic);

}  // namespace loch::fabric::verbs::zoo
