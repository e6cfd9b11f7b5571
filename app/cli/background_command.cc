// The command `loch hog`: parses its flags, runs background CPU load for a given time or alongside a command,
// and reports the CPU time that the background workers and the command got.
#include "app/cli/background_command.h"

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "common/background_load/cores.h"
#include "common/background_load/cpu_group.h"
#include "common/background_load/cpu_load.h"
#include "common/base/output_place.h"

namespace loch::cli {
namespace {

Result<> check(BackgroundOptions& o, bool has_duration) {
  if (!o.command.empty() && has_duration)
    return fail(ErrorCode::invalid_argument, "--duration: with COMMAND, it lasts as long as COMMAND does");
  if (o.quota && o.group == "session")
    return fail(ErrorCode::invalid_argument, "--quota: a session has none; with --group cgroup");
  const std::vector<std::uint32_t> usable = background::usable_cores();
  for (const std::uint32_t core : o.cores) {
    if (std::ranges::find(usable, core) == usable.end())
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--cores: core {} is not among those of this process: {}", core,
                              background::format_cores(usable)));
  }
  if (o.pin == "separate" && o.cores.empty())
    return fail(ErrorCode::invalid_argument,
                "--pin separate: from which cores? with --cores, those of COMMAND");
  LOCH_TRY(background::place_background_load(o.pin, "--pin", o.cores, usable));
  if (!o.json.empty()) {
    if (const std::string why = why_no_output(o.json); !why.empty())
      return fail(ErrorCode::invalid_argument, fmt::format("--json: {}: {}", o.json, why));
  }
  return {};
}

// ---- Running the command under the background load ----------------------------------------------------

[[nodiscard]] Nanos now() {
  timespec at{};
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1'000'000'000LL + at.tv_nsec;
}

std::atomic<int> caught = 0;
void note(int number) { caught = number; }

// How the user's command ended: its exit status, and the CPU time in seconds of the command and its children.
struct Ended {
  int status = 0;  // exit status, or 128 plus the number of the signal that ended the command
  double cpu_s = 0;
};

[[noreturn]] void become(const BackgroundOptions& o) {
  if (!o.cores.empty()) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const std::uint32_t core : o.cores) CPU_SET(core, &set);
    sched_setaffinity(0, sizeof set, &set);
  }
  for (const int number : {SIGINT, SIGTERM}) signal(number, SIG_DFL);
  std::vector<char*> words;
  words.reserve(o.command.size() + 1);
  for (const std::string& word : o.command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  fmt::print(stderr, "loch hog: {}: {}\n", o.command[0], std::strerror(errno));
  _exit(errno == ENOENT ? 127 : 126);
}

// Waits for the command to end. Ctrl-C reaches the command from the terminal; a signal sent only to this
// process is passed on to the command.
Ended await_command(pid_t pid) {
  int status = 0;
  rusage used{};
  bool is_told = false;
  while (wait4(pid, &status, 0, &used) < 0) {
    if (errno == EINTR && caught != 0 && !is_told) {
      kill(pid, caught);
      is_told = true;
    }
  }
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  Ended ended;
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ended.cpu_s = seconds(used.ru_utime) + seconds(used.ru_stime);
  return ended;
}

void sleep_for(Nanos span) {
  timespec left{span / 1'000'000'000, span % 1'000'000'000};
  while (nanosleep(&left, &left) != 0 && caught == 0) {
  }
}

// Makes the cgroup in which the background workers and the command run. Returns null if they stay in this
// process's session: with --group session, or because no cgroup can be made (`why_not` says why).
Result<std::unique_ptr<background::CpuGroup>> make_group(const BackgroundOptions& o, std::string& why_not) {
  if (o.group == "session") return nullptr;
  auto group = background::CpuGroup::make(o.quota);
  if (group) return group;
  if (o.quota || o.group == "cgroup")
    return fail(ErrorCode::unsupported,
                fmt::format("{}: {}", o.quota ? "--quota" : "--group cgroup", group.error().message));
  why_not = group.error().message;
  return nullptr;
}

