// Requests and replies by SEND and RECV, on RC, UC or UD, between a client worker and a server worker.
// Provides posted RECVs on both sides, one outstanding request for each lane (a window slot of a client
// worker), numbers that pair a reply with its request, retries after a time-out or a broken connection, and a
// table of each lane's last request, so that a request that arrives twice is executed once.
//
//   client:  std::byte* out = client.request(lane);  …write…
//            const Reply reply = co_await client.call(lane, to, op, length, stats);
//   server:  const Incoming in = co_await server.next(deadline);
//            std::byte* out = co_await server.reply_buffer();  …write…
//            server.reply(in, length, is_repeatable);
//
// Operation, lane and number of a request are in the immediate, so that the payload is the protocol's alone:
//
//   | 31 … 29 op | 28 server's incarnation | 27 … 20 lane | 19 client's incarnation | 18 … 0 number |
//
// A node's incarnation is the low bit of the number of times that it has restarted with fresh memory. A
// server executes no request that was addressed to its earlier incarnation, because that incarnation may have
// executed it: it refuses the request, and the caller does not know its outcome. A restarted client numbers
// its requests anew.
//
// A lane numbers its requests to each server consecutively. A server with the table answers a number that it
// has executed with the reply that it gave, executes a newer one, and drops an older one, which the network
// may have delayed; a number far behind belongs to a client that was started anew. Replies over most_kept
// bytes are not kept: executing such a request twice has to be harmless.
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

// Known-bad variants of the channel, for mutants that the tests have to find.
struct MessageFlaws {
  bool ignores_server_incarnation =
      false;  // true: a server executes requests that were addressed to its node's earlier incarnation
  bool ignores_client_incarnation = false;  // true: a restarted client is taken for its earlier incarnation
  bool takes_any_number = false;  // true: a late reply is taken for the reply to the lane's next request
  // true: a request that an earlier incarnation may have executed counts as not sent
  bool refused_is_unsent = false;
};

struct MessageShape {
  std::string name;  // the protocol's name: the regions are called NAME.send and NAME.receive
  fabric::Transport transport = fabric::Transport::rc;
  std::uint32_t nodes = 1, client_workers = 1, window = 1, server_workers = 0;
  // as in kv::DeployConfig: nodes with a lower number than this have no clients; 0: all nodes have clients
  std::uint32_t server_nodes = 0;
  std::uint32_t request_bytes = 8, reply_bytes = 8;  // largest sizes in bytes
  std::uint32_t kept_bytes = ~0U;                    // bytes of each message that the simulator stores
  bool is_inline = true;                             // whether messages that are small enough are inlined
  bool signals_every = true;                         // whether inlined SENDs are signaled
  // true: a repeated request is answered from the kept reply; false: it is executed again
  bool drops_duplicates = true;
  Nanos reply_timeout = 20'000'000;  // ns without a reply after which a request is sent again
  Nanos patience = 1'000'000'000;    // ns without a reply after which the caller is told that there is none
  Nanos reconnect_timeout = 20'000'000;
  std::uint32_t first_number = 0;    // a lane's first request has the next higher number
  std::uint32_t reply_buffers = 64;  // reply buffers of a server worker
  MessageFlaws flaws = {};
  // most RECVs of a server worker's pool; the device's depth limits it too
  std::uint32_t most_receives = 512;

  // number of window slots (lanes) of a node's clients
  [[nodiscard]] std::uint32_t lanes() const { return client_workers * window; }
  // The fabric's worker index of server worker `i` of a node: it follows the node's client workers, if any.
  [[nodiscard]] std::uint32_t server_worker(std::uint32_t i) const {
    return (server_nodes == 0 ? client_workers : 0) + i;
  }
  [[nodiscard]] std::uint32_t client_receives() const { return 2 * window + 4; }  // RECVs of a client worker
  [[nodiscard]] std::uint32_t server_receives() const;                            // RECVs of a server worker
  // Offset of a message in its buffer, on both sides: leaves room for UD's GRH, and is aligned.
  static constexpr std::uint32_t head = 64;
  [[nodiscard]] std::uint32_t most_bytes() const {
    return request_bytes > reply_bytes ? request_bytes : reply_bytes;
  }
  [[nodiscard]] std::uint64_t stride() const { return (head + std::uint64_t{most_bytes()} + 63) / 64 * 64; }
  [[nodiscard]] fabric::Elision elision() const;
};

// The regions of one node that hold its message buffers.
struct MessageRegions {
  // a buffer for each client window slot (lane), then reply_buffers for each server worker
  fabric::Region* send = nullptr;
  // receive buffers: client_receives() for each client worker, then server_receives() for each server worker
  fabric::Region* receive = nullptr;
  bool incarnation = false;  // the node's incarnation bit, which flips whenever the node restarts
};
// Registers a node's regions; called before Fabric::exchange. Fails with an error of one line if the device
// cannot carry messages of these sizes over this transport.
[[nodiscard]] Result<MessageRegions> register_messages(fabric::Fabric& fabric, fabric::NodeId node,
                                                       const MessageShape& shape);

