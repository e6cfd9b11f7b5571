// Prints the signal and call stack of a crash, using only functions that a signal handler may call.
#include "app/cli/crash_report.h"

#include <execinfo.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

namespace loch::cli {
namespace {

[[maybe_unused]] constexpr std::array crash_signals = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
constexpr int frames_max = 64;
// Size of the signal handler's own stack, needed because a stack overflow leaves no room on the thread's
// stack. Only the thread that calls report_crashes() gets one: a stack overflow in another thread ends the
// process without a report.
[[maybe_unused]] constexpr std::size_t handler_stack_bytes = 64 << 10;

[[maybe_unused]] void report(int signal, siginfo_t* info, void*) {
  std::array<char, 160> line{};
  const auto end = fmt::format_to_n(line.data(), line.size(),
                                    "loch-bench: ended by signal {} at address {:#x}; call stack (read it "
                                    "with addr2line -Cfpe):\n",
                                    signal, reinterpret_cast<std::uintptr_t>(info->si_addr));
  std::array<void*, frames_max> frames{};
  const int count = ::backtrace(frames.data(), frames_max);
  if (::write(STDERR_FILENO, line.data(), std::min(end.size, line.size())) >= 0)
    ::backtrace_symbols_fd(frames.data(), count, STDERR_FILENO);
  ::raise(signal);  // SA_RESETHAND has restored the signal's default action
}

}  // namespace

void report_crashes() {
#if !defined(LOCH_ASAN) && !defined(LOCH_TSAN)
  static std::array<char, handler_stack_bytes> handler_stack;
  const stack_t stack = {.ss_sp = handler_stack.data(), .ss_flags = 0, .ss_size = handler_stack.size()};
  ::sigaltstack(&stack, nullptr);
  // The first call of backtrace() loads libgcc and allocates memory, which must not happen in the handler.
  std::array<void*, 1> first{};
  ::backtrace(first.data(), 1);
  struct sigaction action = {};
  action.sa_sigaction = report;
  action.sa_flags = static_cast<int>(SA_SIGINFO | SA_ONSTACK | SA_RESETHAND | SA_NODEFER);
  for (const int signal : crash_signals) ::sigaction(signal, &action, nullptr);
#endif
}

}  // namespace loch::cli