nlohmann::ordered_json group_json(const BackgroundOptions& o, const background::CpuGroup* group,
                                  const std::string& why_not) {
  nlohmann::ordered_json out = background::to_json(background::current_group());
  out["quota_cores"] = o.quota ? nlohmann::ordered_json(*o.quota) : nlohmann::ordered_json(nullptr);
  const background::CpuGroup::Throttled throttled =
      group == nullptr ? background::CpuGroup::Throttled() : group->throttled();
  out["throttled_periods"] = throttled.periods;
  out["throttled_s"] = throttled.seconds;
  out["no_cgroup_because"] =
      why_not.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(why_not);
  return out;
}

struct Measured {
  double span_s = 0;
  std::vector<background::WorkerUsage> usage;
  std::optional<Ended> command;
};

nlohmann::ordered_json document(const BackgroundOptions& o, const std::vector<std::uint32_t>& cores,
                                const Measured& measured) {
  nlohmann::ordered_json out, each = nlohmann::ordered_json::array();
  std::uint64_t hashes = 0;
  for (const background::WorkerUsage& one : measured.usage) {
    const double cpu_s = static_cast<double>(one.cpu) / 1e9;
    hashes += one.hashes;
    each.push_back({{"hashes", one.hashes}, {"cpu_s", cpu_s}, {"cpu_share", cpu_s / measured.span_s}});
  }
  out["schema"] = 1;
  out["workers"] = o.workers;
  out["pin"] = o.pin;
  out["cores"] = background::format_cores(cores);
  out["buffer_bytes"] = o.buffer_bytes;
  out["duration_s"] = measured.span_s;
  out["hashes"] = hashes;
  out["hashes_per_s"] = static_cast<double>(hashes) / measured.span_s;
  out["hogs"] = std::move(each);
  out["command"] = nullptr;
  if (measured.command)
    out["command"] = {{"argv", o.command},
                      {"cores", background::format_cores(o.cores)},
                      {"exit_status", measured.command->status},
                      {"cpu_s", measured.command->cpu_s},
                      {"cpu_share", measured.command->cpu_s / measured.span_s}};
  return out;
}

int complain(const Error& error) {
  fmt::print(stderr, "loch hog: {}\n", error.message);
  const bool is_input = error.code == ErrorCode::invalid_argument || error.code == ErrorCode::unsupported;
  return is_input ? 2 : 1;
}

Result<Measured> measure(const BackgroundOptions& o, background::CpuLoad& load) {
  Measured measured;
  const Nanos began = now();
  load.go();
  if (o.command.empty()) {
    sleep_for(o.duration);
  } else {
    const pid_t pid = fork();
    if (pid < 0)
      return fail(ErrorCode::exhausted, fmt::format("cannot start COMMAND: {}", std::strerror(errno)));
    if (pid == 0) become(o);
    measured.command = await_command(pid);
  }
  measured.usage = load.usage();
  measured.span_s = static_cast<double>(now() - began) / 1e9;
  return measured;
}

int run(const BackgroundOptions& o) {
  std::string why_not;
  const auto group = make_group(o, why_not);
  if (!group) return complain(group.error());
  background::CpuLoadConfig config;
  config.workers = o.workers;
  config.buffer_bytes = o.buffer_bytes;
  const std::vector<std::uint32_t> usable = background::usable_cores();
  config.cores =
      *background::place_background_load(o.pin, "--pin", o.cores.empty() ? usable : o.cores, usable);
  const auto load = background::CpuLoad::start(config);
  if (!load) return complain(load.error());
  struct sigaction action = {};
  action.sa_handler = note;
  for (const int number : {SIGINT, SIGTERM}) sigaction(number, &action, nullptr);
  const auto measured = measure(o, **load);
  if (!measured) return complain(measured.error());
  const std::uint32_t lost = (*load)->stop();
  if (caught != 0 && o.command.empty()) {
    fmt::print(stderr, "loch hog: interrupted; nothing was written\n");
    return 130;
  }
  nlohmann::ordered_json out = document(o, config.cores, *measured);
  out["group"] = group_json(o, group->get(), why_not);
  out["lost"] = lost;
  if (o.json.empty()) {
    fmt::print("{}\n", out.dump(1));
  } else if (const auto ok = write_output(o.json, out.dump(1) + "\n"); !ok) {
    return complain(ok.error());
  }
  if (lost > 0) fmt::print(stderr, "loch hog: {} of {} background workers ended early\n", lost, o.workers);
  const int status = measured->command.value_or(Ended()).status;
  return status == 0 && lost > 0 ? 1 : status;
}

}  // namespace

