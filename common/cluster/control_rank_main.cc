// A rank of the multi-process tests of the control plane: `control_rank SCENARIO [OPTIONS]`. Rank 0 prints
// the result in one line, with durations in milliseconds. Scenarios:
//   meet      collective calls, messages to every rank, a large text
//   child     rank 1's working process is killed between two collective calls
//   launcher  rank 1's launcher process is killed
//   again     rank 1 is killed and restarted twice while the other ranks keep sending it messages
//   late      rank 2 comes two seconds late to a collective call that waits half a second
//   ends      rank 2 exits with status 3 without coming to a collective call
//   stall S   mpirun is stopped for S seconds
//   wait S    all ranks wait S seconds for losses caused from outside, then gather
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/check.h"
#include "common/cluster/rank.h"

namespace loch::cluster {
namespace {

constexpr Nanos second = 1'000'000'000;

std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

int say(const Error& error) {
  fmt::print("error: {}\n", error.message);
  return 0;
}

int meet(Control& control) {
  std::atomic<int> heard = 0;
  control.on_message([&](std::uint32_t from, std::string_view text) {
    LOCH_CHECK(text == fmt::format("from {}", from));
    ++heard;
  });
  if (auto ok = control.barrier("ready", 10 * second); !ok) return say(ok.error());
  for (std::uint32_t to = 0; to < control.ranks(); ++to) {
    if (to != control.rank()) control.send(to, fmt::format("from {}", control.rank()));
  }
  const std::string large(3'000'000, static_cast<char>('a' + control.rank()));
  const auto all = control.all_gather("large", large, 10 * second);
  if (!all) return say(all.error());
  const std::int64_t began = now();
  for (int i = 0; i < 100; ++i) {
    if (auto ok = control.barrier("again", 10 * second); !ok) return say(ok.error());
  }
  const double each_ms = static_cast<double>(now() - began) / 100 / 1e6;
  const auto got = control.gather("end", fmt::format("{}:{}", control.rank(), heard.load()), 10 * second);
  if (!got) return say(got.error());
  control.on_message({});
  if (control.rank() != 0) return 0;
  fmt::print("met: {} | {} {} | unheard for {} at most | barrier {:.2f} ms\n", fmt::join(*got, " "),
             all->back().size(), all->back().front(), format_duration(control.longest_silence()), each_ms);
  return 0;
}

int lose(Control& control, const std::string& scenario) {
  std::atomic<std::int64_t> died = 0;
  std::atomic<std::int64_t> noticed = 0;
  control.on_message(
      [&](std::uint32_t, std::string_view text) { died = std::atoll(std::string(text).c_str()); });
  control.on_lost([&](std::uint32_t) { noticed = now(); });
  if (auto ok = control.barrier("ready", 10 * second); !ok) return say(ok.error());
  if (control.rank() == 1) {
    for (const std::uint32_t to : {0, 2}) control.send(to, std::to_string(now()));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    for (const std::uint32_t to : {0, 2}) control.send(to, std::to_string(now()));
    if (scenario == "launcher") {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      kill(getppid(), SIGKILL);
      for (;;) pause();
    }
    kill(getpid(), SIGKILL);
  }
  if (auto ok = control.barrier("after", 20 * second); !ok) return say(ok.error());
  const auto got = control.gather("end", fmt::format("{}", control.is_lost(1)), 10 * second);
  if (!got) return say(got.error());
  while (noticed == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  control.on_message({});
  control.on_lost({});
  if (control.rank() != 0) return 0;
  fmt::print("lost: [{}] noticed after {:.1f} ms\n", fmt::join(*got, ","),
             static_cast<double>(noticed - died) / 1e6);
  return 0;
}

// Scenario "again", one incarnation of rank 1: greets the other ranks, waits for 200 greetings to its own
// incarnation, and is then killed unless it is the last incarnation.
int live(Control& control) {
  const std::uint32_t self = control.incarnation(control.rank());
  std::atomic<int> greetings = 0, strange = 0;
  control.on_message([&](std::uint32_t, std::string_view text) {
    ++(text == fmt::format("incarnation {}", self) ? greetings : strange);
  });
  if (self == 0) {
    if (auto ok = control.barrier("ready", 10 * second); !ok) return say(ok.error());
  } else if (control.barrier("ready", second).has_value() || control.incarnation(0) != 0 ||
             control.is_lost(2)) {
    return 1;
  }
  for (const std::uint32_t to : {0, 2}) control.send(to, fmt::format("incarnation {}", self));
  while (greetings < 200) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (const std::uint32_t to : {0, 2}) control.send(to, fmt::format("strange {}", strange.load()));
  if (self == 2) return 0;
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  kill(getpid(), SIGKILL);
  return 1;
}

// Scenario "again", the other ranks: record losses, restarts and messages in order, and keep sending each
// incarnation of rank 1 greetings that name it.
int outlive(Control& control) {
  std::mutex mutex;
  std::string heard;
  std::atomic<std::uint32_t> incarnation = 0;
  std::atomic<int> ends = 0;
  const auto note = [&](std::string_view what) {
    const std::scoped_lock lock(mutex);
    heard += fmt::format("{}; ", what);
  };
  control.on_message([&](std::uint32_t, std::string_view text) {
    note(text);
    if (text.starts_with("strange")) ++ends;
  });
  control.on_lost([&](std::uint32_t rank) { note(fmt::format("lost {}", rank)); });
  control.on_back([&](std::uint32_t rank) {
    incarnation = control.incarnation(rank);
    note(fmt::format("back {}", rank));
  });
  if (auto ok = control.barrier("ready", 10 * second); !ok) return say(ok.error());
  const std::int64_t began = now();
  while (ends < 3 && now() - began < 50 * second) {
    // Rank 1 may be restarted before the text arrives; the text must then be dropped, not reach the new
    // incarnation.
    const std::uint32_t meant = incarnation;
    if (!control.is_lost(1) && control.incarnation(1) == meant)
      control.send(1, fmt::format("incarnation {}", meant));
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  const auto got = control.gather("end", heard, 10 * second);
  if (!got) return say(got.error());
  for (const std::uint32_t rank : {0, 2}) {
    if (control.rank() == 0) fmt::print("{}: {}\n", rank, (*got)[rank]);
  }
  control.on_message({});
  control.on_lost({});
  control.on_back({});
  return 0;
}

int come_late(Control& control) {
  if (control.rank() == 2) std::this_thread::sleep_for(std::chrono::seconds(2));
  const auto ok = control.barrier("start line", second / 2);
  if (control.rank() == 0) fmt::print("late: {}\n", ok ? "nobody" : ok.error().message);
  return 0;
}

int end_early(Control& control) {
  if (control.rank() == 2) return 3;
  const auto ok = control.all_gather("endpoints", "x", 10 * second);
  if (control.rank() == 0) fmt::print("ended: {}\n", ok ? "nobody" : ok.error().message);
  return 0;
}

int wait_for_losses(Control& control, int seconds) {
  const auto place =
      fmt::format("{} pid {} of {} on {}", control.rank(), getpid(), getppid(), control.host(control.rank()));
  const auto all = control.all_gather("places", place, 10 * second);
  if (!all) return say(all.error());
  if (control.rank() == 0) {
    for (const std::string& each : *all) fmt::print("rank {}\n", each);
    std::fflush(stdout);
  }
  control.on_lost([&](std::uint32_t lost) {
    fmt::print(stderr, "{} rank {} notices the loss of {}\n", now() / 1'000'000, control.rank(), lost);
  });
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  const auto got = control.gather("end", std::to_string(control.rank()), 10 * second);
  control.on_lost({});
  if (!got) return say(got.error());
  if (control.rank() == 0) fmt::print("{} end: [{}]\n", now() / 1'000'000, fmt::join(*got, ","));
  return 0;
}

// The parent of a process, from /proc; 0 if it is gone.
pid_t parent_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("PPid:")) return std::atoi(line.c_str() + 5);
  }
  return 0;
}

// Scenario "stall": mpirun, which passes on the launchers' messages, is stopped for `seconds`.
int stall(Control& control, int seconds) {
  std::atomic<int> lost = 0;
  control.on_lost([&](std::uint32_t) { ++lost; });
  if (auto ok = control.barrier("ready", 10 * second); !ok) return say(ok.error());
  if (control.rank() == 0) {
    const pid_t mpirun = parent_of(getppid());
    if (mpirun <= 1) return 1;
    kill(mpirun, SIGSTOP);
    std::this_thread::sleep_for(std::chrono::seconds(seconds));
    kill(mpirun, SIGCONT);
  }
  const auto got = control.gather("end", "here", 30 * second);
  control.on_lost({});
  if (!got) return say(got.error());
  if (control.rank() == 0) fmt::print("stalled: {} lost, [{}]\n", lost.load(), fmt::join(*got, ","));
  return 0;
}

int play(Control& control, const std::string& scenario, const std::string& argument) {
  if (scenario == "meet") return meet(control);
  if (scenario == "child" || scenario == "launcher") return lose(control, scenario);
  if (scenario == "again") return control.rank() == 1 ? live(control) : outlive(control);
  if (scenario == "late") return come_late(control);
  if (scenario == "ends") return end_early(control);
  if (scenario == "stall") return stall(control, std::atoi(argument.c_str()));
  if (scenario == "wait") return wait_for_losses(control, std::atoi(argument.c_str()));
  fmt::print(stderr, "control_rank: no scenario \"{}\"\n", scenario);
  return 2;
}

}  // namespace
}  // namespace loch::cluster

int main(int argc, char** argv) {
  using namespace loch::cluster;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto env = launch_env();
  if (!env || arguments.empty()) return 2;
  const std::string argument = arguments.size() > 1 ? arguments[1] : "5";
  auto config = rank_config();
  if (!config) {
    fmt::print(stderr, "control_rank: {}\n", config.error().message);
    return 2;
  }
  if (arguments[0] == "again") config->restarts = 2;
  return run_as_rank(*env, *config, [&](Control& control) { return play(control, arguments[0], argument); });
}
