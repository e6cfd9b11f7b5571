// The client's end of a write channel: one outstanding request of one lane.
#pragma once

#include <cstdint>
#include <vector>

#include "common/coro/task.h"
#include "common/rpc/write_channel.h"

namespace loch::rpc {

// A server worker of the cluster.
struct ServerId {
  fabric::NodeId node = 0;
  std::uint32_t index = 0;  // among its node's server workers
};

struct WriteReply {
  enum class Outcome : std::uint8_t {
    answered,
    unsent,     // the server cannot be reached, or has not answered an earlier request yet: no effect
    timed_out,  // no reply came; the request may have been executed, or may be yet
    stopping,   // the run is over; as timed_out
  };
  Outcome outcome = Outcome::answered;
  std::uint8_t code = 0;
  std::uint32_t attempts = 0;  // attempts beyond the first
  // The whole reply frame, the caller's until its next request.
  const std::byte* frame = nullptr;
};

// The number of the first request of a client that begins, or comes back, at `now` of its clock, in
// nanoseconds: beyond all that it can have used in an incarnation that began a microsecond or more before.
// `within_turn` says where in the low 16 bits, which a request's trailer has of it, the numbers shall begin;
// 0: anywhere.
std::uint64_t first_number_of_an_incarnation(Nanos now, std::uint64_t within_turn);

class WriteCaller {
 public:
  struct Counts {
    std::uint64_t retries = 0, reconnects = 0, unsent = 0, timeouts = 0, late_frames = 0;
  };

  // `lane` of the worker's node; the channel outlives it. Made on the worker's thread.
  WriteCaller(const WriteChannel& channel, fabric::Worker& worker, std::uint32_t lane);

  // First: is the slot at that server free? If an earlier request is unanswered, asks for its reply again; if
  // an earlier incarnation of this client may have left one there, takes the slot over.
  [[nodiscard]] coro::Task<bool> prepare(ServerId server);
  // Then: where to write a request with this code, up to its sequence number (request_tail_bytes from its
  // end). Whoever is on the server's node writes into the server's slot itself.
  [[nodiscard]] fabric::LocalSlice body(ServerId server, std::uint8_t code);
  // Sends the request that was laid out and waits for the reply.
  [[nodiscard]] coro::Task<WriteReply> call(ServerId server, std::uint8_t code, fabric::OpStats* stats);

  [[nodiscard]] bool is_local(ServerId server) const { return server.node == worker_.node(); }
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  struct Row {
    std::uint64_t sequence = 0;
    std::uint32_t attempt = 0;
    std::uint8_t code = 0;
    bool is_unanswered = false;
    bool was_sent = false;
    bool is_former = false;         // what the slot holds may be of an earlier incarnation of this client
    std::uint32_t incarnation = 0;  // of the server's node, to which the request was sent first
  };

  [[nodiscard]] std::uint32_t row_number(ServerId server) const;
  [[nodiscard]] fabric::LocalSlice frame(ServerId server, std::uint8_t code) const;
  // Gives the row its next request, of which no more is written yet than its number.
  void number(ServerId server, Row* row, std::uint8_t code);
  [[nodiscard]] coro::Task<bool> send(ServerId server, Row* row, fabric::OpStats* stats);
  [[nodiscard]] coro::Task<fabric::WatchOutcome> await_reply(ServerId server, Row* row, Nanos deadline);
  [[nodiscard]] coro::Task<WriteReply> exchange(ServerId server, Row* row, fabric::OpStats* stats);
  [[nodiscard]] coro::Task<bool> reconnect(fabric::NodeId node);
  // Whether the request was sent to a server that has crashed since. The one that came in its place does not
  // know whether it was executed, and must not execute it again.
  [[nodiscard]] bool is_orphaned(ServerId server, const Row& row) const {
    return row.was_sent && row.incarnation != incarnations_[server.node] &&
           !config_.flaws.ignores_incarnations;
  }
  [[nodiscard]] WriteReply answer(ServerId server, Row* row, fabric::OpStats* stats);
  [[nodiscard]] const std::byte* frame_of(const fabric::LocalSlice& slot, std::uint32_t bytes,
                                          bool is_copied);

  const WriteChannel& channel_;
  const ChannelConfig& config_;
  fabric::Worker& worker_;
  const WriteChannel::Node& node_;
  std::uint32_t lane_;
  Arrival arrival_;
  std::vector<Row> rows_;
  std::vector<WriteChannel::Peer> peers_;
  std::vector<std::uint32_t> incarnations_;  // by node: grows when it has come back with fresh memory
  std::vector<std::byte> copied_;            // a reply that is read from a copy
  Counts counts_;
};

}  // namespace loch::rpc
