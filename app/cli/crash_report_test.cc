// Tests that a crash is reported with its signal and call stack, and that the process ends by that signal.
#include "app/cli/crash_report.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

namespace loch::cli {
namespace {

[[gnu::noinline]] void crash() {
  volatile int* volatile nowhere = reinterpret_cast<int*>(0x10);
  *nowhere = 1;
}

TEST(CrashReport, SaysSignalAddressAndStackAndEndsBySignal) {
  const auto crash_in_thread = [] {
    report_crashes();
    std::thread(crash).join();
  };
  EXPECT_EXIT(crash_in_thread(), testing::KilledBySignal(SIGSEGV),
              "ended by signal 11 at address 0x10; call stack.*\n.*crash_report_test.*\n.*crash_report_test");
}

// Overflows the stack: the report has to be printed nevertheless, from the handler's own stack.
[[gnu::noinline]] int overflow(int depth) {  // NOLINT(misc-no-recursion)
  volatile char page[4096];
  page[0] = static_cast<char>(depth);
  return overflow(depth + 1) + page[0];
}

TEST(CrashReport, AStackOverflowIsReported) {
  EXPECT_EXIT(
      {
        report_crashes();
        overflow(0);
      },
      testing::KilledBySignal(SIGSEGV), "ended by signal 11");
}

}  // namespace
}  // namespace loch::cli
