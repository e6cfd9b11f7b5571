// The posting end of one queue pair: its outstanding requests, and the requests that wait for room in its
// send queue or for a connection. The worker's thread uses it, except that the connector owns it while
// `state` is `connecting`. The states:
//
//   connecting -> ready -> failed (RC error) or broken (the other end is gone) -> connecting …
//   connecting -> refused                              the peer is lost or refused the connection
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/check.h"
#include "common/fabric/fabric.h"
#include "common/fabric/verbs/endpoint.h"
#include "common/fabric/verbs/queue_pair.h"

namespace loch::fabric::verbs {

class VerbsWorker;

// A request that waits for room in the send queue or for a connection. It holds a copy of the request's
// inline data and, if the request came by post_detached(), of the request, because the caller may change
// these after post().
struct Parked : CompletionSink {
  static constexpr std::uint32_t inline_most = 256;
  WorkRequest* request = nullptr;
  Parked* next = nullptr;
  VerbsWorker* worker = nullptr;
  WorkRequest copy;
  std::byte inline_data[inline_most];
};

struct SendQueue;

// A slot of a send queue, which describes one outstanding request. The slot's address is the wr_id under
// which the request is posted to the device.
struct alignas(32) SendSlot {
  WorkRequest* request = nullptr;  // null if no completion is to be reported
  SendQueue* queue = nullptr;
  std::uint32_t number = 0;  // the request's sequence number on its queue pair
  // Index in VerbsWorker::landing_ of the word to which the device writes the old word of an atomic. 0 if
  // nobody needs the old word, or if the device writes it to the request's own local buffer.
  std::uint32_t landing = 0;
};

struct SendQueue {
  SendQueue() = default;
  SendQueue(const SendQueue&) = delete;  // not copied, because last_staged may point into the object
  enum class State : std::uint8_t { connecting, ready, failed, broken, refused };

  LinkKey key;             // of a UD queue pair only `transport` is set
  std::uint32_t rail = 0;  // the rail by which the queue pair sends
  std::atomic<State> state = State::connecting;

  std::uint32_t incarnation = 0;  // incarnation of the peer that the queue pair is connected to
  // true: this end cut the queue pair, so that requests that complete as flushed may have been executed
  bool is_cut = false;

  // True: the queue pair was cut while its send queue was full, so that the signaled request whose completion
  // frees the entries of all requests before it is still to be posted.
  bool needs_marker = false;

  QueuePair qp;
  std::uint32_t depth = 0;  // capacity in requests, a power of two
  std::uint32_t mask = 0;   // depth - 1
  // Sequence numbers of requests. The requests from `retired` to `posted` - 1 are outstanding; those of them
  // from `rung` on wait for the doorbell that gives them to the device. Request s uses slot s % depth.
  std::uint32_t posted = 0, rung = 0, retired = 0;
  // VerbsWorker::retire() may retire the oldest request without any further check, unless `retired` has
  // reached this number. The number equals `rung`, or `retired` while needs_marker is set.
  std::uint32_t end_plain = 0;
  // upper bound of the number of requests since the last signaled one: stage_straight() does not reset it
  // when it stages a signaled request
  std::uint32_t since_signaled = 0;
  std::vector<SendSlot> slots;

  // The requests that the next doorbell gives to the device, as a chain behind `before_staged`, which is no
  // request. The last one's `next` is not set before the doorbell is rung.
  ibv_send_wr before_staged{};
  ibv_send_wr* last_staged = &before_staged;
  SendQueue* next_staged = nullptr;  // next element of the worker's list of send queues with staged requests
  bool is_staged = false;  // whether the worker's list of send queues with staged requests has this one

  Parked* first_parked = nullptr;
  Parked* last_parked = nullptr;
  bool is_listed = false;  // whether the worker's waiting_queues_ has this queue

  // Gives a new send queue its slots. `requests` is a power of two.
  void prepare(std::uint32_t requests) {
    depth = requests;
    mask = requests - 1;
    slots.resize(requests);
    for (SendSlot& slot : slots) slot.queue = this;
  }
  // Forgets all requests, for a new connection.
  void forget_requests() {
    posted = rung = retired = end_plain = since_signaled = 0;
    is_cut = needs_marker = false;
  }
  [[nodiscard]] SendSlot& slot_of(std::uint32_t number_of_request) { return slots[number_of_request & mask]; }
  // Takes the slot of the next request. `number` is the request's sequence number; it has to equal `posted`,
  // of which callers mostly have a copy in a register. `told`: the request whose completion is to be
  // reported, or null.
  [[nodiscard]] SendSlot& take_slot(std::uint32_t number, WorkRequest* told) {
    SendSlot& slot = slot_of(number);
    slot.request = told;
    slot.number = number;
    posted = number + 1;
    return slot;
  }
  [[nodiscard]] bool has_staged() const { return last_staged != &before_staged; }
  [[nodiscard]] std::uint32_t outstanding() const { return posted - retired; }
  [[nodiscard]] bool has_room() const { return outstanding() < depth; }
  // Whether the next request can be added to the next doorbell's chain at once. Until this returns true, a
  // caller reads no sequence number of the queue, because while it is connecting the connector resets them.
  [[nodiscard]] bool is_free() const {
    return state.load(std::memory_order_acquire) == State::ready && first_parked == nullptr && has_room();
  }
  void park(Parked* waiting) {
    waiting->next = nullptr;
    (last_parked == nullptr ? first_parked : last_parked->next) = waiting;
    last_parked = waiting;
  }
  [[nodiscard]] Parked* unpark() {
    Parked* first = first_parked;
    first_parked = first->next;
    if (first_parked == nullptr) last_parked = nullptr;
    return first;
  }
};

}  // namespace loch::fabric::verbs
