// Requests and replies by SEND and RECV, on RC, UC or UD: what a client worker and a server worker need
// to talk. Posted receive pools on both sides, one request at a time a lane (a window slot of a client
// worker), numbers that pair a reply with its request, retries after a time-out or a broken connection,
// and a table of what each lane asked last, so that a request that comes twice is executed once.
//
//   client:  std::byte* out = client.request(lane);  …write…
//            const Reply reply = co_await client.call(lane, to, op, length, stats);
//   server:  const Incoming in = co_await server.next(deadline);
//            std::byte* out = co_await server.reply_buffer();  …write…
//            server.reply(in, length, is_repeatable);
//
// What identifies a request (operation, lane, number) goes in the immediate, so that the payload is the
// protocol's alone:
//
//   | 31 … 29 op | 28 server's incarnation | 27 … 20 lane | 19 client's incarnation | 18 … 0 number |
//
// A node's incarnation is the low bit of how often it has come back with fresh memory. A server executes no
// request that was meant for its former incarnation, whose server may have executed it: it says so, and the
// caller does not know what became of it. A client's new incarnation numbers its requests anew.
//
// A lane numbers its requests to each server by themselves, one after the other. A server that keeps the
// table answers a number that it has seen with the reply that it gave, executes a newer one, and drops an
// older one, which a network may have held back; one that is far behind comes from a client that started
// anew. Replies over most_kept bytes are not kept: their requests must bear being executed again.
#pragma once

#include <coroutine>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/coro/scope.h"
#include "common/coro/task.h"
#include "common/fabric/fabric.h"

namespace loch::rpc {

// Ways to break it, for mutants: each must be found.
struct MessageFlaws {
  bool ignores_server_incarnation =
      false;  // a server executes what was meant for its node's former incarnation
  bool ignores_client_incarnation = false;  // a client that came back is taken for the one before it
  bool takes_any_number = false;            // a late reply counts for the lane's next request
  bool refused_is_unsent = false;  // what a former incarnation may have executed counts as never sent
};

struct MessageShape {
  std::string name;  // of the protocol: its regions are called name.send and name.receive
  fabric::Transport transport = fabric::Transport::rc;
  std::uint32_t nodes = 1, client_workers = 1, window = 1, server_workers = 0;
  std::uint32_t server_nodes = 0;  // kv::DeployConfig's: the first so many nodes have no clients; 0: all have
  std::uint32_t request_bytes = 8, reply_bytes = 8;  // the largest
  std::uint32_t kept_bytes = ~0U;                    // bytes of each message that the simulator stores
  bool is_inline = true;                             // messages that fit are inlined
  bool signals_every = true;                         // false: SENDs are unsignaled where they are inlined
  bool drops_duplicates = true;                      // false: a repeated request is executed again
  Nanos reply_timeout = 20'000'000;                  // until a request is sent again
  Nanos patience = 1'000'000'000;                    // until the caller is told that no reply came
  Nanos reconnect_timeout = 20'000'000;
  std::uint32_t first_number = 0;    // where each lane's numbers begin
  std::uint32_t reply_buffers = 64;  // a server worker
  MessageFlaws flaws = {};
  std::uint32_t most_receives = 512;  // of a server worker's pool; the device's depth caps it too

