// The flags of loch fuzz, its threads, and what it prints.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <mutex>
#include <thread>

#include "common/base/version.h"
#include "common/check/history.h"
#include "common/cli/bench_options.h"
#include "common/cli/fuzz.h"
#include "common/cli/interrupt.h"
#include "common/cli/progress.h"
#include "common/cli/registry.h"

namespace loch::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* usage =
    "Usage: loch fuzz [flags]\n"
    "  --protocol P       protocol to run (nessie)\n"
    "  --seeds N          how many seeds (1000)\n"
    "  --first-seed S     the first of them (1)\n"
    "  --time T           stop after this much real time: 60s, 10m\n"
    "  --mutant M         a known-bad variant: loch list mutants\n"
    "  --set KEY=VALUE    fix a protocol option instead of drawing it\n"
    "  --hardware NAME    profile whose times are used (connectx3-10gbe)\n"
    "  --jobs N           threads (one a core)\n"
    "  --keep-going       report every finding, not only the first\n"
    "  --history FILE     write the history of the first finding\n"
    "  --verbose          a line for every seed\n"
    "Each seed draws its own cluster, workload, knobs, timing and faults. Exit status 0: nothing found; 1: "
    "found.\n";

Result<std::uint64_t> whole(const std::string& flag, const std::string& text, std::uint64_t least) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}: \"{}\" is not a whole number of at least {}", flag, text, least));
  }
  return value;
}

Result<> apply(const std::string& flag, const std::string& value, FuzzOptions& o) {
  if (flag == "--protocol") {
    o.protocol = value;
  } else if (flag == "--mutant") {
    o.mutant = value;
  } else if (flag == "--hardware") {
    o.hardware = value;
  } else if (flag == "--history") {
    o.history = value;
  } else if (flag == "--seeds") {
    LOCH_ASSIGN(o.seeds, whole(flag, value, 1));
  } else if (flag == "--first-seed") {
    LOCH_ASSIGN(o.first_seed, whole(flag, value, 0));
  } else if (flag == "--jobs") {
    LOCH_ASSIGN(const std::uint64_t jobs, whole(flag, value, 1));
    o.jobs = static_cast<std::uint32_t>(std::min<std::uint64_t>(jobs, 1024));
  } else if (flag == "--time") {
    LOCH_ASSIGN(o.time, parse_duration(value, flag));
  } else if (flag == "--set") {
    LOCH_ASSIGN(auto setting, split_setting(value));
    o.settings.push_back(std::move(setting));
  }
  return {};
}

// The protocol exists, the mutant is one of its, and every setting is an option of it.
Result<> check_names(const FuzzOptions& o, const kv::Registry& registry) {
  LOCH_TRY(find_fabric("sim"));
  LOCH_ASSIGN(const kv::Module* module, find_protocol(registry, o.protocol));
  kv::Options probe(module->options());
  for (const auto& [key, value] : o.settings) LOCH_TRY(probe.set(key, value));
  const auto mutants = module->mutants();
  if (!o.mutant.empty() && !mutants.contains(o.mutant)) {
    std::vector<std::string> names;
    for (const auto& each : mutants) names.push_back(each.first);
    const std::string near = kv::nearest(o.mutant, names);
    return fail(ErrorCode::invalid_argument,
                fmt::format("--mutant: {} has no mutant \"{}\"{}", o.protocol, o.mutant,
                            near.empty() ? "" : fmt::format("; did you mean {}?", near)));
  }
  return {};
}

std::string report(const FuzzFinding& f, const FuzzOptions& o) {
  std::string text = fmt::format("seed {}: {}: {}\n", f.seed, name(f.verdict), f.reason);
  if (!f.cause.empty()) text += fmt::format("  cause    {}\n", f.cause);
  text += fmt::format("  scenario {}\n", f.scenario);
  text +=
      fmt::format("  commit   {}{}, trace hash {:016x}, virtual time {:.6f} s, {} events\n", build_commit(),
                  build_is_dirty() ? " (dirty)" : "", f.trace_hash, f.virtual_s, f.events);
  if (!f.sub_history.empty()) text += "  smallest sub-history that contradicts itself:\n";
  for (const check::Operation& operation : f.sub_history)
    text += "    " + check::to_line(check::view(operation));
  return text + fmt::format("  rerun    {}\n", rerun_line(f, o));
}

Result<> write_history(const FuzzFinding& finding, const std::string& path) {
  LOCH_ASSIGN(const std::unique_ptr<check::HistoryWriter> writer, check::HistoryWriter::create(path));
  for (const check::Operation& operation : finding.history) {
    writer->log(operation.client).record(check::view(operation));
  }
  return writer->close();
}

// Hands out seeds to threads and collects what they find.
class Campaign {
 public:
  Campaign(const FuzzOptions& options, const kv::Module& module) : options_(options), module_(module) {}

