// Posting lists: the window slots of one worker share doorbells and completions.
//
// The requests that a worker's slots add while its ready coroutines run, one after another, are posted as
// lists, with one doorbell for each list (Kalia et al. 2016, section 3.1: "Doorbell batching"). One request
// in `signal_every` on a queue pair is signaled, and so is the last request of each list that a coroutine
// waits for ("selective signaling"). If there are several queue pairs to a peer, the lists take them in turn
// ("multi-queue", section 3.3).
//
//   const fabric::Completion done = co_await lists.execute(request);   // waits until it has ended
//   co_await lists.send(request);                                      // unreliable and inline: only posts
//
// For the worker's thread alone. The object has to outlive every coroutine that waits in it.
#pragma once

#include <coroutine>
#include <cstdint>
#include <deque>
#include <vector>

#include "common/coro/task.h"
#include "common/fabric/fabric.h"

namespace loch::rpc {

struct PostingShape {
  std::uint32_t list_most = 32;  // work requests that are posted with one doorbell
  // one request in this many is signaled; the value is limited to a quarter of the send queue's depth
  std::uint32_t signal_every = 32;
  std::uint8_t lanes = 1;  // number of queue pairs to each peer
};

struct PostingCounts {
  std::uint64_t requests = 0, lists = 0, signaled = 0;
};

class PostingLists {
 public:
  PostingLists(fabric::Worker& worker, const PostingShape& shape);
  PostingLists(const PostingLists&) = delete;
  PostingLists& operator=(const PostingLists&) = delete;

  // Posts the request when the coroutines that are ready now have run, and waits until it has completed: by
  // its own completion or, if it is unsignaled, by a later one on its queue pair. This class sets the
  // request's `lane`, `is_signaled`, `next` and `sink`. The result has an atomic's old word.
  [[nodiscard]] coro::Task<fabric::Completion> execute(fabric::WorkRequest request);
  // Posts the request when the coroutines that are ready now have run, and does not wait for its end. Only
  // for UC and UD, and with inlined data or no data. The caller does not learn whether the request was
  // executed.
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
    bool is_pooled = false;  // true: made by send(), and returned to the pool when its request has ended
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
  // The queue pairs to one peer worker over one transport. For UD, one object serves all peers.
  struct Peer {
    fabric::Transport transport = fabric::Transport::rc;
    fabric::NodeId node = 0;
    std::uint16_t worker = 0;
    std::uint8_t next_lane = 0;
    Queue waiting;
    std::vector<Line> lines;
  };
  class Retired;

  // Adds the entry to its peer's list. Returns true if no earlier caller is going to flush (post) the lists;
  // then this caller has to flush when the coroutines that are ready now have run.
  [[nodiscard]] bool add(Entry& entry);
  void flush();
  // Posts as one list as many of the peer's waiting requests as fit. Returns false if no send queue to the
  // peer has room.
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
  std::uint32_t waiting_ = 0;     // requests that wait to be posted, in the lists of all peers
  bool is_flush_coming_ = false;  // true: an earlier caller of add() will post the lists
  PostingCounts counts_;
};

}  // namespace loch::rpc
