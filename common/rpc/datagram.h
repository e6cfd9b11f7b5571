// Replies by UD SEND, as HERD sends them: what a server worker needs to send many small datagrams, and a
// client worker to receive them for all of its window slots.
//
//   server:  if (!sender.has_room()) co_await sender.room();
//            std::byte* out = sender.buffer();  …write…
//            sender.send(to, length);            // goes out with its posting list
//            sender.flush();                     // posts the SENDs still in the list
//
//   client:  co_await desk.wait(slot, deadline); // the reader has taken the reply
//
// Sending (HERD 2014, section 4.3; Kalia et al. 2016, sections 3.1 to 3.3 and 4.1): payloads below a limit
// are inlined, larger ones are fetched by the NIC; one SEND in `signal_every` asks for a completion, which
// shows that the SENDs before it have ended too; SENDs are posted in lists of up to `list_most` with one
// doorbell; lists take the lanes (queue pairs) in turn.
#pragma once

#include <coroutine>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/coro/task.h"
#include "common/fabric/fabric.h"

namespace loch::rpc {

struct DatagramShape {
  std::uint32_t message_bytes = 64;  // bytes of the largest payload
  std::uint32_t list_most = 1;       // largest number of SENDs that one doorbell posts
  // one SEND in this many is signaled; limited to half of a queue pair's share of the send queue
  std::uint32_t signal_every = 64;
  std::uint8_t lanes = 1;            // number of UD queue pairs, over which successive posting lists rotate
  std::uint32_t inline_below = 144;  // payloads below this many bytes are inlined, if the device supports it
  // largest number of outstanding SENDs on all queue pairs together; the depth of the send queues is a
  // further limit
  std::uint32_t queue_depth = 128;

  [[nodiscard]] std::uint32_t stride() const { return (message_bytes + 63) / 64 * 64; }
  // The bytes of memory in which a sender keeps its outstanding messages.
  [[nodiscard]] std::uint64_t bytes() const { return std::uint64_t{queue_depth} * stride(); }
};

// The address of a worker that receives datagrams.
struct DatagramAddress {
  fabric::NodeId node = 0;
  std::uint16_t worker = 0;
};

struct DatagramCounts {
  std::uint64_t sent = 0, inlined = 0, signaled = 0, lists = 0, failed = 0;
};

// Sends datagrams. Used on its worker's thread only; has to outlive the run.
class DatagramSender {
 public:
  // `region` needs `bytes()` bytes from `at` (a multiple of 64) on, in which messages are written.
  DatagramSender(fabric::Worker& worker, const DatagramShape& shape, fabric::Region& region,
                 std::uint64_t at);
  DatagramSender(const DatagramSender&) = delete;
  DatagramSender& operator=(const DatagramSender&) = delete;

  class Room;
  [[nodiscard]] bool has_room() const { return line_->used < depth_; }
  // Posts the prepared SENDs and waits until one has ended and its place in the send queue is free. Only one
  // coroutine may wait at a time.
  [[nodiscard]] Room room();
  // The place for the next message, of message_bytes bytes, which the caller may write until send(). Requires
  // has_room().
  [[nodiscard]] std::byte* buffer() const {
    if (!has_room()) [[unlikely]]
      refuse(0);
    return line_->next->request.local.data();
  }
  // Adds a SEND of the first `length` bytes of the buffer to the posting list. Posts the list when it is
  // full.
  void send(DatagramAddress to, std::uint32_t length, std::optional<std::uint32_t> immediate = std::nullopt) {
    send(to, length, immediate.has_value(), immediate.value_or(0));
  }
  // `immediate` is 0 if there is none.
  void send(DatagramAddress to, std::uint32_t length, bool has_immediate, std::uint32_t immediate);
  // Posts the SENDs that are in the list, if any.
  void flush() {
    if (listed_ != 0) post_list();
  }

  [[nodiscard]] const DatagramCounts& counts() const { return counts_; }
  [[nodiscard]] const DatagramShape& shape() const { return shape_; }

 private:
  // One UD queue pair, with a ring of its outstanding SENDs.
  struct Line;
  struct Entry : fabric::CompletionSink {
    fabric::WorkRequest request;
    DatagramSender* sender = nullptr;
    Line* line = nullptr;
    Entry* following = nullptr;  // the entry behind this one in the ring
    std::uint32_t place = 0;
  };
  struct Line {
    std::vector<Entry> ring;
    Entry* next = nullptr;      // the entry of the next SEND
    Line* following = nullptr;  // the line of the posting list behind the one that this line sends
    std::uint32_t used = 0, oldest = 0, since_signaled = 0;
  };
  [[gnu::noinline]] void post_list();
  [[noreturn, gnu::cold, gnu::noinline]] void refuse(std::uint32_t length) const;
  static void completed(fabric::CompletionSink* sink, fabric::WorkRequest& done);

  fabric::Worker& worker_;
  DatagramShape shape_;
  std::uint32_t depth_;  // send queue entries that each UD queue pair may use
  std::vector<Line> lines_;
  // the UD queue pair on which the list that is being filled will be posted
  Line* line_ = nullptr;
  // The posting list: its first request, the place for the pointer to the next one, and its length.
  fabric::WorkRequest* first_ = nullptr;
  fabric::WorkRequest** end_ = &first_;
  std::uint32_t listed_ = 0;
  std::coroutine_handle<> waiter_;
  DatagramCounts counts_;
};

class DatagramSender::Room {
 public:
  explicit Room(DatagramSender& sender) : sender_(sender) {}
  [[nodiscard]] bool await_ready() const noexcept { return sender_.has_room(); }
  void await_suspend(std::coroutine_handle<> waiter) {
    LOCH_CHECK(!sender_.waiter_, "one coroutine waits for room");
    sender_.waiter_ = waiter;
  }
  void await_resume() const noexcept {}