  void run() {
    started_ = Clock::now();
    const std::uint32_t jobs =
        options_.jobs != 0 ? options_.jobs : std::max(1U, std::thread::hardware_concurrency());
    const Progress progress([this] { return line(); });
    std::vector<std::thread> threads;
    const auto most = static_cast<std::uint32_t>(std::min<std::uint64_t>(jobs, options_.seeds));
    for (std::uint32_t i = 1; i < most; ++i) threads.emplace_back([this] { work(); });
    work();
    for (std::thread& thread : threads) thread.join();
  }
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(Clock::now() - started_).count();
  }
  [[nodiscard]] std::string line() const {
    return fmt::format("{} {} of {} seeds, {:.0f} a second, {} found",
                       bar(static_cast<double>(done_) / static_cast<double>(options_.seeds)), done_.load(),
                       options_.seeds, static_cast<double>(done_) / std::max(0.001, seconds()),
                       found_.load());
  }
  [[nodiscard]] const std::vector<FuzzFinding>& findings() const { return findings_; }
  [[nodiscard]] std::uint64_t done() const { return done_; }
  [[nodiscard]] std::uint64_t events() const { return events_; }
  [[nodiscard]] std::uint64_t operations() const { return operations_; }

 private:
  void work() {
    while (!is_over()) {
      const std::uint64_t index = next_.fetch_add(1);
      if (index >= options_.seeds) return;
      FuzzFinding finding = fuzz_seed(options_.first_seed + index, options_, module_);
      ++done_;
      events_ += finding.events;
      operations_ += finding.operations;
      if (options_.verbose) say(finding);
      if (finding.verdict == FuzzVerdict::holds) continue;
      ++found_;
      const std::lock_guard lock(mutex_);
      findings_.push_back(std::move(finding));
    }
  }
  [[nodiscard]] bool is_over() const {
    if (was_interrupted() || (found_ > 0 && !options_.keep_going)) return true;
    return options_.time > 0 && seconds() * 1e9 > static_cast<double>(options_.time);
  }
  void say(const FuzzFinding& f) {
    const std::lock_guard lock(mutex_);
    fmt::print("seed {:<8} {:<9} {:016x} {}\n", f.seed, name(f.verdict), f.trace_hash, f.scenario);
  }

  const FuzzOptions& options_;
  const kv::Module& module_;
  Clock::time_point started_;
  std::atomic<std::uint64_t> next_{0}, done_{0}, found_{0}, events_{0}, operations_{0};
  std::mutex mutex_;
  std::vector<FuzzFinding> findings_;
};

int conclude(const FuzzOptions& o, Campaign& campaign) {
  std::vector<FuzzFinding> findings = campaign.findings();
  std::ranges::sort(findings, {}, &FuzzFinding::seed);
  if (!findings.empty() && !o.keep_going) findings.resize(1);
  for (const FuzzFinding& finding : findings) fmt::print("{}\n", report(finding, o));
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> by_cause;  // cause -> count, first seed
  for (const FuzzFinding& finding : findings) {
    const std::string key = finding.cause.empty() ? std::string(name(finding.verdict))
                                                  : finding.cause.substr(0, finding.cause.find(':'));
    auto& [count, first] = by_cause[key];
    if (count++ == 0) first = finding.seed;
  }
  for (const auto& [cause, seen] : by_cause)
    fmt::print("{:>6} x {} (first: seed {})\n", seen.first, cause, seen.second);
  fmt::print("{}{}: {} seeds, {} operations, {:.1f} M events in {:.1f} s ({:.0f} seeds a second): {}\n",
             o.protocol, o.mutant.empty() ? "" : " mutant " + o.mutant, campaign.done(),
             campaign.operations(), static_cast<double>(campaign.events()) / 1e6, campaign.seconds(),
             static_cast<double>(campaign.done()) / std::max(0.001, campaign.seconds()),
             findings.empty() ? "nothing found" : fmt::format("{} found", findings.size()));
  if (!findings.empty() && !o.history.empty()) {
    if (auto ok = write_history(findings.front(), o.history); !ok) {
      fmt::print(stderr, "loch fuzz: {}\n", ok.error().message);
      return 2;
    }
  }
  if (was_interrupted()) return 130;
  if (findings.empty()) return 0;
  return findings.front().verdict == FuzzVerdict::error ? 2 : 1;
}

}  // namespace

Result<FuzzOptions> parse_fuzz(const std::vector<std::string>& arguments, const kv::Registry& registry) {
  const std::vector<std::string> flags = {"--protocol",   "--seeds",   "--first-seed", "--time",
                                          "--mutant",     "--set",     "--hardware",   "--jobs",
                                          "--keep-going", "--history", "--verbose",    "--help"};
  FuzzOptions o;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string flag = arguments[i], value;
    const auto equals = flag.find('=');
    const bool has_value = flag.starts_with("--") && equals != std::string::npos;
    if (has_value) {
      value = flag.substr(equals + 1);
      flag.resize(equals);
    }
    if (std::ranges::find(flags, flag) == flags.end()) {
      const std::string near = kv::nearest(flag, flags);
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{}: no such flag{}", flag,
                              near.empty() ? "" : fmt::format("; did you mean {}?", near)));
    }
    if (flag == "--keep-going") {
      o.keep_going = true;
      continue;
    }
    if (flag == "--verbose") {
      o.verbose = true;
      continue;
    }
    if (!has_value) {
      if (++i == arguments.size()) return fail(ErrorCode::invalid_argument, flag + ": expected a value");
      value = arguments[i];
    }
    LOCH_TRY(apply(flag, value, o));
  }
  LOCH_TRY(check_names(o, registry));
  return o;
}

int run_fuzz(const std::vector<std::string>& arguments, const kv::Registry& registry) {
  if (std::ranges::find(arguments, "--help") != arguments.end()) {
    fmt::print("{}", usage);
    return 0;
  }
  const auto options = parse_fuzz(arguments, registry);
  if (!options) {
    fmt::print(stderr, "loch fuzz: {}\n", options.error().message);
    return 2;
  }
  const InterruptScope guard(nullptr);
  Campaign campaign(*options, **find_protocol(registry, options->protocol));
  campaign.run();
  return conclude(*options, campaign);
}

}  // namespace loch::cli
