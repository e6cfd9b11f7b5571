// The command `loch-bench points`: checks or runs the points (measurements, each with its own flags) that a
// file lists, each in a child process. Points that differ only in flags of the load can get copies (fork) of
// one preloaded cluster.
#include "app/cli/points_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>

#include "app/cli/bench.h"
#include "app/cli/bench_flags.h"
#include "app/cli/kept_points.h"
#include "app/cli/registry.h"
#include "app/cli/standard_streams.h"
#include "common/base/die_with_parent.h"
#include "common/base/file.h"
#include "common/base/process_memory.h"
#include "common/cluster/launch_env.h"
#include "common/cluster/rank.h"
#include "common/fabric/shm/shm.h"

namespace loch::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t list_bytes_max = 64 << 20;
constexpr int exit_no_process = 1;
// page_copy_s() from which on simulated points are set up one by one. A set-up takes some 6 us for each page
// that it leaves, and a load then writes to a tenth to a third of these pages, each of which costs twice as
// much as page_copy_s() says of a few (docs/performance.md).
constexpr double dear_page_copy_s = 10e-6;

// A point (measurement) of the list that was read.
struct Listed {
  std::vector<std::string> arguments;  // arguments of `loch bench`
  std::string output;  // file to which the child process appends its standard output and error
};

// The points in a list with this text; `path` is for messages.
Result<std::vector<Listed>> parse_list(const std::string& text, const std::string& path) {
  const ordered_json document = ordered_json::parse(text, nullptr, false);
  const auto bad = [&] {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: expected a JSON list of objects such as {{\"arguments\": [\"--keys\", "
                            "\"1000\"], \"output\": \"FILE\"}}",
                            path));
  };
  if (!document.is_array()) return bad();
  std::vector<Listed> list;
  for (const ordered_json& entry : document) {
    if (!entry.is_object() || !entry.contains("arguments") || !entry["arguments"].is_array()) return bad();
    Listed point;
    for (const ordered_json& word : entry["arguments"]) {
      if (!word.is_string()) return bad();
      point.arguments.push_back(word.get<std::string>());
    }
    if (entry.contains("output")) {
      if (!entry["output"].is_string()) return bad();
      point.output = entry["output"].get<std::string>();
    }
    list.push_back(std::move(point));
  }
  return list;
}

Result<std::vector<Listed>> read_list(const std::string& path) {
  LOCH_ASSIGN(const std::string text, read_whole(path, list_bytes_max));
  return parse_list(text, path);
}

