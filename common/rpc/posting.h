// Posting lists: the window slots of one worker share doorbells and completions.
//
// What the slots of a worker have to post at one turn of it goes out as lists, one doorbell each
// (guidelines 2016, 3.1: "Doorbell batching"); of the requests on a queue pair one in `signal_every`
// asks for a completion, and the last of each list that somebody waits for ("selective signaling").
// With several lanes the lists alternate between as many queue pairs to the same peer ("multi-queue",
// 3.3).
//
//   const fabric::Completion done = co_await lists.execute(request);   // waits until it is retired
//   co_await lists.send(request);                                      // unreliable and inline: only posts
//
// Used by its worker's thread alone; outlives every coroutine that waits in it.
#pragma once

#include <coroutine>
#include <cstdint>
#include <deque>
#include <vector>

#include "common/coro/task.h"
#include "common/fabric/fabric.h"

namespace loch::rpc {

struct PostingShape {
  std::uint32_t list_most = 32;     // work requests behind one doorbell; 1: a doorbell each
  std::uint32_t signal_every = 32;  // at most a quarter of the send queue is ever unsignaled in a row
  std::uint8_t lanes = 1;           // queue pairs to each peer
};

struct PostingCounts {
  std::uint64_t requests = 0, lists = 0, signaled = 0;
};

class PostingLists {
 public:
  PostingLists(fabric::Worker& worker, const PostingShape& shape);
  PostingLists(const PostingLists&) = delete;
  PostingLists& operator=(const PostingLists&) = delete;

  // Posts the request (its `lane`, `is_signaled`, `next` and `sink` are this class's) at the end of this
  // turn and waits until it has completed: by its own completion or, as an unsignaled request does, by a
  // later one on its queue pair. An atomic's old word is in the result.
  [[nodiscard]] coro::Task<fabric::Completion> execute(fabric::WorkRequest request);
  // Posts the request at the end of this turn and does not wait for it: UC and UD, with data that is
  // inline or none. Nobody hears what became of it.
  [[nodiscard]] coro::Task<void> send(fabric::WorkRequest request);

  [[nodiscard]] const PostingCounts& counts() const { return counts_; }

 private:
  struct Line;
  struct Entry : fabric::CompletionSink {
    fabric::WorkRequest request;
    std::coroutine_handle<> waiter;
    Entry* next = nullptr;
    PostingLists* lists = nullptr;
    Line* line = nullptr;
    bool is_pooled = false;  // made by send(): returns to the pool when its completion came
    bool is_done = false;
  };
  struct Queue {
    Entry* first = nullptr;
    Entry* last = nullptr;
    void push(Entry* entry);
    [[nodiscard]] Entry* pop();
  };
  // One queue pair: what was posted on it and is not retired.
  struct Line {
    Queue posted;
    std::uint32_t outstanding = 0;
    std::uint32_t since_signaled = 0;
  };
  // The lanes to one peer; datagrams share theirs.
  struct Peer {
    fabric::Transport transport = fabric::Transport::rc;
    fabric::NodeId node = 0;
    std::uint16_t worker = 0;
    std::uint8_t next_lane = 0;
    Queue waiting;
    std::vector<Line> lines;
  };
  class Retired;

  // Adds the entry to its peer's list. True for the first one of a turn: it flushes at the turn's end.
  [[nodiscard]] bool add(Entry& entry);
  void flush();
  // One doorbell's worth; false where no lane has room.
  bool post_list(Peer& peer);
  void finish(Entry& entry);
  static void completed(fabric::CompletionSink* sink, fabric::WorkRequest& done);
  [[nodiscard]] Peer& peer_of(const fabric::WorkRequest& request);
  [[nodiscard]] Entry& take_pooled();

  fabric::Worker& worker_;
  PostingShape shape_;
  std::uint32_t room_;  // requests that one queue pair may hold
  std::deque<Peer> peers_;
  std::deque<Entry> pool_;
  Queue free_;
  std::uint32_t waiting_ = 0;     // entries in all peers' lists
  bool is_flush_coming_ = false;  // another slot of this turn will post the lists
  PostingCounts counts_;
};

}  // namespace loch::rpc