  [[nodiscard]] std::uint32_t lanes() const { return client_workers * window; }  // a node
  // The fabric's index of a server worker of a node, behind its clients if it has any.
  [[nodiscard]] std::uint32_t server_worker(std::uint32_t i) const {
    return (server_nodes == 0 ? client_workers : 0) + i;
  }
  [[nodiscard]] std::uint32_t client_receives() const { return 2 * window + 4; }  // a client worker
  [[nodiscard]] std::uint32_t server_receives() const;                            // a server worker
  // A message begins `head` bytes into its buffer, on both sides: room for UD's GRH, and aligned.
  static constexpr std::uint32_t head = 64;
  [[nodiscard]] std::uint32_t most_bytes() const {
    return request_bytes > reply_bytes ? request_bytes : reply_bytes;
  }
  [[nodiscard]] std::uint64_t stride() const { return (head + std::uint64_t{most_bytes()} + 63) / 64 * 64; }
  [[nodiscard]] fabric::Elision elision() const;
};

// The buffers of one node.
struct MessageRegions {
  fabric::Region* send = nullptr;     // a lane each, then reply_buffers a server worker
  fabric::Region* receive = nullptr;  // client_receives a client worker, then server_receives a server worker
  bool incarnation = false;           // the node's, as above
};
// Before Fabric::exchange. Refuses what the device cannot carry, in one line.
[[nodiscard]] Result<MessageRegions> register_messages(fabric::Fabric& fabric, fabric::NodeId node,
                                                       const MessageShape& shape);

// Operation, lane and number in one immediate.
struct MessageTag {
  static constexpr std::uint32_t number_bits = 19, number_mask = (1U << number_bits) - 1;
  // Of a reply: 0, or that the request was meant for the server's former incarnation.
  static constexpr std::uint8_t refusal = 1;
  std::uint8_t op = 0;  // 0 … 7
  std::uint8_t lane = 0;
  std::uint32_t number = 0;
  bool server_incarnation = false, client_incarnation = false;
  [[nodiscard]] std::uint32_t pack() const {
    return std::uint32_t{op} << 29 | std::uint32_t{server_incarnation} << 28 | std::uint32_t{lane} << 20 |
           std::uint32_t{client_incarnation} << number_bits | number;
  }
  [[nodiscard]] static MessageTag unpack(std::uint32_t word) {
    return {static_cast<std::uint8_t>(word >> 29), static_cast<std::uint8_t>(word >> 20), word & number_mask,
            (word >> 28 & 1) != 0, (word >> number_bits & 1) != 0};
  }
};

// A server worker, as clients name it.
struct ServerAddress {
  fabric::NodeId node = 0;
  std::uint16_t index = 0;  // of the server among its node's servers
};

struct Reply {
  enum class Outcome : std::uint8_t {
    answered,
    no_answer,  // patience is over; the request may have been executed, or may yet be
    not_sent,   // the server cannot be reached and nothing was ever sent
  };
  Outcome outcome = Outcome::answered;
  const std::byte* data = nullptr;  // valid until the lane's next call
  std::uint32_t length = 0;
  std::uint32_t retries = 0;
  [[nodiscard]] bool ok() const { return outcome == Outcome::answered; }
};

struct MessageCounters {
  std::uint64_t retries = 0, reconnects = 0, strays = 0;                  // clients
  std::uint64_t duplicates = 0, stale = 0, replies_lost = 0, served = 0;  // servers
};

// What one client worker keeps; shared by its lanes, used on its thread alone.
class MessageClient {
 public:
  MessageClient(const MessageShape& shape, const MessageRegions& regions, fabric::Worker& worker);
  MessageClient(const MessageClient&) = delete;

  // Where the lane's next request goes; its request_bytes are the caller's until call(). Gives the last
  // reply's bytes back.
  [[nodiscard]] std::byte* request(std::uint32_t lane);
  // Sends the first `length` bytes of the lane's request and waits for the reply. Sends the same again
  // when none comes.
  [[nodiscard]] coro::Task<Reply> call(std::uint32_t lane, ServerAddress to, std::uint8_t op,
                                       std::uint32_t length, fabric::OpStats* stats);
  [[nodiscard]] const MessageCounters& counters() const { return counters_; }

