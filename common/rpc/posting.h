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
  std::uint32_t list_most = 32;     // work requests that are posted with one doorbell
  std::uint32_t signal_every = 32;  // one request in so many is signaled; at most a quarter of the send queue
  std::uint8_t lanes = 1;           // number of queue pairs to each peer
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
  // Posts the request at the end of this turn without waiting for it: for UC and UD, with inlined data or
  // none. Nothing tells whether it was executed.
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
    bool is_pooled = false;  // made by send(), and returned to the pool when its request has ended
    bool is_done = false;
  };
  struct Queue {
    Entry* first = nullptr;
    Entry* last = nullptr;
    void push(Entry* entry);
    [[nodiscard]] Entry* pop();
  };
  // One queue pair, with its requests that have not ended.
  struct Line {
    Queue posted;
    std::uint32_t outstanding = 0;
    std::uint32_t since_signaled = 0;
  };
  // The lanes to one peer; lanes of datagrams are common to all peers.
  struct Peer {
    fabric::Transport transport = fabric::Transport::rc;
    fabric::NodeId node = 0;
    std::uint16_t worker = 0;
    std::uint8_t next_lane = 0;
    Queue waiting;
    std::vector<Line> lines;
  };
  class Retired;

  // Adds the entry to its peer's list. Returns true for the first entry of a turn, which has to flush at the
  // end of the turn.
  [[nodiscard]] bool add(Entry& entry);
  void flush();
  // Posts one list; false if no lane has room.
  bool post_list(Peer& peer);
  void finish(Entry& entry);
  static void completed(fabric::CompletionSink* sink, fabric::WorkRequest& done);
  [[nodiscard]] Peer& peer_of(const fabric::WorkRequest& request);
  [[nodiscard]] Entry& take_pooled();

  fabric::Worker& worker_;
  PostingShape shape_;
  std::uint32_t room_;  // requests that may be outstanding on one queue pair
  std::deque<Peer> peers_;
  std::deque<Entry> pool_;
  Queue free_;
  std::uint32_t waiting_ = 0;     // entries in all peers' lists
  bool is_flush_coming_ = false;  // another slot of this turn will post the lists
  PostingCounts counts_;
};

}  // namespace loch::rpc
