// Ends the process when its threads have not ended by a deadline.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "common/base/units.h"

namespace loch::fabric::realtime {

// While the object lives, a deadline runs. When it passes, the process prints a line on standard error and
// ends at once: threads that wait for a NIC cannot be ended otherwise, and the memory that the NIC may still
// write must not be freed.
class LastResort {
 public:
  struct End {
    std::string line;
    int status = 1;
  };
  // `end` is called on another thread when the deadline has passed, and returns the line to print and the
  // exit status.
  LastResort(Nanos within, std::function<End()> end);
  // Cancels the deadline.
  ~LastResort();
  LastResort(const LastResort&) = delete;
  LastResort& operator=(const LastResort&) = delete;

 private:
  std::jthread thread_;
};

}  // namespace loch::fabric::realtime
