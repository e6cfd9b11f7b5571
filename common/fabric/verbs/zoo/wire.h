// The network between processes of one machine: a file that they map, with a byte stream from each process to
// each other, and one bell (a futex) per process, on which its NIC thread sleeps. Messages arrive complete,
// once and in their order; the sender decides which messages are lost. Without a file this process is alone
// and uses only its own bell.
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
  std::uint32_t bytes = 0;  // bytes of data that follow this header in the stream
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

  // Joins the network in file `path` under the next free process number. The error is one line.
  [[nodiscard]] std::expected<void, std::string> open(const std::string& path);
  void close();
  [[nodiscard]] std::uint16_t self() const { return self_; }
  [[nodiscard]] bool is_open() const { return shared_ != nullptr; }

  // Sends a message to process `to` without ever waiting. Any thread may call it.
  void send(std::uint16_t to, const Request& request, std::span<const std::byte> data);
  void send(std::uint16_t to, const Reply& reply, std::span<const std::byte> data);

  // Gets the next message; false if there is none. Called by one thread at a time.
  [[nodiscard]] bool receive(Message& to);
  // Moves bytes that wait in the outboxes into the streams. Returns false if a stream had no room for all of
  // its bytes.
  [[nodiscard]] bool flush();
  [[nodiscard]] std::uint32_t bell();
  // Sleeps, for at most `most` ns, until this process's bell has been rung since bell() returned `seen`.
  void sleep(std::uint32_t seen, Nanos most);
  void wake() { ring(self_); }  // any thread may call it
  // Notes that a thread of the program polls at the time `at`, in ns: it receives messages itself.
  void note_poll(Nanos at) { bell_of(self_).polled.store(at, std::memory_order_relaxed); }

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
    std::atomic<Nanos> polled = 0;  // when a thread of the program polled last; read by senders
  };
  struct Shared {
    std::atomic<std::uint32_t> joined;
    Bell bells[processes_most];
    Stream streams[processes_most][processes_most];  // indices: sender, receiver
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