 private:
  DatagramSender& sender_;
};

// Processes messages on behalf of the coroutines that wait for them.
class DatagramReader {
 public:
  // Called for every message when it arrives; returns the number of the waiter whose wait() it ends, if any.
  // The payload belongs to the NIC again after the return.
  [[nodiscard]] virtual std::optional<std::uint32_t> read(const fabric::Received& message,
                                                          const std::byte* payload) = 0;

 protected:
  ~DatagramReader() = default;
};

// The receive buffers of one client worker, and the worker's window slots that wait for messages. One of the
// waiting coroutines receives for all of them. RECVs are posted before the first request, and again as soon
// as a message was read, because a datagram that finds no RECV is lost.
class ReplyDesk {
 public:
  struct Shape {
    std::uint32_t payload_bytes = 64;  // bytes of the largest message
    std::uint32_t buffers = 8;
    std::uint32_t waiters = 1;
    Nanos slice = 1'000'000;  // ns; longest time between two checks of deadlines
    [[nodiscard]] std::uint32_t stride() const { return (grh_bytes + payload_bytes + 63) / 64 * 64; }
    [[nodiscard]] std::uint64_t bytes() const { return std::uint64_t{buffers} * stride(); }
  };
  static constexpr std::uint32_t grh_bytes = 40;  // the global routing header at the start of a UD buffer

  // The receive buffers take `bytes()` bytes of the region from `at` on. `reader` has to outlive this object.
  ReplyDesk(fabric::Worker& worker, const Shape& shape, fabric::Region& region, std::uint64_t at,
            DatagramReader& reader);
  ReplyDesk(const ReplyDesk&) = delete;
  ReplyDesk& operator=(const ReplyDesk&) = delete;

  enum class Outcome : std::uint8_t { answered, timed_out, stopping, leads };
  // To be called before the waiter's request is posted: from then on, an arriving reply ends the waiter's
  // wait in park() or lead().
  void expect(std::uint32_t waiter) { waiters_[waiter].is_answered = false; }
  // Waits until the coroutine that reads arrivals has found the reply for `waiter`, for which expect() was
  // called before. To be called on the worker's thread. Never ends with Outcome::leads.
  [[nodiscard]] coro::Task<Outcome> wait(std::uint32_t waiter, Nanos deadline);
  // The same in two parts, so that most replies need no coroutine of their own. If park() ends with
  // Outcome::leads, because no other coroutine reads arrivals, the caller has to await lead() next.
  class Park;
  [[nodiscard]] Park park(std::uint32_t waiter, Nanos deadline);
  [[nodiscard]] coro::Task<Outcome> lead(std::uint32_t waiter, Nanos deadline);

 private:
  enum class Wake : std::uint8_t { none, answered, timed_out, leads };
  struct Waiter {
    std::coroutine_handle<> parked;
    Nanos deadline = fabric::forever;
    bool is_answered = false;
    Wake wake = Wake::none;
    Waiter* sooner = nullptr;  // neighbours in the list of suspended waiters, which is ordered by deadline
    Waiter* later = nullptr;
  };
  void post(std::uint32_t buffer);
  void take(const fabric::Received& message);
  void list(Waiter& waiter);
  void unlist(Waiter& waiter);
  void wake(Waiter& waiter, Wake why);
  void wake_expired(Nanos now);
  void resign();
  [[nodiscard]] Nanos earliest(Nanos deadline, Nanos now) const;

  fabric::Worker& worker_;
  Shape shape_;
  fabric::Region& region_;
  std::uint64_t at_;
  DatagramReader& reader_;
  std::vector<Waiter> waiters_;
  // list of the waiters whose coroutines are suspended, ordered by their deadlines
  Waiter* soonest_ = nullptr;
  Waiter* latest_ = nullptr;
  bool is_led_ = false;
};

// Suspends a coroutine until another one resumes it with a reason (Wake).
class ReplyDesk::Park {
 public:
  Park(ReplyDesk& desk, Waiter& waiter, Nanos deadline) : desk_(desk), waiter_(waiter), deadline_(deadline) {}
  [[nodiscard]] bool await_ready() noexcept {
    if (!waiter_.is_answered && desk_.is_led_) [[likely]]
      return false;
    waiter_.wake = waiter_.is_answered ? Wake::answered : Wake::leads;
    return true;
  }
  void await_suspend(std::coroutine_handle<> self) noexcept {
    waiter_.parked = self;
    waiter_.deadline = deadline_;
    desk_.list(waiter_);
  }
  [[nodiscard]] Outcome await_resume() const noexcept {
    if (waiter_.wake == Wake::answered || (waiter_.wake == Wake::timed_out && waiter_.is_answered)) [[likely]]
      return Outcome::answered;
    return waiter_.wake == Wake::leads ? Outcome::leads : Outcome::timed_out;
  }

 private:
  ReplyDesk& desk_;
  Waiter& waiter_;
  Nanos deadline_;
};

inline ReplyDesk::Park ReplyDesk::park(std::uint32_t waiter, Nanos deadline) {
  return {*this, waiters_[waiter], deadline};
}

// Enters a waiter, whose coroutine is about to be suspended, into the list ordered by deadline. Deadlines
// mostly grow, so the search for its place begins at the end.
inline void ReplyDesk::list(Waiter& waiter) {
  Waiter* before = latest_;
  while (before != nullptr && before->deadline > waiter.deadline) before = before->sooner;
  waiter.sooner = before;
  waiter.later = before != nullptr ? before->later : soonest_;
  (before != nullptr ? before->later : soonest_) = &waiter;
  (waiter.later != nullptr ? waiter.later->sooner : latest_) = &waiter;
}

}  // namespace loch::rpc