// Prints what happened to the point with this number, as one line of JSON, and flushes it at once.
void tell(std::size_t point, const ordered_json& what, std::FILE* stream = stdout) {
  ordered_json line = {{"point", point}};
  line.update(what);
  fmt::print(stream, "{}\n", line.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  std::fflush(stream);
}

// Makes the file of the point this process's standard output and error. Returns false if it cannot be opened.
bool print_into(const Listed& point) {
  std::fflush(stdout);
  const int into = ::open(point.output.empty() ? "/dev/null" : point.output.c_str(),
                          O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (into < 0) return false;
  ::dup2(into, STDOUT_FILENO);
  ::dup2(into, STDERR_FILENO);
  ::close(into);
  return true;
}

double cpu_s(const rusage& used) {
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// How a process with this wait status has ended, as a line of output has it.
ordered_json end_of(int wait_status, double cpu_s) {
  ordered_json how = WIFSIGNALED(wait_status) ? ordered_json{{"signal", WTERMSIG(wait_status)}}
                                              : ordered_json{{"status", WEXITSTATUS(wait_status)}};
  how["cpu_s"] = cpu_s;
  return how;
}

// Runs in the child process of run_in_child(): redirects its output to the file of the point, and calls
// `run`. Does not return.
[[noreturn]] void be_child(const Listed& point, pid_t parent, const std::function<int()>& run) {
  if (!die_with_parent(parent)) ::_exit(exit_no_process);
  if (!print_into(point)) ::_exit(exit_no_process);
  // The cluster's objects are not destroyed, because the process ends and the kernel frees its memory.
  ::_exit(with_output_checked("bench", run));
}

// Runs a point in a forked copy of this process, and prints how the copy ended. Returns false if no process
// could be forked.
bool run_in_child(std::size_t number, const Listed& point, const std::function<int()>& run) {
  std::fflush(stdout);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) be_child(point, parent, run);
  if (child < 0) {
    fmt::print(stderr, "loch points: no process for a point: {}\n", std::strerror(errno));
    return false;
  }
  tell(number, {{"pid", child}});
  int status = 0;
  rusage used{};
  while (::wait4(child, &status, 0, &used) < 0 && errno == EINTR) {
  }
  tell(number, end_of(status, cpu_s(used)));
  return true;
}

// Whether the run can begin with a cluster that was preloaded for another point: it needs no history, trace,
// faults, replay, file or other thing that is set up before the load; and the whole cluster is memory of one
// process, which a fork copies, or its load can follow another one on the same store. Processes that begin
// with copies of one cluster would write to a file at the same places.
bool can_share(const BenchOptions& o) {
  const bool is_memory = o.fabric == "sim" || (o.fabric == "shm" && o.background_workers == 0);
  return (is_memory || can_follow(o)) && o.repeats == 1 && o.search.empty() && o.history.empty() &&
         o.trace.empty() && o.faults.empty() && !o.load.replay && o.key_sizes == nullptr &&
         o.value_sizes == nullptr && !o.dry_run && !writes_file(o);
}

// The points (measurements) of a list, with their parsed options; nullopt for a point whose flags are bad.
struct Points {
  std::vector<Listed> listed;
  std::vector<std::optional<BenchOptions>> options;
  std::vector<bool> has_run;
  bool share_simulated = true;  // whether simulated points begin with copies of one preloaded cluster

  // Point `i`, and the later points that have not run yet and can begin with the same preloaded cluster.
  [[nodiscard]] std::vector<std::size_t> alike(std::size_t i) const {
    std::vector<std::size_t> found = {i};
    if (!options[i] || (options[i]->fabric == "sim" && !share_simulated)) return found;
    for (std::size_t k = i + 1; k < listed.size(); ++k) {
      if (!has_run[k] && options[k] && have_one_set_up(*options[i], *options[k])) found.push_back(k);
    }
    return found;
  }
};

// Opens a fabric and preloads a store for these options. Returns null if this fails; the point's own process
// then tries it again and reports the error. In real time also if the store is not in the fabric's memory,
// but in another process (memcached).
std::unique_ptr<PointRun> set_up(const BenchOptions& o, const kv::Module& module) {
  auto run = open_point(o, module, 0, Place{});
  if (!run || !set_up_point(**run)) return nullptr;
  if (o.fabric != "sim" && fabric::shm::region_bytes(*(*run)->open.bare_shm).value_or(0) == 0) return nullptr;
  return *std::move(run);
}

// In real time, makes the forked process's memory its own, so that a point's measurement is that of a process
// which has preloaded the store itself. Returns false if there is too little memory for that.
bool own_memory(const BenchOptions& o, std::size_t points, PointRun& run) {
  if (o.fabric == "sim") return true;
  const auto began = std::chrono::steady_clock::now();
  if (!fabric::shm::own_memory(*run.open.bare_shm)) return false;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  run.note = fmt::format(
      "the store was preloaded once for {} points; this one began with a copy of its memory, made in {:.3f} "
      "s",
      points, took.count());
  return true;
}

// Runs the points of a group, all of which can begin with the same preloaded cluster. Returns false if no
// process could be forked.
bool run_group(const Points& points, const std::vector<std::size_t>& group, const kv::Registry& registry) {
  std::unique_ptr<PointRun> run;
  const kv::Module* module = nullptr;
  if (group.size() > 1) {
    const BenchOptions& first = *points.options[group.front()];
    const auto found = find_protocol(registry, first.protocol);
    if (found) run = set_up(first, *(module = *found));
  }
  return std::ranges::all_of(group, [&](std::size_t i) {
    return run_in_child(i, points.listed[i], [&]() -> int {
      if (run == nullptr) return run_bench(points.listed[i].arguments, registry);
      const BenchOptions& own = *points.options[i];
      if (!own_memory(own, group.size(), *run)) return run_bench(points.listed[i].arguments, registry);
      if (const Result<> changed = change_load(own, *module, Place{}, *run); !changed) {
        fmt::print(stderr, "loch bench: {}\n", changed.error().message);
        return exit_no_process;
      }
      run->keeps_store = true;  // until this process ends: taking it down would copy pages that are shared
      return deliver_point(own, *module, Place{}, *run);
    });
  });
}

// What a process that runs points on one store shares with the process that has started it.
struct Shared {
  std::atomic<std::uint32_t> begun = 0, ended = 0;  // numbers of points
};

// Runs in the child process of run_on_kept_store(). Does not return.
[[noreturn]] void be_keeper(const Points& points, const std::vector<std::size_t>& group,
                            const kv::Module& module, pid_t parent, Shared& shared) {
  if (!die_with_parent(parent)) ::_exit(exit_no_process);
  const int said = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
  std::FILE* const news = said < 0 ? nullptr : ::fdopen(said, "w");
  if (news == nullptr) ::_exit(exit_no_process);
  std::vector<const BenchOptions*> options;
  for (const std::size_t i : group) options.push_back(&*points.options[i]);
  PointEvents events;
  events.begins = [&](std::size_t k) {
    if (!print_into(points.listed[group[k]])) ::_exit(exit_no_process);
    shared.begun = static_cast<std::uint32_t>(k) + 1;
    tell(group[k], {{"pid", ::getpid()}}, news);
  };
  events.has_ended = [&](std::size_t k, int status, double cpu) {
    tell(group[k], {{"status", status}, {"cpu_s", cpu}}, news);
    shared.ended = static_cast<std::uint32_t>(k) + 1;
  };
  run_on_one_store(options, module, Place{}, events);
  ::_exit(0);
}

// Runs points one after the other on one store, in one process that deploys and preloads it. Returns how many
// have ended; the store is not fit for the others. 0: no process could be forked.
std::size_t run_on_kept_store(const Points& points, const std::vector<std::size_t>& group,
                              const kv::Module& module) {
  std::fflush(stdout);
  void* const page =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return 0;
  auto* const shared = new (page) Shared;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) be_keeper(points, group, module, parent, *shared);
  if (child < 0) fmt::print(stderr, "loch points: no process for a point: {}\n", std::strerror(errno));
  int status = 0;
  rusage used{};
  while (child > 0 && ::wait4(child, &status, 0, &used) < 0 && errno == EINTR) {
  }
  std::size_t ended = shared->ended;
  if (shared->begun > ended) tell(group[ended++], end_of(status, cpu_s(used)));
  ::munmap(page, sizeof(Shared));
  return ended;
}

// Runs the points of a group on verbs or ofi; those that no store is fit for begin with another one. Returns
// false if no process could be forked.
bool run_kept_group(const Points& points, std::vector<std::size_t> group, const kv::Registry& registry) {
  const auto module = find_protocol(registry, points.options[group.front()]->protocol);
  while (group.size() > 1 && module) {
    const std::size_t ended = run_on_kept_store(points, group, **module);
    if (ended == 0) return false;
    group.erase(group.begin(), group.begin() + static_cast<std::ptrdiff_t>(ended));
  }
  return std::ranges::all_of(group, [&](std::size_t i) {
    return run_in_child(i, points.listed[i], [&] { return run_bench(points.listed[i].arguments, registry); });
  });
}

Points judged(std::vector<Listed> listed, const kv::Registry& registry) {
  Points points;
  for (const Listed& point : listed) {
    auto options = judge_flags(point.arguments, registry);
    points.options.push_back(options ? std::optional(*std::move(options)) : std::nullopt);
  }
  points.has_run.resize(listed.size());
  points.listed = std::move(listed);
  return points;
}

// Whether simulated points are to share preloaded clusters, for a value of the flag --share.
bool shares_simulated(const std::string& share) {
  return share == "always" || (share == "auto" && page_copy_s() < dear_page_copy_s);
}

int run_all(std::vector<Listed> listed, const std::string& share, const kv::Registry& registry) {
  Points points = judged(std::move(listed), registry);
  points.share_simulated = points.listed.size() < 2 || shares_simulated(share);
  for (std::size_t i = 0; i < points.listed.size(); ++i) {
    if (points.has_run[i]) continue;
    const std::vector<std::size_t> group = points.alike(i);
    const bool is_kept = group.size() > 1 && can_follow(*points.options[i]);
    if (!(is_kept ? run_kept_group(points, group, registry) : run_group(points, group, registry)))
      return exit_no_process;
    for (const std::size_t each : group) points.has_run[each] = true;
  }
  return 0;
}

// The processes of several that run on the machine of rank 0 use its files for what a point prints; what the
// others print goes where the launcher takes it.
class RankOutput {
 public:
  explicit RankOutput(const Place& place)
      : is_with_first_(place.control->host(place.rank) == place.control->host(0)) {
    if (place.rank != 0) return;
    const int said = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    if (said >= 0) news_ = ::fdopen(said, "w");
  }
  void begins(std::size_t number, const Listed& point) {
    if (is_with_first_) (void)print_into(point);
    if (news_ != nullptr) tell(number, {{"pid", ::getpid()}}, news_);
  }
  void has_ended(std::size_t number, int status, double cpu_s) {
    if (news_ != nullptr) tell(number, {{"status", status}, {"cpu_s", cpu_s}}, news_);
  }

 private:
  bool is_with_first_;
  std::FILE* news_ = nullptr;  // standard output as it was; of rank 0 alone
};

// Runs points of a list as one process of several, of which each has one node: the first point, and those
// that can follow it on the same store. `path` is read by rank 0.
int run_as_one_of_several(const std::string& path, const Place& place, const kv::Registry& registry) {
  constexpr Nanos within = 60'000'000'000;
  std::string mine;
  if (place.rank == 0) {
    auto text = read_whole(path, list_bytes_max);
    if (!text) {
      fmt::print(stderr, "loch points: {}\n", text.error().message);
      return exit_no_process;
    }
    mine = *std::move(text);
  }
  const auto texts = place.control->all_gather("list of points", mine, within);
  auto listed = texts ? parse_list(texts->front(), path) : std::unexpected(texts.error());
  if (!listed) {
    fmt::print(stderr, "loch points: {}\n", listed.error().message);
    return exit_no_process;
  }
  const Points points = judged(*std::move(listed), registry);
  if (points.options.empty() || !points.options.front() || !can_follow(*points.options.front())) return 0;
  const std::vector<std::size_t> group = points.alike(0);
  const auto module = find_protocol(registry, points.options.front()->protocol);
  if (!module) return 0;
  std::vector<const BenchOptions*> options;
  for (const std::size_t i : group) options.push_back(&*points.options[i]);
  RankOutput output(place);
  PointEvents events;
  events.begins = [&](std::size_t k) { output.begins(group[k], points.listed[group[k]]); };
  events.has_ended = [&](std::size_t k, int status, double cpu) { output.has_ended(group[k], status, cpu); };
  run_on_one_store(options, **module, place, events);
  return 0;
}

// As one of several processes on verbs or ofi, as a launcher has started them.
int run_as_rank(const std::string& path, const Place& place, const kv::Registry& registry) {
  const auto env = cluster::launch_env();
  const auto config = env ? cluster::rank_config() : std::unexpected(env.error());
  if (!config) {
    fmt::print(stderr, "loch points: {}\n", config.error().message);
    return exit_no_process;
  }
  return cluster::run_as_rank(*env, *config, [&](cluster::Control& control) {
    Place here = place;
    here.control = &control;
    return with_output_checked("points", [&] { return run_as_one_of_several(path, here, registry); });
  });
}

int judge_all(const std::vector<Listed>& listed, const kv::Registry& registry) {
  for (std::size_t i = 0; i < listed.size(); ++i) {
    const auto judged = [&]() -> Result<> {
      LOCH_ASSIGN(const BenchOptions options, judge_flags(listed[i].arguments, registry));
      LOCH_ASSIGN(const kv::Module* const module, find_protocol(registry, options.protocol));
      return judge_files(options, *module);
    }();
    const bool is_bad_input = !judged && (judged.error().code == ErrorCode::invalid_argument ||
                                          judged.error().code == ErrorCode::unsupported);
    tell(i, {{"status", judged         ? 0
                        : is_bad_input ? 2
                                       : 1},
             {"refusal", judged ? "" : judged.error().message}});
  }
  return 0;
}

}  // namespace