settings::Command background_command(BackgroundFlags& flags) {
  using settings::choice;
  using settings::in_unit;
  using settings::of;
  using settings::shown;
  using settings::Type;
  BackgroundOptions& o = flags.options;
  return {
      .name = "hog",
      .usage = {"[flags] [-- COMMAND…]"},
      .about =
          "Background CPU workers: processes that compute SHA-256 (OpenSSL) for ever, by themselves or "
          "alongside COMMAND, in "
          "one scheduling group with it. Prints as JSON what each hashed and the share of a core that it "
          "got.",
      .flags =
          {
              {.setting = of(Type::integer, "workers", "1", "background workers on this machine", 1, 10'000),
               .place = &o.workers},
              {.setting =
                   choice("pin", {"none", "shared", "separate"},
                          "none: the kernel puts them; shared: on COMMAND's cores, in turn; separate: on "
                          "the other cores, in turn",
                          "WHERE"),
               .place = &o.pin},
              {.setting = shown(of(Type::text, "cores", "",
                                   "COMMAND runs on these cores alone, such as 0-3,6 (all that are usable)"),
                                "LIST"),
               .place = &flags.cores},
              {.setting = of(Type::duration, "duration", "10s", "how long, without COMMAND", 1),
               .place = &o.duration},
              {.setting = shown(in_unit(of(Type::real, "quota", "",
                                           "CPU time that background workers and COMMAND together may have: "
                                           "1.5 (no limit); needs a "
                                           "cgroup",
                                           0.01, 10'000),
                                        "cores"),
                                "CORES"),
               .place = &o.quota},
              {.setting =
                   choice("group", {"auto", "cgroup", "session"},
                          "auto: a new cgroup with the cpu controller where one can be made, else this "
                          "session; cgroup: that or nothing",
                          "KIND"),
               .place = &o.group},
              {.setting = of(Type::size, "buffer", "64", "hashed again and again", 1, 1 << 30),
               .place = &o.buffer_bytes},
              {.setting = of(Type::output, "json", "", "write the JSON here, not to standard output"),
               .place = &o.json},
          },
      .rest = "COMMAND",
      .notes =
          "To disturb a measured point, use loch bench --hogs: it counts in the measurement window alone.",
      .statuses = {{"0", "done, or COMMAND's own"},
                   {"1", "background workers were lost"},
                   {"2", "bad input"},
                   {"130", "interrupted"}},
      .example = "hog --workers 4 --pin shared -- ./my-server"};
}

Result<BackgroundOptions> parse_background(const std::vector<std::string>& arguments) {
  BackgroundFlags flags;
  LOCH_ASSIGN(settings::Given given, settings::parse(background_command(flags), arguments));
  BackgroundOptions& o = flags.options;
  if (given.has("cores")) {
    LOCH_ASSIGN(o.cores, background::parse_cores(flags.cores, "--cores"));
  }
  o.command = std::move(given.rest);
  LOCH_TRY(check(o, given.has("duration")));
  return o;
}

int run_background_command(const std::vector<std::string>& arguments) {
  if (settings::asks_for_help(arguments)) {
    BackgroundFlags flags;
    fmt::print("{}", settings::help(background_command(flags)));
    return 0;
  }
  const auto options = parse_background(arguments);
  return options ? run(*options) : complain(options.error());
}

}  // namespace loch::cli