// Operation, lane (window slot of the client worker) and number, as encoded in an immediate.
struct MessageTag {
  static constexpr std::uint32_t number_bits = 19, number_mask = (1U << number_bits) - 1;
  // Value of `op` in a reply: the request was addressed to the server's earlier incarnation.
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

// The address of a server worker.
struct ServerAddress {
  fabric::NodeId node = 0;
  std::uint16_t index = 0;  // index of the server worker among those of its node
};

struct Reply {
  enum class Outcome : std::uint8_t {
    answered,
    // no reply came within `patience`; the request may have been executed, or may be executed later
    no_answer,
    not_sent,  // the server cannot be reached, and the request was never sent
  };
  Outcome outcome = Outcome::answered;
  const std::byte* data = nullptr;  // valid until the lane's next call
  std::uint32_t length = 0;
  std::uint32_t retries = 0;
  [[nodiscard]] bool ok() const { return outcome == Outcome::answered; }
};

struct MessageCounters {
  std::uint64_t retries = 0, reconnects = 0, strays = 0;                  // strays: unexpected messages
  std::uint64_t duplicates = 0, stale = 0, replies_lost = 0, served = 0;  // counters of servers only
};

// The channel of one client worker: shared by the worker's lanes (window slots), used on the worker's thread
// only.
class MessageClient {
 public:
  MessageClient(const MessageShape& shape, const MessageRegions& regions, fabric::Worker& worker);
  MessageClient(const MessageClient&) = delete;

  // The buffer for the next request of the lane (window slot), of request_bytes bytes, which the caller may
  // write until call(). Releases the buffer of the last reply.
  [[nodiscard]] std::byte* request(std::uint32_t lane);
  // Sends the first `length` bytes of the request of this lane (window slot) and waits for the reply. Repeats
  // the request if no reply comes.
  [[nodiscard]] coro::Task<Reply> call(std::uint32_t lane, ServerAddress to, std::uint8_t op,
                                       std::uint32_t length, fabric::OpStats* stats);
  [[nodiscard]] const MessageCounters& counters() const { return counters_; }

 private:
  struct Lane : fabric::CompletionSink {
    fabric::WorkRequest request;  // while is_sending, the request and its buffer belong to the NIC
    bool is_sending = false;
    std::coroutine_handle<> sender;
    MessageClient* client = nullptr;
    std::uint32_t index = 0;
    // whether this lane (window slot) waits for a reply, whether the reply has come, and whether the server
    // refused the request
    bool is_waiting = false, is_answered = false, is_refused = false;
    ServerAddress to;
    std::uint32_t number = 0;
    Nanos deadline = 0;
    std::coroutine_handle<> parked;
    // whether this lane (window slot) holds the buffer of its last reply, which the next request() releases
    bool holds = false;
    fabric::Received held;
    // number of the last request to each server worker; key: node << 16 | server worker index
    std::map<std::uint32_t, std::uint32_t> last_number;
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
  bool is_led_ = false;  // whether a coroutine of some window slot receives for all window slots
  // For each server worker (node << 16 | its index): the incarnation bit of its node, as this client knows
  // it; flipped when the server refuses a request.
  std::map<std::uint32_t, bool> incarnations_;
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

// What a server worker keeps from one run of its fabric to the next, each of which has a MessageServer of its
// own: its RECVs stay posted, so that it must not post their buffers a second time, and the numbers of its
// lanes go on. The worker of a restarted node begins with an empty one.
struct ServerMemory {
  static constexpr std::uint32_t most_kept = 16;
  // The last request of a lane (window slot of a client worker), and the reply to it if it is small enough to
  // be kept.
  struct Last {
    bool is_known = false, is_kept = false, client_incarnation = false;
    std::uint32_t number = 0, length = 0;
    std::byte bytes[most_kept];
  };
  bool has_posted = false;
  std::vector<Last> last;  // by lane; empty before the first run
};

// The channel of one server worker.
class MessageServer {
 public:
  // `index` identifies the server worker among those of its node. `memory` is this worker's alone, and
  // outlives the channel.
  MessageServer(const MessageShape& shape, const MessageRegions& regions, fabric::Worker& worker,
                std::uint32_t index, ServerMemory& memory);

  // Waits for the next request that has to be executed. A repeated request is not returned: this function
  // answers it from the kept reply. If its reply was too long to be kept (most_kept bytes), it is returned
  // and executed again.
  [[nodiscard]] coro::Task<Incoming> next(Nanos deadline = fabric::forever);
  // Waits until the buffer of the next reply is free, and returns it.
  [[nodiscard]] coro::Task<std::byte*> reply_buffer();
  // Sends the first `length` bytes of the reply buffer, and posts the request's receive buffer again.
  void reply(const Incoming& to, std::uint32_t length);
  // Drops the request without a reply, as if the connection had broken.
  void drop(const Incoming& request);
  // Waits for the coroutines that the server started and for the completions of its replies, which are
  // written into this object; to be called before the worker's main coroutine ends.
  [[nodiscard]] coro::Task<void> close();
  [[nodiscard]] const MessageCounters& counters() const { return counters_; }

 private:
  using Last = ServerMemory::Last;
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
  ServerMemory& memory_;
  std::vector<bool> is_connecting_;
  coro::Scope scope_;
  MessageCounters counters_;
};

}  // namespace loch::rpc
