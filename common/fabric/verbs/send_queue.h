// The posting end of one queue pair: its outstanding requests, and those that wait for room. The worker's
// thread uses it; the connector owns it while `state` is `connecting`. The states:
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

// A request whose data must outlive post(): it waits for room or for a connection. Holds a copy of the
// request if it is detached, and of its inline data.
struct Parked : CompletionSink {
  static constexpr std::uint32_t inline_most = 256;
  WorkRequest* request = nullptr;
  Parked* next = nullptr;
  VerbsWorker* worker = nullptr;
  WorkRequest copy;
  std::byte inline_data[inline_most];
};

struct SendQueue;

// One place of a send queue: whom the completion of its request concerns. The request's wr_id is the address
// of its slot.
struct SendSlot {
  WorkRequest* request = nullptr;  // null if no completion is to be reported
  SendQueue* queue = nullptr;
  std::uint32_t index = 0;
  // Index of the worker's landing word that gets the old word of an atomic; 0 if no old word is needed.
  std::uint32_t landing = 0;
};

struct SendQueue {
  enum class State : std::uint8_t { connecting, ready, failed, broken, refused };

  LinkKey key;  // of a UD queue pair only `transport` is set
  std::atomic<State> state = State::connecting;

  std::uint32_t incarnation = 0;  // incarnation of the peer that the queue pair is connected to
  bool is_cut = false;            // this end cut the queue pair: flushed requests may have been executed

  // the queue pair was cut while it was full, and the request that drains it is still to be posted
  bool needs_marker = false;

  QueuePair qp;
  std::uint32_t depth = 0;  // capacity in requests, a power of two
  // Sequence numbers: requests `retired` to `posted` - 1 are outstanding, of which the device has not been
  // given `rung` to `posted` - 1 yet. Request s uses slot s % depth.
  std::uint32_t posted = 0, rung = 0, retired = 0;
  std::uint32_t since_signaled = 0;  // number of requests since the last signaled one
  std::vector<SendSlot> slots;

  // The requests that the next doorbell gives to the device, as a chain.
  ibv_send_wr* first_staged = nullptr;
  ibv_send_wr* last_staged = nullptr;
  SendQueue* next_staged = nullptr;  // the next queue in the worker's list of those with staged requests
  bool is_staged = false;            // whether that list has this queue

  Parked* first_parked = nullptr;
  Parked* last_parked = nullptr;
  bool is_listed = false;  // whether the worker's waiting_queues_ has this queue

  // Makes the slots of a queue that has none. `requests` is a power of two.
  void prepare(std::uint32_t requests) {
    depth = requests;
    slots.resize(requests);
    for (std::uint32_t i = 0; i < requests; ++i) slots[i] = {nullptr, this, i, 0};
  }
  [[nodiscard]] SendSlot& slot_of(std::uint32_t number_of_request) {
    return slots[number_of_request & (depth - 1)];
  }
  [[nodiscard]] std::uint32_t outstanding() const { return posted - retired; }
  [[nodiscard]] bool has_room() const { return outstanding() < depth; }
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
