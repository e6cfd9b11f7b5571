// Restricts the calling thread to one processor for the life of an object. A simulation by several threads
// then runs all parts in turn in this thread, which is fast on a busy machine too.
#pragma once

#include <sched.h>

#include "common/base/check.h"

namespace loch::support {

class OneCore {
 public:
  OneCore() {
    LOCH_CHECK(sched_getaffinity(0, sizeof before_, &before_) == 0, "the thread's processors are known");
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
      if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &one);
    }
    LOCH_CHECK(sched_setaffinity(0, sizeof one, &one) == 0, "the thread may stay on one of its processors");
  }
  ~OneCore() { (void)sched_setaffinity(0, sizeof before_, &before_); }
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;

 private:
  cpu_set_t before_ = {};
};

}  // namespace loch::support
