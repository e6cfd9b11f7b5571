// Aligns the clocks of the processes of a run by asking for clock readings over the control plane, and bounds
// the error that remains.
#include "common/fabric/processes/clock.h"

#include <fmt/format.h>
#include <time.h>

#include <charconv>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <system_error>

namespace loch::fabric::processes {
namespace {

constexpr int questions = 20;
constexpr std::size_t boot_most = 64;

Nanos monotonic() {
  timespec at{};
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1'000'000'000LL + at.tv_nsec;
}

// Names the kernel and, as the clocks of two time namespaces of one kernel differ, the time namespace.
std::string clock_of_this_process() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string clock;
  file >> clock;
  std::error_code unknown;  // a kernel before 5.6 has no time namespaces
  clock += std::filesystem::read_symlink("/proc/self/ns/time", unknown).string();
  return clock.substr(0, boot_most);
}

std::optional<Nanos> parse_nanos(std::string_view text) {
  Nanos value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // Times are limited to 2^61 ns, so that sums and differences of two parsed ones do not overflow.
  constexpr Nanos most = Nanos{1} << 61;
  if (error != std::errc{} || end != text.data() + text.size() || value < -most || value > most)
    return std::nullopt;
  return value;
}

// Asks the process whose clock is the reference for readings of it, and receives the answers.
class Answers {
 public:
  void put(Nanos theirs) {
    const std::scoped_lock lock(mutex_);
    answer_ = theirs;
    arrived_ = monotonic();
    changed_.notify_all();
  }
  // One reading of the reference clock: its value `theirs` in ns was taken between the times `asked` and
  // `arrived` (ns) of this process's CLOCK_MONOTONIC.
  struct Reading {
    Nanos theirs = 0, asked = 0, arrived = 0;
  };
  [[nodiscard]] std::optional<Reading> ask(cluster::Control& control, std::uint32_t whom,
                                           std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    answer_.reset();
    const Nanos asked = monotonic();
    control.send(whom, "clock?");
    if (!changed_.wait_until(lock, deadline, [&] { return answer_.has_value(); })) return std::nullopt;
    return Reading{*answer_, asked, arrived_};
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Nanos> answer_;
  Nanos arrived_ = 0;
};

}  // namespace

std::string to_text(const ClockRecord& record) { return fmt::format("{} {}", record.base, record.boot); }

Result<ClockRecord> parse_clock(std::string_view text) {
  const auto blank = text.find(' ');
  const auto base = parse_nanos(text.substr(0, blank));
  if (blank == std::string_view::npos || !base || text.size() - blank - 1 > boot_most)
    return fail(ErrorCode::corrupt, "a clock's record: expected nanoseconds and a boot's name");
  return ClockRecord{std::string(text.substr(blank + 1)), *base};
}

Result<Alignment> align_clocks(cluster::Control& control, Nanos base, Nanos within) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(within);
  const ClockRecord own{clock_of_this_process(), base};
  Answers answers;
  // Every process answers requests for its clock's reading, because only the all_gather below decides which
  // process has the reference clock.
  control.on_message([&](std::uint32_t from, std::string_view text) {
    if (text == "clock?") return control.send(from, fmt::to_string(monotonic()));
    if (const auto theirs = parse_nanos(text)) answers.put(*theirs);
  });
  const auto align = [&]() -> Result<Alignment> {
    LOCH_ASSIGN(const std::vector<std::string> texts, control.all_gather("clocks", to_text(own), within));
    std::uint32_t first = 0;
    // Finds the live process with the lowest rank. The text of a lost process is empty; this process's own is
    // not, so the loop ends.
    while (texts[first].empty()) ++first;
    LOCH_ASSIGN(const ClockRecord common, parse_clock(texts[first]));
    Alignment best{common.base, 0};
    if (common.boot != own.boot) {
      best.error = within;
      for (int i = 0; i < questions; ++i) {
        const auto reading = answers.ask(control, first, deadline);
        if (!reading)
          return fail(ErrorCode::timed_out, fmt::format("clocks: no answer from node {} within {}", first,
                                                        format_duration(within)));
        const Nanos error = (reading->arrived - reading->asked) / 2 + 1;
        if (error >= best.error) continue;
        best = {common.base + (reading->asked + error) - reading->theirs, error};
      }
    }
    LOCH_TRY(control.barrier("clocks aligned", within));
    return best;
  };
  auto aligned = align();
  // From now on the control plane keeps messages that arrive until the fabric sets its own handler.
  control.on_message({});
  return aligned;
}

}  // namespace loch::fabric::processes
