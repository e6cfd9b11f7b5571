// The network between processes of one machine: a file that they map, with a byte stream from each to each
// and a bell for each, on which its NIC's thread sleeps. Messages arrive whole, once and in their order;
// losses are the sender's to invent. Without a file there is this process alone, and the bell.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "common/fabric/verbs/zoo/nic.h"

namespace loch::fabric::verbs::zoo {

struct Frame {
  std::uint32_t bytes = 0;  // that follow
  std::uint16_t from = 0;
  bool is_reply = false;
  Request request;
  Reply reply;
};

class Wire {
 public:
  static constexpr std::uint16_t processes_most = 32;
  struct Message {
    Frame frame;
    std::vector<std::byte> data;
  };

  // Takes the next place in the network. Error: one line.
  [[nodiscard]] std::expected<void, std::string> open(const std::string& path);
  void close();
  [[nodiscard]] std::uint16_t self() const { return self_; }
  [[nodiscard]] bool is_open() const { return shared_ != nullptr; }

  // Any thread; never waits.
  void send(std::uint16_t to, const Request& request, std::span<const std::byte> data);
  void send(std::uint16_t to, const Reply& reply, std::span<const std::byte> data);

  // The NIC's thread. The next message, where there is one.
  [[nodiscard]] bool receive(Message& to);
  // Sends on what did not fit; false: something still does not.
  [[nodiscard]] bool flush();
  [[nodiscard]] std::uint32_t bell();
  // Until the bell has been rung since it read `seen`, at most so long.
  void sleep(std::uint32_t seen, Nanos most);
  void wake() { ring(self_); }  // any thread

 private:
  struct Stream {
    static constexpr std::size_t size = 1u << 17;
    alignas(64) std::atomic<std::uint64_t> head;
    alignas(64) std::atomic<std::uint64_t> tail;
    alignas(64) std::byte data[size];
  };
  struct Bell {
    alignas(64) std::atomic<std::uint32_t> rung = 0;
    std::atomic<std::uint32_t> is_asleep = 0;
  };
  struct Shared {
    std::atomic<std::uint32_t> joined;
    Bell bells[processes_most];
    Stream streams[processes_most][processes_most];  // from, to
  };
  struct Outbox {
    std::mutex mutex;
    std::vector<std::byte> waiting;
  };

  void send(std::uint16_t to, Frame frame, std::span<const std::byte> data);
  void pump(std::uint16_t to, Outbox& outbox);
  void ring(std::uint16_t process);
  [[nodiscard]] Bell& bell_of(std::uint16_t process) {
    return shared_ == nullptr ? own_ : shared_->bells[process];
  }

  Bell own_;
  Shared* shared_ = nullptr;
  std::uint16_t self_ = 0;
  std::array<Outbox, processes_most> outboxes_;
  std::array<std::vector<std::byte>, processes_most> inboxes_;
};

}  // namespace loch::fabric::verbs::zoo
