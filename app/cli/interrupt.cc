// Installs handlers for SIGINT and SIGTERM: the first signal interrupts the fabric, and one that comes more
// than a second later ends the process.
#include "app/cli/interrupt.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "common/base/check.h"

namespace loch::cli {
namespace {

// Globals, because a signal handler has no other access to state.
std::atomic<fabric::Fabric*> running{nullptr};
std::atomic<int> signals{0};

std::int64_t seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}
std::atomic<std::int64_t> first_at{0};

// Ends the process on a repeated signal only if it comes more than a second after the first, because a
// launcher may send two signals for one Ctrl-C.
void on_signal(int) {
  if (signals.fetch_add(1) == 0)
    first_at.store(seconds());
  else if (seconds() > first_at.load() + 1)
    ::_exit(130);
  if (fabric::Fabric* fabric = running.load()) fabric->interrupt();
}

void install() {
  struct sigaction action{};
  action.sa_handler = on_signal;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

InterruptScope::InterruptScope(fabric::Fabric* fabric) {
  LOCH_CHECK(running.load() == nullptr, "one run at a time");
  running.store(fabric);
  install();
  if (fabric != nullptr && was_interrupted()) fabric->interrupt();
}

InterruptScope::~InterruptScope() { running.store(nullptr); }

void heed_interrupts() { install(); }

bool was_interrupted() { return signals.load() > 0; }

}  // namespace loch::cli
