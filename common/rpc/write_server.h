// A server worker's end of a write channel (requests and replies by WRITE): polls its row of request slots
// round robin, has each request executed once, and answers it by a WRITE.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/coro/scope.h"
#include "common/coro/task.h"
#include "common/rpc/duplicates.h"
#include "common/rpc/write_channel.h"

namespace loch::rpc {

// A complete request in its request slot. The client does not change it before it has the reply.
struct Request {
  std::uint8_t code = 0;
  fabric::LocalSlice frame;
  std::uint32_t bytes = 0;
};

// A protocol's request handler, called for one request at a time.
class Handler {
 public:
  virtual ~Handler() = default;
  // Where handle() writes the reply's frame, which is right-aligned: it ends at `end`.
  struct ReplyPlace {
    fabric::Region* region = nullptr;
    std::uint64_t end = 0;  // offset one past the frame's last byte
    [[nodiscard]] std::uint64_t start(std::uint32_t bytes) const { return end - bytes; }
  };
  [[nodiscard]] virtual coro::Task<std::uint8_t> handle(Request request, ReplyPlace reply) = 0;
  // Does the work that handle() has left until after the reply; called once the reply is posted, if
  // has_more().
  [[nodiscard]] virtual coro::Task<void> finish() { co_return; }
  [[nodiscard]] virtual bool has_more() const { return false; }
  // Whether expect() is to be called in real time, where a handler can save cache misses by it.
  [[nodiscard]] virtual bool looks_ahead() const { return false; }
  // Called before a reply is posted, with the request that is probably handled next, so that what it needs
  // can be prefetched. Its bytes may still be changing: nothing that they say may be relied upon, and
  // handle() gets the request anew.
  virtual void expect(Request /*next*/) {}
};

class WriteServer {
 public:
  struct Counts {
    std::uint64_t executed = 0, repeated = 0, stale = 0, unanswered = 0, reconnects = 0;
  };

  // Makes the server for server worker `index` of the worker's node.
  WriteServer(const WriteChannel& channel, fabric::Worker& worker, std::uint32_t index);

  // Serves requests until worker.stopping().
  [[nodiscard]] coro::Task<void> run(Handler* handler);
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  static bool has_request(void* self, std::uint32_t column, std::uint64_t word);
  [[nodiscard]] std::uint64_t sequence_of(std::uint32_t column, Trailer trailer) const;
  // Fetches the request in a column that polling has found complete; returns its sequence number.
  [[nodiscard]] std::uint64_t fetch(std::uint32_t column, Request& request);
  // Judges a request. Returns true if it is a new one that the handler has to execute.
  [[nodiscard]] bool is_due(std::uint32_t column, std::uint64_t sequence, const Request& request);
  [[nodiscard]] coro::Task<void> answer_again(std::uint32_t column);
  // Shows the handler what is in a column, if that may be a request that was not handled yet.
  void announce(Handler& handler, std::uint32_t column) const;
  // Where the server prepares the reply to the client whose requests are in this column: in the client's
  // reply slot itself if the client is on this node, else in the slot from which it is WRITEn there.
  [[nodiscard]] Handler::ReplyPlace place(std::uint32_t column) const {
    return {lanes_[column].replies, lanes_[column].staged_end};
  }
  void answer(std::uint32_t column, std::uint64_t sequence, std::uint8_t code);
  [[nodiscard]] fabric::WorkRequest reply_write(std::uint32_t column, std::uint32_t bytes) const;
  [[nodiscard]] bool is_reachable(fabric::NodeId node);
  [[nodiscard]] static coro::Task<void> repair(WriteServer* self, fabric::NodeId node);
  // The client lane (window slot of a client worker) whose requests are in a column; kept so that no request
  // needs a division.
  struct Lane {
    fabric::NodeId node = 0;
    bool is_local = false;
    // Offsets of the ends of the frames (a frame is right-aligned): of the request in its slot; of the reply
    // where it is prepared, in `replies`; of the reply in the client's slot.
    std::uint64_t request_end = 0, staged_end = 0, reply_end = 0;
    fabric::Region* replies = nullptr;
  };
  [[nodiscard]] Lane lane_of(std::uint32_t column) const;
  [[nodiscard]] bool is_local(std::uint32_t column) const { return lanes_[column].is_local; }

  const WriteChannel& channel_;
  const ChannelConfig& config_;
  fabric::Worker& worker_;
  const WriteChannel::Node& node_;
  std::uint32_t index_;
  Arrival arrival_;
  std::uint32_t row_;  // this server worker's row of every client's reply slots
  std::vector<Lane> lanes_;
  std::shared_ptr<Duplicates> known_of_node_;
  Duplicates& known_;
  // For each column: the trailer (last word) with which the request was found complete.
  std::vector<std::uint64_t> accepted_;
  std::vector<WriteChannel::Peer> peers_;
  std::vector<bool> is_repairing_;
  bool must_answer_again_ = false;  // whether the request that is_due() has judged is repeated
  coro::Scope* repairs_ = nullptr;
  Counts counts_;
};

}  // namespace loch::rpc
