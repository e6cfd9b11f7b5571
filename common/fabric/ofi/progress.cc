// The loop of the progress thread, which sleeps longer and longer while it makes no progress.
#include "common/fabric/ofi/progress.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <utility>

namespace loch::fabric::ofi {
namespace {

// Sleeps in ns. A request to a node of which no worker polls may wait for as long as the longest sleep.
constexpr long shortest_sleep = 5'000, longest_sleep = 200'000;

}  // namespace

void Progress::start(std::vector<OfiWorker*> workers) {
  workers_ = std::move(workers);
  if (!workers_.empty()) thread_ = std::thread([this] { body(); });
}

void Progress::stop() {
  is_stopping_.store(true);
  if (thread_.joinable()) thread_.join();
}

void Progress::body() {
  pthread_setname_np(pthread_self(), "ofi progress");
  prctl(PR_SET_TIMERSLACK, 1);  // wakes the thread without the default delay of 50 us
  long sleep = shortest_sleep;
  while (!is_stopping_.load(std::memory_order_relaxed)) {
    bool moved = false;
    for (OfiWorker* worker : workers_) moved |= worker->poll_for_idle();
    if (moved) {
      sleep = shortest_sleep;
      sched_yield();
      continue;
    }
    const timespec span{0, sleep};
    nanosleep(&span, nullptr);
    sleep = std::min(sleep * 2, longest_sleep);
  }
}

}  // namespace loch::fabric::ofi
