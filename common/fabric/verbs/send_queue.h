// The posting end of one queue pair: what it has outstanding, and what waits for room. Used by its
// worker's thread; the connector owns it while `state` is `connecting`.
//
//   connecting -> ready -> failed (RC error) or broken (the other end is gone) -> connecting …
//   connecting -> refused                              the peer is lost or said no
#pragma once

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

// What must outlive post(): a request that waits, its copy where nobody keeps it, its inline data.
struct Parked : CompletionSink {
  static constexpr std::uint32_t inline_most = 256;
  WorkRequest* request = nullptr;
  Parked* next = nullptr;
  VerbsWorker* worker = nullptr;
  WorkRequest copy;
  std::byte inline_data[inline_most];
};

struct SendQueue {
  enum class State : std::uint8_t { connecting, ready, failed, broken, refused };

  LinkKey key;               // UD: only `transport` counts
  std::uint32_t number = 0;  // number among the queue pairs of its worker
  std::atomic<State> state = State::connecting;

  std::uint32_t incarnation = 0;  // incarnation of the peer that the queue pair was connected to
  bool is_cut = false;            // by this end, with requests under way: they may have been executed

  QueuePair qp;
  std::uint32_t depth = 0;  // a power of two
  // Requests `retired` up to `posted` are outstanding; request s is in slot s % depth.
  std::uint32_t posted = 0, retired = 0;
  std::uint32_t since_signaled = 0;  // requests since the last signaled one
  std::vector<WorkRequest*> slots;   // null: nobody hears of it
  // Which of the worker's landing words the old word of an atomic goes to, by slot; 0: none of its own.
  std::vector<std::uint32_t> landing;

  Parked* first_parked = nullptr;
  Parked* last_parked = nullptr;
  bool is_listed = false;  // among the worker's queues with parked requests

  [[nodiscard]] std::uint32_t outstanding() const { return posted - retired; }
  [[nodiscard]] std::uint32_t slot(std::uint32_t number_of_request) const {
    return number_of_request & (depth - 1);
  }
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
