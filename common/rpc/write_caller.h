// The client's end of a write channel (requests and replies by WRITE), for one window slot (lane): one
// outstanding request at a time.
#pragma once

#include <algorithm>
#include <coroutine>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/coro/task.h"
#include "common/fabric/memory.h"
#include "common/rpc/write_channel.h"

namespace loch::rpc {

// A server worker of the cluster.
struct ServerId {
  fabric::NodeId node = 0;
  std::uint32_t index = 0;  // identifies the server worker among those of its node
};

struct WriteReply {
  enum class Outcome : std::uint8_t {
    answered,
    unsent,     // no effect: never sent, because the server could not be reached
    timed_out,  // no reply came; the request may have been executed, or may be executed later
    stopping,   // the run ended without a reply; the request may have been executed
  };
  Outcome outcome = Outcome::answered;
  std::uint8_t code = 0;
  std::uint32_t attempts = 0;  // attempts beyond the first
  // The whole reply frame, valid until the caller's next request.
  const std::byte* frame = nullptr;
};

// Returns the number after which a client numbers its requests, if it starts or restarts when its clock says
// `now` ns. The result is above every number that an earlier incarnation of the client used, if that
// incarnation began at least a microsecond before. `within_turn`: the low 16 bits of the result, for tests of
// wrap-around; 0: they come from the clock.
std::uint64_t first_number_of_an_incarnation(Nanos now, std::uint64_t within_turn);

class WriteCaller {
 public:
  struct Counts {
    std::uint64_t retries = 0, reconnects = 0, unsent = 0, timeouts = 0, late_frames = 0;
  };

  // Makes the caller for window slot number `lane` of the worker's node, on the worker's thread. The channel
  // has to outlive the caller.
  WriteCaller(const WriteChannel& channel, fabric::Worker& worker, std::uint32_t lane);

  // First step of a request: returns whether this client's request slot at the server is free. If an earlier
  // request is unanswered, asks for its reply again. If an earlier incarnation of this client may have left a
  // request in the slot, takes the slot over: a short request, once answered, ensures that no earlier request
  // of the slot will be executed.
  [[nodiscard]] coro::Task<bool> prepare(ServerId server);
  // Whether the slot is free without anything to be done, so that prepare() need not be called.
  [[nodiscard]] bool is_prepared(ServerId server) const {
    const Row& row = rows_[row_number(server)];
    return !row.is_former && (!row.is_unanswered || config_.flaws.rewrites_unanswered);
  }
  // Second step of a request, after prepare(): returns where the caller writes the request's body, which ends
  // request_tail_bytes before the frame's end. If the server is on this node, this place is in the server's
  // slot itself.
  [[nodiscard]] fabric::LocalSlice body(ServerId server, std::uint8_t code);
  // Third step of a request, after prepare() and body(): sends the request and waits for the reply.
  [[nodiscard]] coro::Task<WriteReply> call(ServerId server, std::uint8_t code, fabric::OpStats* stats);
  // The same in two parts, so that the common case needs no coroutine of its own: awaiting try_call() sends
  // the request and waits for a reply once. If the result has no reply, settle() has to follow, which goes on
  // as call() does.
  class FirstTry;
  struct Tried;
  [[nodiscard]] FirstTry try_call(ServerId server, std::uint8_t code, fabric::OpStats* stats);
  [[nodiscard]] coro::Task<WriteReply> settle(ServerId server, Tried tried, fabric::OpStats* stats);

  [[nodiscard]] bool is_local(ServerId server) const { return server.node == worker_.node(); }
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  struct Row {
    std::uint64_t sequence = 0;
    std::uint32_t attempt = 0;
    std::uint8_t code = 0;
    bool is_unanswered = false;
    bool was_sent = false;
    bool is_former = false;  // whether the slot may hold a request of an earlier incarnation of this client
    std::uint32_t incarnation = 0;  // incarnation of the server's node when the request was first sent
    // Offsets of the ends of the frames (a frame is right-aligned): of the request in `requests`, where the
    // client prepares it; of the request in the server's slot; of the reply in this node's reply region.
    fabric::Region* requests = nullptr;
    std::uint64_t request_end = 0, remote_end = 0, reply_end = 0;
  };