bool have_one_set_up(const BenchOptions& one, const BenchOptions& other) {
  if (!can_share(one) || !can_share(other)) return false;
  BenchOptions a = one, b = other;
  // The bound on memory is by default what is available at the moment, which changes all the time; what
  // follows from it is compared below (kept_value_bytes).
  const bool is_alike = std::ranges::all_of(bench_flags(), [&](const BenchFlag& flag) {
    return flag.is_of_load || flag.setting.key == "json" || flag.setting.key == "memory" ||
           stored(flag, a) == stored(flag, b);
  });
  return is_alike && a.kept_value_bytes == b.kept_value_bytes && a.key_order == b.key_order &&
         a.zero_padding == b.zero_padding && a.workload_files == b.workload_files &&
         a.protocol_options.values() == b.protocol_options.values() &&
         deploy_config(a).load_time == deploy_config(b).load_time;
}

settings::Command points_command(PointsFlags& flags) {
  using settings::of;
  using settings::Type;
  return {
      .name = "points",
      .usage = {"[--dry-run] [--share WHEN] LIST"},
      .about =
          "Runs points one after the other for ./loch run, each in a process of its own: those that differ "
          "only in their load can get copies of one preloaded cluster, or on verbs and ofi its store as the "
          "point before has left it. Prints a line of JSON when a point "
          "begins (\"pid\") and when it has ended (\"status\" or \"signal\", and its CPU time \"cpu_s\").",
      .operands = {{.setting = of(Type::file, "LIST", "",
                                  "a JSON list of points: \"arguments\", those of loch bench, and "
                                  "\"output\", the file for what it prints")}},
      .flags = {{.setting = of(Type::boolean, "dry-run", "",
                               "check the flags of every point and run nothing: \"status\" and \"refusal\""),
                 .place = &flags.is_dry},
                {.setting = settings::choice(
                     "share", {"auto", "always", "never"},
                     "simulated points begin with copies of one preloaded cluster: always, never (each sets "
                     "up its own), or where this machine copies a page in less than 10 us",
                     "WHEN"),
                 .place = &flags.share}},
      .statuses = {{"0", "every point has ended, well or not"},
                   {"1", "no process could be started"},
                   {"2", "bad input"}},
      .example = "points list.json",
      .program = "loch-bench"};
}

int run_points_command(const std::vector<std::string>& arguments, const kv::Registry& registry) {
  PointsFlags flags;
  const settings::Command command = points_command(flags);
  if (settings::asks_for_help(arguments)) {
    fmt::print("{}", settings::help(command));
    return 0;
  }
  const auto given = settings::parse(command, arguments);
  if (!given) return settings::refuse(command, given.error().message);
  const auto place = place_of_this_process();
  if (!place) return settings::refuse(command, place.error().message);
  if (place->ranks > 1 && !flags.is_dry) return run_as_rank(given->words.front(), *place, registry);
  auto listed = read_list(given->words.front());
  if (!listed) return settings::refuse(command, listed.error().message);
  return flags.is_dry ? judge_all(*listed, registry) : run_all(*std::move(listed), flags.share, registry);
}

}  // namespace loch::cli