 private:
  struct Lane : fabric::CompletionSink {
    fabric::WorkRequest request;  // belongs to the NIC, like its buffer, while is_sending
    bool is_sending = false;
    std::coroutine_handle<> sender;
    MessageClient* client = nullptr;
    std::uint32_t index = 0;
    // The reply that is waited for.
    bool is_waiting = false, is_answered = false, is_refused = false;
    ServerAddress to;
    std::uint32_t number = 0;
    Nanos deadline = 0;
    std::coroutine_handle<> parked;
    // The reply's buffer, held until the next call.
    bool holds = false;
    fabric::Received held;
    std::map<std::uint32_t, std::uint32_t> last_number;  // by the server's index
  };
  class Sent;
  class Park;
  void post_receives();
  void repost(const fabric::Received& message);
  [[nodiscard]] coro::Task<bool> send(Lane* lane, MessageTag tag, std::uint32_t length,
                                      fabric::OpStats* stats);
  [[nodiscard]] coro::Task<void> await_reply(Lane* lane, Nanos deadline);
  [[nodiscard]] coro::Task<bool> connect(fabric::NodeId peer, Nanos deadline);
  void take(const fabric::Received& message);
  void wake_ready();
  void wake_leader();
  [[nodiscard]] Nanos earliest_deadline() const;

  const MessageShape& shape_;
  MessageRegions regions_;
  fabric::Worker& worker_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  bool has_posted_ = false;
  bool is_led_ = false;  // some lane receives for all
  std::map<std::uint32_t, bool>
      incarnations_;  // incarnation bit of each server's node, as last seen in a reply
  MessageCounters counters_;
};

struct Incoming {
  enum class Outcome : std::uint8_t { request, timed_out, stopping };
  Outcome outcome = Outcome::request;
  std::uint8_t op = 0;
  const std::byte* data = nullptr;  // valid until reply() or drop()
  std::uint32_t length = 0;
  fabric::Received message;
  MessageTag tag;
};

// What one server worker keeps.
class MessageServer {
 public:
  static constexpr std::uint32_t most_kept = 16;

  // `index` among its node's servers.
  MessageServer(const MessageShape& shape, const MessageRegions& regions, fabric::Worker& worker,
                std::uint32_t index);

  // The next request to execute. Repeated ones are answered here.
  [[nodiscard]] coro::Task<Incoming> next(Nanos deadline = fabric::forever);
  // The buffer of the next reply.
  [[nodiscard]] coro::Task<std::byte*> reply_buffer();
  // Sends the first `length` bytes of the reply buffer. The request's buffer goes back to the pool.
  void reply(const Incoming& to, std::uint32_t length);
  // No reply: as if its connection had broken before.
  void drop(const Incoming& request);
  // Waits for what runs alongside; before the worker's main ends.
  [[nodiscard]] coro::Task<void> close();
  [[nodiscard]] const MessageCounters& counters() const { return counters_; }

 private:
  // The last request of a lane, and the reply to it if it is small.
  struct Last {
    bool is_known = false, is_kept = false, client_incarnation = false;
    std::uint32_t number = 0, length = 0;
    std::byte bytes[most_kept];
  };
  struct Buffer : fabric::CompletionSink {
    fabric::WorkRequest request;
    bool is_sending = false;
    MessageServer* server = nullptr;
  };
  class BufferFree;
  enum class Verdict : std::uint8_t { execute, again, stale };
  void post_receives();
  void repost(const fabric::Received& message);
  [[nodiscard]] Last& last_of(const fabric::Received& message, std::uint8_t lane);
  [[nodiscard]] bool is_sane(const fabric::Received& message) const;
  [[nodiscard]] Verdict judge(const Last& last, MessageTag tag) const;
  [[nodiscard]] coro::Task<void> refuse(Incoming request);
  void transmit(const fabric::Received& to, MessageTag tag, std::uint32_t length);
  [[nodiscard]] coro::Task<void> answer_again(Incoming request, const Last* last);
  [[nodiscard]] coro::Task<void> connect(fabric::NodeId peer);

  const MessageShape& shape_;
  MessageRegions regions_;
  fabric::Worker& worker_;
  std::uint64_t send_base_ = 0, receive_base_ = 0;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::uint32_t next_buffer_ = 0;
  std::coroutine_handle<> waits_for_buffer_;
  std::vector<Last> last_;
  std::vector<bool> is_connecting_;
  coro::Scope scope_;
  bool has_posted_ = false;
  MessageCounters counters_;
};

}  // namespace loch::rpc