  [[nodiscard]] std::uint32_t row_number(ServerId server) const;
  [[nodiscard]] Row row_of(ServerId server) const;
  [[nodiscard]] fabric::LocalSlice frame(const Row& row, std::uint8_t code) const {
    return {row.requests, row.request_end - config_.request_bytes[code]};
  }
  // Chooses number and code of the next request to the row's server, stores both in `row`, and writes the
  // number into the request's frame.
  void number(Row* row, std::uint8_t code);
  // Sends the request for the first time, without a coroutine of its own. Returns false if it sent nothing,
  // because that needs an await; then send() has to send it.
  [[nodiscard]] bool sends_at_once(ServerId server, Row* row, fabric::OpStats* stats);
  void post(ServerId server, Row* row, const fabric::WorkRequest& write);
  [[nodiscard]] fabric::WorkRequest write_of(ServerId server, const Row& row, fabric::OpStats* stats) const;
  [[nodiscard]] coro::Task<bool> send(ServerId server, Row* row, fabric::OpStats* stats);
  [[nodiscard]] Arrival arrival_from(ServerId server) const {
    return is_local(server) ? Arrival::by_trailer : arrival_;
  }
  // Whether a simulation charges CPU time for checking frames.
  [[nodiscard]] bool is_check_charged() const {
    constexpr std::uint64_t large_frame = 1 << 20;
    return arrival_ == Arrival::by_check && worker_.costs().hash(large_frame) > 0;
  }
  // The high bits of the request's number, which a reply to it carries.
  [[nodiscard]] std::uint64_t turns(const Row& row) const {
    return config_.flaws.replies_name_low_bits ? 0 : turns_of(row.sequence);
  }
  // The value of the reply's trailer (last word of its slot) that ends the wait for the reply.
  [[nodiscard, gnu::always_inline]] fabric::WatchWord awaited(ServerId server, const Row& row) const;
  // The present last word of the slot into which the server WRITEs its replies; this client polls it.
  [[nodiscard]] std::uint64_t reply_word(const Row& row) const {
    return fabric::load_word(node_.replies->at(row.reply_end - trailer_bytes));
  }
  // Whether the reply with the trailer (last word) `word` is complete. If its checksum decides and it is
  // short, a copy of it that has been checked is kept (is_kept_).
  [[nodiscard]] bool is_reply_whole(ServerId server, const Row& row, std::uint64_t word);
  // Whether requests can be written to the node without connecting to it anew.
  [[nodiscard]] bool is_reached(fabric::NodeId node) const {
    return config_.transport != fabric::Transport::rc || worker_.is_connected_since(node, peers_[node].epoch);
  }
  // Waits until a reply is complete, of which only the trailer (last word) has been seen so far.
  [[nodiscard]] coro::Task<fabric::WatchOutcome> await_whole(ServerId server, Row* row, Nanos deadline);
  // Sends the request in `row`, repeatedly if necessary, and waits for its reply. `counts`: whether a request
  // that gets no reply is added to counts_. `tried`: what has been done already.
  [[nodiscard]] coro::Task<WriteReply> exchange(ServerId server, Row* row, fabric::OpStats* stats,
                                                bool counts, Tried tried);
  [[nodiscard]] Tried nothing_tried() const;
  [[nodiscard]] coro::Task<bool> reconnect(fabric::NodeId node);
  // Whether the server's node has restarted since the request was sent. The new server does not know whether
  // the request was executed, and must not execute it again.
  [[nodiscard]] bool is_orphaned(ServerId server, const Row& row) const {
    return row.was_sent && row.incarnation != incarnations_[server.node] &&
           !config_.flaws.ignores_incarnations;
  }
  // Takes the reply with the trailer `word`, which is_reply_whole() has just found complete.
  [[nodiscard]] WriteReply answer(ServerId server, Row* row, std::uint64_t word, fabric::OpStats* stats);
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
  // By node: number of restarts with fresh memory that were noticed.
  std::vector<std::uint32_t> incarnations_;
  std::vector<std::byte> copied_;  // buffer for a reply that is copied before it is read
  bool is_kept_ = false;           // whether copied_ has the reply that is_reply_whole() was last asked about
  bool is_simulated_;
  Counts counts_;
};

// What the first try of a request has come to.
struct WriteCaller::Tried {
  std::optional<WriteReply> reply;
  Nanos give_up = 0;  // time at which the request ends without a reply
  // how the wait for the reply ended, if the request has been sent
  std::optional<fabric::WatchOutcome> seen;
  bool was_stopping = false;  // whether the run was over when the request had been sent
};

class WriteCaller::FirstTry {
 public:
  FirstTry(WriteCaller& caller, ServerId server, Row& row, fabric::OpStats* stats)
      : caller_(caller), server_(server), row_(row), stats_(stats), began_(caller.worker_.now()) {}
  FirstTry(const FirstTry&) = delete;
  bool await_ready() {
    is_sent_ = caller_.sends_at_once(server_, &row_, stats_);
    return !is_sent_;
  }
  void await_suspend(std::coroutine_handle<> waiter) {
    was_stopping_ = caller_.worker_.stopping();
    const ChannelConfig& config = caller_.config_;
    // In a simulation posting takes CPU time, so that it is later than before.
    const Nanos now = caller_.is_simulated_ ? caller_.worker_.now() : began_;
    const Nanos patience = std::min(began_ + config.give_up_after, now + config.retry_after);
    watch_.emplace(caller_.worker_, caller_.awaited(server_, row_), patience);
    watch_->await_suspend(waiter);
  }
  [[nodiscard]] Tried await_resume();

 private:
  WriteCaller& caller_;
  ServerId server_;
  Row& row_;
  fabric::OpStats* stats_;
  Nanos began_;
  bool is_sent_ = false, was_stopping_ = false;
  std::optional<fabric::Worker::WatchOne> watch_;
};

// Inlined, so that its fields are stored where they are needed: a copy of words that were stored a moment ago
// in smaller parts waits for the store buffer, a tenth of a GET's time on shm.
inline fabric::WatchWord WriteCaller::awaited(ServerId server, const Row& row) const {
  Trailer awaited{.sequence = static_cast<std::uint16_t>(row.sequence), .attempt = 0, .code = 0, .check = 0};
  Trailer told{.sequence = 0xFFFF, .attempt = 0, .code = 0, .check = 0};
  if (arrival_from(server) == Arrival::by_trailer) {
    awaited.check = turns(row);
    told.check = Trailer::check_mask;
  }
  fabric::WatchWord arrival{.region = node_.replies,
                            .offset = row.reply_end - trailer_bytes,
                            .mask = told.pack(),
                            .value = awaited.pack(),
                            .until_equal = true,
                            .peer = std::nullopt};
  if (!is_local(server) && config_.transport == fabric::Transport::rc) arrival.peer = server.node;
  return arrival;
}

inline WriteCaller::FirstTry WriteCaller::try_call(ServerId server, std::uint8_t code,
                                                   fabric::OpStats* stats) {
  Row& row = rows_[row_number(server)];
  number(&row, code);
  return {*this, server, row, stats};
}

}  // namespace loch::rpc
