// The command `loch hog`: parses its flags, runs background CPU load for a time or as long as a command, and
// reports what both got.
#include "app/cli/background_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "app/cli/flags.h"
#include "common/background_load/cores.h"
#include "common/background_load/cpu_group.h"
#include "common/background_load/cpu_load.h"
#include "common/base/output_place.h"
#include "common/kv/options.h"

namespace loch::cli {
namespace {

constexpr const char* usage =
    "Usage: loch hog [flags] [-- COMMAND…]\n"
    "Background CPU workers: processes that compute SHA-256 (OpenSSL) for ever, by themselves or\n"
    "alongside COMMAND, in one scheduling group with it. Prints as JSON what each hashed and the share of\n"
    "a core that it got.\n"
    "\n"
    "  --workers N          background workers on this machine (1)\n"
    "  --pin WHERE          none (default): the kernel puts them; shared: on COMMAND's cores, in turn;\n"
    "                       separate: on the other cores, in turn\n"
    "  --cores LIST         COMMAND runs on these cores alone, such as 0-3,6 (all that are usable)\n"
    "  --duration TIME      how long, without COMMAND: 500ms, 10s (10s)\n"
    "  --quota CORES        CPU time that background workers and COMMAND together may have, in\n"
    "                       cores: 1.5 (no limit); needs a cgroup\n"
    "  --group KIND         auto (default): a new cgroup with the cpu controller where one can be made,\n"
    "                       else this session; cgroup: that or nothing; session\n"
    "  --buffer BYTES       hashed again and again: 64, 4K (64)\n"
    "  --json FILE          write the JSON here, not to standard output\n"
    "\n"
    "Exit status: 0, or COMMAND's; 1 background workers were lost; 2 bad input.\n"
    "Example: loch hog --workers 4 --pin shared -- ./my-server\n"
    "To disturb a measured point, use loch bench --hogs: it counts in the measurement window alone.\n";

std::unexpected<Error> bad(std::string_view flag, std::string_view text, std::string_view expected) {
  return fail(ErrorCode::invalid_argument, fmt::format("{}: \"{}\" is not {}", flag, text, expected));
}

template <typename Number>
bool parse_all(const std::string& text, Number& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc{} && end == text.data() + text.size();
}

Result<> one_of(const std::string& flag, const std::string& text, const std::vector<std::string>& choices) {
  for (const std::string& choice : choices) {
    if (text == choice) return {};
  }
  return bad(flag, text, fmt::format("one of {}", fmt::join(choices, ", ")));
}

Result<> apply(const std::string& flag, const std::string& value, BackgroundOptions& o) {
  if (flag == "--workers") {
    if (!parse_all(value, o.workers) || o.workers < 1 || o.workers > 10'000)
      return bad(flag, value, "a number of workers, 1 to 10000");
  } else if (flag == "--pin") {
    LOCH_TRY(one_of(flag, value, {"none", "shared", "separate"}));
    o.pin = value;
  } else if (flag == "--cores") {
    LOCH_ASSIGN(o.cores, background::parse_cores(value, flag));
  } else if (flag == "--duration") {
    LOCH_ASSIGN(o.duration, parse_duration(value, flag));
    if (o.duration <= 0) return bad(flag, value, "longer than nothing");
  } else if (flag == "--quota") {
    double cores = 0;
    if (!parse_all(value, cores) || !(cores >= 0.01) || cores > 10'000)
      return bad(flag, value, "a number of cores such as 0.5 or 2, at least 0.01");
    o.quota = cores;
  } else if (flag == "--group") {
    LOCH_TRY(one_of(flag, value, {"auto", "cgroup", "session"}));
    o.group = value;
  } else if (flag == "--buffer") {
    LOCH_ASSIGN(const std::uint64_t bytes, parse_size(value, flag));
    if (bytes < 1 || bytes > 1 << 30) return bad(flag, value, "1 byte to 1G");
    o.buffer_bytes = static_cast<std::uint32_t>(bytes);
  } else {
    o.json = value;
  }
  return {};
}

Result<> check(BackgroundOptions& o, bool has_duration) {
  if (!o.command.empty() && has_duration)
    return fail(ErrorCode::invalid_argument, "--duration: with COMMAND, it lasts as long as COMMAND does");
  if (!has_duration) o.duration = 10'000'000'000;
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

// ---- Running ------------------------------------------------------------------------------------------

[[nodiscard]] Nanos now() {
  timespec at{};
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1'000'000'000LL + at.tv_nsec;
}

std::atomic<int> caught = 0;
void note(int number) { caught = number; }

// COMMAND's exit status and CPU time, including its own children.
struct Ended {
  int status = 0;  // exit status, 128 plus the signal's number where a signal ended the command
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

// Ctrl-C reaches COMMAND from the terminal; a kill of this process is passed on.
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

// The group that background workers and command will be in; null: the session that this process is in.
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

Result<BackgroundOptions> parse_background(const std::vector<std::string>& arguments) {
  static const std::vector<std::string> flags = {"--workers", "--pin",   "--cores",  "--duration",
                                                 "--quota",   "--group", "--buffer", "--json"};
  BackgroundOptions o;
  bool has_duration = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--") {
      o.command.assign(arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1, arguments.end());
      if (o.command.empty()) return fail(ErrorCode::invalid_argument, "--: expected COMMAND after it");
      break;
    }
    auto [flag, value, has_value] = split_flag(arguments[i]);
    LOCH_TRY(known_flag(flag, flags, " (COMMAND comes after --)"));
    if (!has_value) {
      if (++i == arguments.size()) return fail(ErrorCode::invalid_argument, flag + ": expected a value");
      value = arguments[i];
    }
    if (value.empty()) return fail(ErrorCode::invalid_argument, flag + ": expected a value");
    has_duration = has_duration || flag == "--duration";
    LOCH_TRY(apply(flag, value, o));
  }
  LOCH_TRY(check(o, has_duration));
  return o;
}

int run_background_command(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--") break;
    if (argument == "--help" || argument == "-h") {
      fmt::print("{}", usage);
      return 0;
    }
  }
  const auto options = parse_background(arguments);
  return options ? run(*options) : complain(options.error());
}

}  // namespace loch::cli
