// Collects the requests that the window slots of a worker post while its ready coroutines run, one after
// another, and posts them in lists with one doorbell each.
#include "common/rpc/posting.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace loch::rpc {

void PostingLists::Queue::push(Entry* entry) {
  entry->next = nullptr;
  (first == nullptr ? first : last->next) = entry;
  last = entry;
}

PostingLists::Entry* PostingLists::Queue::pop() {
  Entry* entry = first;
  first = entry->next;
  if (first == nullptr) last = nullptr;
  return entry;
}

// Suspends until the entry's request has ended.
class PostingLists::Retired {
 public:
  explicit Retired(Entry& entry) : entry_(entry) {}
  [[nodiscard]] bool await_ready() const noexcept { return entry_.is_done; }
  void await_suspend(std::coroutine_handle<> waiter) noexcept { entry_.waiter = waiter; }
  void await_resume() const noexcept {}

 private:
  Entry& entry_;
};

PostingLists::PostingLists(fabric::Worker& worker, const PostingShape& shape)
    : worker_(worker), shape_(shape) {
  const std::uint32_t depth = worker.capabilities().send_queue_depth;
  LOCH_CHECK(shape.lanes > 0 && shape.list_most > 0 && shape.signal_every > 0, "an empty posting list");
  LOCH_CHECK_GE(depth, 4U);
  room_ = depth / 2;
  shape_.signal_every = std::min(shape.signal_every, depth / 4);
}

PostingLists::Peer& PostingLists::peer_of(const fabric::WorkRequest& request) {
  const bool is_shared = request.transport == fabric::Transport::ud;
  const fabric::NodeId node = is_shared ? fabric::NodeId{0} : request.peer;
  const std::uint16_t worker = is_shared ? std::uint16_t{0} : request.peer_worker;
  for (Peer& peer : peers_) {
    if (peer.node == node && peer.transport == request.transport && peer.worker == worker) return peer;
  }
  Peer& made = peers_.emplace_back();
  made.transport = request.transport;
  made.node = node;
  made.worker = worker;
  made.lines.resize(shape_.lanes);
  return made;
}

bool PostingLists::add(Entry& entry) {
  entry.lists = this;
  entry.fn = &PostingLists::completed;
  peer_of(entry.request).waiting.push(&entry);
  ++waiting_;
  return !std::exchange(is_flush_coming_, true);
}

coro::Task<fabric::Completion> PostingLists::execute(fabric::WorkRequest request) {
  Entry entry;
  entry.request = request;
  if (add(entry)) {
    co_await worker_.run_queue().yield();  // lets the other ready coroutines add their requests
    flush();
  }
  co_await Retired(entry);
  co_return fabric::Completion{entry.request.status, entry.request.result};
}

coro::Task<void> PostingLists::send(fabric::WorkRequest request) {
  LOCH_CHECK(request.transport != fabric::Transport::rc, "a reliable request is waited for");
  LOCH_CHECK(request.is_inline || request.length == 0, "nobody would say when the buffer is free again");
  Entry& entry = take_pooled();
  entry.request = request;
  if (!add(entry)) co_return;
  co_await worker_.run_queue().yield();
  flush();
}

PostingLists::Entry& PostingLists::take_pooled() {
  if (free_.first == nullptr) {
    Entry& made = pool_.emplace_back();
    made.is_pooled = true;
    free_.push(&made);
  }
  Entry& entry = *free_.pop();
  entry.is_done = false;
  return entry;
}

void PostingLists::flush() {
  is_flush_coming_ = false;
  for (Peer& peer : peers_) {
    while (peer.waiting.first != nullptr && post_list(peer)) {
    }
  }
}

bool PostingLists::post_list(Peer& peer) {
  std::uint8_t lane = peer.next_lane;
  for (std::uint8_t tried = 0; peer.lines[lane].outstanding >= room_; ++tried) {
    if (tried == shape_.lanes) return false;
    lane = static_cast<std::uint8_t>((lane + 1) % shape_.lanes);
  }
  peer.next_lane = static_cast<std::uint8_t>((lane + 1) % shape_.lanes);
  Line& line = peer.lines[lane];
  fabric::WorkRequest* chain = nullptr;
  Entry* newest = nullptr;
  bool is_awaited = false;
  for (std::uint32_t i = 0; i < shape_.list_most && line.outstanding < room_ && peer.waiting.first != nullptr;
       ++i) {
    Entry* entry = peer.waiting.pop();
    --waiting_;
    entry->line = &line;
    fabric::WorkRequest& request = entry->request;
    request.lane = lane;
    request.next = nullptr;
    request.is_signaled = ++line.since_signaled >= shape_.signal_every;
    if (request.is_signaled) line.since_signaled = 0;
    request.sink = request.is_signaled ? entry : nullptr;
    (chain == nullptr ? chain : newest->request.next) = &request;
    newest = entry;
    is_awaited |= !entry->is_pooled;
    line.posted.push(entry);
    ++line.outstanding;
    ++counts_.requests;
    counts_.signaled += request.is_signaled ? 1 : 0;
  }
  if (is_awaited && !newest->request.is_signaled) {
    newest->request.is_signaled = true;
    newest->request.sink = newest;
    line.since_signaled = 0;
    ++counts_.signaled;
  }
  ++counts_.lists;
  worker_.post(chain);
  return true;
}

void PostingLists::finish(Entry& entry) {
  entry.is_done = true;
  if (entry.is_pooled)
    free_.push(&entry);
  else if (entry.waiter)
    worker_.run_queue().push(std::exchange(entry.waiter, {}));
}

// When a signaled request completes, all requests before it on its queue pair have ended, except those before
// another signaled request whose completion is still missing: a request that failed at once overtakes those.
void PostingLists::completed(fabric::CompletionSink* sink, fabric::WorkRequest& /*done*/) {
  Entry& done = *static_cast<Entry*>(sink);
  PostingLists& lists = *done.lists;
  Line& line = *done.line;
  done.is_done = true;
  while (line.posted.first != nullptr) {
    const Entry* signaled = line.posted.first;
    while (signaled != nullptr && !signaled->request.is_signaled) signaled = signaled->next;
    if (signaled == nullptr || !signaled->is_done) break;
    Entry* retired = nullptr;
    do {
      retired = line.posted.pop();
      --line.outstanding;
      lists.finish(*retired);
    } while (retired != signaled);
  }
  // Posts requests for which the send queue had no room before.
  if (lists.waiting_ > 0 && !lists.is_flush_coming_) lists.flush();
}

}  // namespace loch::rpc
