// What a worker's awaiters leave with the fabric; they live in the awaiting frame, until the fabric resumes
// the waiter. docs/implementing-a-fabric.md says who ends which wait, and in which order.
#pragma once

#include <coroutine>
#include <cstdint>

#include "common/base/units.h"
#include "common/fabric/received.h"
#include "common/fabric/verb.h"
#include "common/fabric/watch.h"

namespace loch::fabric {

struct TimerWait {
  Nanos at = 0;
  bool is_spinning = false;  // true: burns the core meanwhile; false: gives it up
  std::coroutine_handle<> waiter;
  TimerWait* next = nullptr;
};
struct WatchWait {
  WatchWord word;  // used when set.count == 0
  WatchSet set;
  std::uint32_t start = 0;   // first index to look at
  Nanos deadline = forever;  // Worker::now() time
  WatchAny result;
  std::coroutine_handle<> waiter;
  WatchWait* next = nullptr;
  void* fabric = nullptr;  // the fabric's own
};
struct ReceiveWait {
  Transport transport = Transport::rc;
  Nanos deadline = forever;
  Received result;
  std::coroutine_handle<> waiter;
  ReceiveWait* next = nullptr;
  void* fabric = nullptr;
};
struct ReconnectWait {
  NodeId peer = 0;
  Nanos deadline = forever;
  bool connected = false;
  std::coroutine_handle<> waiter;
  ReconnectWait* next = nullptr;
};

}  // namespace loch::fabric
