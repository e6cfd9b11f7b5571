// Records of what a worker's awaiters wait for. They live in the frame of the awaiting coroutine until the
// fabric resumes it. docs/implementing-a-fabric.md says which event ends which wait, and in which order.
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
  bool is_spinning = false;  // true: occupies the core while waiting; false: yields it
  std::coroutine_handle<> waiter;
  TimerWait* next = nullptr;
};
struct WatchWait {
  WatchWord word;  // the awaited word if set.count is 0
  WatchSet set;
  std::uint32_t start = 0;   // index in `set` of the slot that is checked first
  Nanos deadline = forever;  // the wait ends at this Worker::now() time at the latest
  WatchAny result;
  std::coroutine_handle<> waiter;
  WatchWait* next = nullptr;
  void* fabric = nullptr;  // free for use by the fabric that handles the wait
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
