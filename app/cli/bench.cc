// Runs one measurement of `loch bench`: opens the fabric, drives the load, and makes the result document.
#include "app/cli/bench.h"

#include "app/cli/bench_flags.h"
#include "app/cli/bench_replay.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <stop_token>
#include <thread>

#include "app/cli/history_clocks.h"
#include "app/cli/interrupt.h"
#include "app/cli/progress.h"
#include "app/cli/registry.h"
#include "app/cli/search.h"
#include "app/cli/standard_streams.h"
#include "common/background_load/cores.h"
#include "common/background_load/cpu_group.h"
#include "common/base/output_place.h"
#include "common/check/history.h"
#include "common/fabric/background/background.h"
#include "common/fabric/rails.h"
#include "workloads/run.h"

#include "app/cli/repair_plan.h"
#include "common/cluster/launch_env.h"
#include "common/cluster/rank.h"
#include "common/cluster/supervise.h"
#include "common/fabric/shm/shm.h"

namespace loch::cli {
namespace {

constexpr int exit_failed = 1, exit_bad_input = 2, exit_interrupted = 130;

int complain(const Error& error) {
  fmt::print(stderr, "loch bench: {}\n", error.message);
  const bool is_input = error.code == ErrorCode::invalid_argument || error.code == ErrorCode::unsupported;
  return is_input ? exit_bad_input : exit_failed;
}

// Kills this process as `kill -9` does, a given time after this object's construction and whatever the
// workers do at that time.
class OwnDeath {
 public:
  explicit OwnDeath(Nanos after)
      : thread_([after](const std::stop_token& stop) {
          std::mutex mutex;
          std::condition_variable_any never;
          std::unique_lock lock(mutex);
          never.wait_for(lock, stop, std::chrono::nanoseconds(after), [] { return false; });
          if (!stop.stop_requested()) kill(getpid(), SIGKILL);
        }) {}

 private:
  std::jthread thread_;
};

std::string history_part(const std::string& path, const Place& place) {
  return place.ranks == 1 ? path : fmt::format("{}.rank{}", path, place.rank);
}

std::vector<std::string> history_parts(const std::string& path, std::uint32_t ranks) {
  std::vector<std::string> parts;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) parts.push_back(fmt::format("{}.rank{}", path, rank));
  return parts;
}

// The history's format: given by --history-format or, without the flag, by the ending of the file's name.
check::HistoryFormat history_format(const BenchOptions& o) {
  const bool is_binary =
      o.history_format == "binary" || (o.history_format == "by-name" && o.history.ends_with(".bin"));
  return is_binary ? check::HistoryFormat::binary : check::HistoryFormat::text;
}

// Number of 16 KiB chunks in the ring buffer of each history log: 256 MiB divided among the operations that
// this process may have outstanding (one log each), but at least 4 and at most 256 chunks.
std::uint32_t ring_chunks(const BenchOptions& o, const Place& place) {
  constexpr std::uint64_t chunks_of_all = 16'384, least = 4, most = 256;
  const kv::DeployConfig deploy = deploy_config(o);
  const std::uint64_t nodes = place.ranks > 1 ? 1 : deploy.nodes;
  const std::uint64_t logs = std::max<std::uint64_t>(1, nodes * deploy.client_workers * deploy.window);
  return static_cast<std::uint32_t>(std::clamp(chunks_of_all / logs, least, most));
}

void say_history(const BenchOptions& o, const check::HistoryStatistics& recorded, const HistoryClocks& clocks,
                 measure::PointResult& point) {
  point.history = {{"format", check::name(history_format(o))},
                   {"operations", recorded.operations},
                   {"bytes", recorded.bytes},
                   {"waits", recorded.waits},
                   {"waited_s", recorded.waited_s},
                   {"clocks", clocks.report}};
  if (!clocks.fault.empty()) point.caveats.insert(point.caveats.begin(), clocks.fault);
  if (recorded.waits > 0) {
    point.notes.push_back(
        fmt::format("recording the history made workers wait {} times, {:.3f} s in all: the disk was slower",
                    recorded.waits, recorded.waited_s));
  }
}

// Average number of cores that the store's workers used during the measurement, on all machines together.
double cores_of_store(const BenchOptions& o, const measure::PointResult& point) {
  const kv::DeployConfig deploy = deploy_config(o);
  double cores = 0;
  for (const measure::NodePart& node : point.nodes) {
    const auto id = static_cast<fabric::NodeId>(node.node);
    if (deploy.drives(id)) cores += node.report.client_busy * deploy.client_workers;
    if (deploy.serves(id)) cores += node.report.server_busy * deploy.server_workers;
  }
  return cores;
}

// The CPU work of all machines' background workers from the end of the warm-up to the end of the run (a
// little after the end of the measurement), and the number of cores that the store's workers used.
nlohmann::ordered_json background_json(const BenchOptions& o, const std::vector<std::uint32_t>& cores,
                                       const measure::PointResult& point) {
  double hashes = 0, cpu = 0, wall = 0, lost = 0;
  std::uint32_t machines = 0;
  for (const measure::NodePart& node : point.nodes) {
    const auto of = [&](const char* key) {
      const auto found = node.report.counters.find(key);
      return found == node.report.counters.end() ? 0.0 : found->second;
    };
    if (of(background::wall_counter) <= 0) continue;
    ++machines;
    hashes += of(background::hashes_counter);
    cpu += of(background::cpu_counter);
    wall += of(background::wall_counter);
    lost += of(background::lost_counter);
  }
  nlohmann::ordered_json out;
  out["workers"] = o.background_workers;
  out["machines"] = machines;
  out["pin"] = o.background_pin;
  out["hashes"] = hashes;
  const double background_workers = static_cast<double>(o.background_workers) * machines;
  out["hashes_per_s"] = wall > 0 ? hashes / (wall / background_workers) : 0;
  out["cpu_share"] = wall > 0 ? cpu / wall : 0;
  out["cores_used"] = wall > 0 ? cpu / wall * background_workers : 0;
  out["store_cores_used"] = cores_of_store(o, point);
  out["lost"] = lost;
  if (o.fabric == "sim") return out;
  const background::GroupFacts group = background::current_group();
  out["cores"] = background::format_cores(cores);
  out["group"] = background::to_json(group);
  return out;
}

// A caveat for the result if more than one wait or retry was needed for every 100 operations: the rate then
// depends on settings such as the number of spare entries, and not only on the protocol's design.
std::string name_trouble(const measure::PointResult& point) {
  std::uint64_t all = 0, retries = 0, full = 0;
  for (const measure::NodePart& node : point.nodes) {
    all += node.tally.total();
    retries += node.tally.retries;
    for (const measure::KindTally& kind : node.tally.kinds)
      full += kind.by_status[static_cast<std::size_t>(OpStatus::table_full)];
  }
  const auto found = point.protocol_counters.find("back_pressure");
  const auto waits = found == point.protocol_counters.end() ? 0.0 : found->second;
  const double share =
      all == 0 ? 0.0 : (waits + static_cast<double>(retries + full)) / static_cast<double>(all);
  if (share <= 0.01) return {};
  std::vector<std::string> parts;
  if (waits > 0) parts.push_back(fmt::format("{:.0f} waits for an entry to expire (back-pressure)", waits));
  if (full > 0) parts.push_back(fmt::format("{} times \"table full\"", full));
  if (retries > 0) parts.push_back(fmt::format("{} retries", retries));
  return fmt::format(
      "for every 100 operations {} times something had to wait or to be tried again: {}{}",
      share < 0.995 ? fmt::format("{:.2g}", 100 * share) : fmt::format("{:.0f}", 100 * share),
      fmt::join(parts, ", "),
      waits > 0 ? "; more spare entries or a shorter expiry period would change the rates" : "");
}

// A caveat if the two halves of the measurement completed different numbers of operations, since the average
// rate then describes no steady state. Differences within four standard deviations of a count are ignored.
std::string name_unsteady(const BenchOptions& o, const measure::PointResult& point) {
  if (o.load.duration == 0) return {};  // a load of a fixed number of operations has no duration to halve

  double completed = 0, first = 0;
  for (const measure::NodePart& node : point.nodes) {
    completed += static_cast<double>(node.tally.completed());
    first += static_cast<double>(node.tally.first_half);
  }
  const double second = completed - first;
  if (completed == 0) return "no operation completed within the window";
  if (first == 0) return "not steady: no operation completed in the first half of the window";
  const double change = second / first - 1;
  if (std::abs(change) <= 0.05 || std::abs(second - first) <= 4 * std::sqrt(completed)) return {};
  return fmt::format(
      "not steady: the second half of the window completed {:.0f} % {} operations than the first",
      std::abs(100 * change), change > 0 ? "more" : "fewer");
}

// The share of the largest record's bytes that the preloaded records use on average, estimated from a sample;
// null if all records have one size.
nlohmann::ordered_json space_json(const BenchOptions& o, const kv::Module& module) {
  const workloads::Records::Shape shape = record_shape(o);
  if (!shape.has_key_sizes() && !shape.has_value_sizes()) return nullptr;
  const auto records = workloads::Records::make(shape);
  if (!records) return nullptr;  // unreachable, because validate() has accepted these sizes
  constexpr std::uint64_t sample = 20'000;
  const std::uint64_t looked_at = std::min(sample, o.keys);
  double sum = 0;
  for (std::uint64_t n = 0; n < looked_at; ++n) {
    const std::uint64_t i = n * (o.keys / looked_at);
    sum += static_cast<double>(records->key_size(i)) + records->value_size(i, o.value_size);
  }
  const double mean = looked_at == 0 ? 0 : sum / static_cast<double>(looked_at);
  const double largest = static_cast<double>(o.key_size) + o.value_size;
  const kv::DataSupport takes = module.data(o.protocol_options);
  return {{"keys_take", shape.has_key_sizes() ? name(takes.keys) : "one size"},
          {"values_take", shape.has_value_sizes() ? name(takes.values) : "one size"},
          {"largest_record_bytes", largest},
          {"mean_record_bytes", mean},
          {"used_share", mean / largest}};
}

measure::PointResult to_point(const BenchOptions& o, const kv::Module& module, const fabric::Fabric& fabric,
                              workloads::RunOutcome outcome, std::uint64_t seed) {
  measure::PointResult point;
  point.protocol = o.protocol;
  point.fabric = o.fabric;
  point.seed = seed;
  point.config = config_json(o, seed);
  point.capabilities = fabric.capabilities();
  point.devices = fabric.devices();
  point.transport = outcome.transport;
  point.duration_s = outcome.window_s;
  point.value_size = module.useful_bytes(deploy_config(o));
  point.sizes = space_json(o, module);
  point.multi_get = o.load.multi_get;
  point.nodes = std::move(outcome.nodes);
  point.sim = outcome.sim;
  point.protocol_counters = std::move(outcome.protocol_counters);
  point.fabric_counters = std::move(outcome.fabric_counters);
  point.run_end = workloads::name(outcome.end);
  point.lost_nodes = std::move(outcome.lost_nodes);
  point.declared_lost = std::move(outcome.declared_lost);
  point.timeline = std::move(outcome.timeline);
  point.probed_keys = static_cast<std::uint32_t>(std::min<std::uint64_t>(o.load.probe_keys, o.keys));
  if (outcome.scrubbed) point.scrub = *outcome.scrubbed;
  for (std::string& trouble : std::array{name_trouble(point), name_unsteady(o, point)}) {
    if (!trouble.empty()) point.caveats.push_back(std::move(trouble));
  }
  point.notes.insert(point.notes.end(), o.notes.begin(), o.notes.end());
  point.departure = module.departure(o.protocol_options);
  if (const std::uint32_t rails = fabric::count_rails(point.devices); rails > 1) {
    point.notes.push_back(
        fmt::format("{} rails: what goes to node n takes rail n mod {} (devices, rail)", rails, rails));
  }
  if (!point.departure.empty())
    point.notes.push_back(fmt::format("{} {}: not the published transport", module.name(), point.departure));
  for (std::string& note : outcome.notes) point.notes.push_back(std::move(note));
  if (o.fabric == "verbs" && !o.history.empty() && !o.history_sync && !point.lost_nodes.empty()) {
    point.notes.push_back(fmt::format(
        "node {} was lost: if its machine was too, its last operations may not be in the history, "
        "which can then look violated (--history-sync true)",
        fmt::join(point.lost_nodes, ", ")));
  }
  if (!point.declared_lost.empty()) {
    point.notes.push_back(
        fmt::format("node {} was declared lost: what only its memory held is gone, and the rest is served",
                    fmt::join(point.declared_lost, ", ")));
  }
  if (outcome.outstanding > 0) {
    point.notes.push_back(
        fmt::format("{} operations {}", outcome.outstanding,
                    o.at_end == "abandon" ? "were abandoned at the end" : "never returned"));
  }
  if (o.load.replay) say_replay(o, point);
  point.network = measure::judge_network(point.devices, point.nodes);
  if (point.network && point.network->is_sick)
    point.caveats.insert(point.caveats.begin(),
                         fmt::format("the network was sick: {}", point.network->verdict));
  point.argv = o.argv;
  return point;
}

workloads::RunPlan plan_of(const BenchOptions& o, const kv::Module& module, std::uint64_t seed,
                           const Place& place, workloads::Pinning pinning) {
  workloads::RunPlan plan;
  plan.module = &module;
  plan.options = o.protocol_options;
  plan.mutant = o.mutant;
  plan.deploy = deploy_config(o);
  plan.deploy.seed = seed;
  plan.load = o.load;
  plan.load.reseeds_workers = o.load_seed != 0;
  plan.load.seed = o.load_seed != 0 ? o.load_seed + (seed - o.load.seed) : seed;
  plan.load.computes_keys_ahead = o.fabric != "sim";
  plan.load.scrub = o.scrub.value_or(place.ranks > 1);
  plan.load.repair_after = o.repair_after;
  // Stores provide more spare entries for a longer load. A repair scans the whole table, which has to stay
  // small enough for that: for runs with repairs the load's length is left unset, so that the protocol's
  // options alone determine the table's size.
  if (plan.load.scrub || plan.load.repair_after) plan.deploy.load_time = 0;
  plan.records = record_shape(o);
  plan.pinning = std::move(pinning);
  return plan;
}

// For a simulation with scheduled failures and --repair-after: which clients the failures kill, and the
// repairs to run.
Result<std::optional<workloads::FailurePlan>> planned_failures([[maybe_unused]] const BenchOptions& o,
                                                               [[maybe_unused]] const kv::Module& module) {
  if (o.fabric == "sim" && o.repair_after && !o.faults.empty()) {
    LOCH_ASSIGN(const fabric::sim::SimFaults faults, fabric::sim::load_faults(o.faults));
    return plan_failures(faults, module, o.protocol_options, deploy_config(o), *o.repair_after);
  }
  return std::nullopt;
}

// Returns the exit status of a finished run, and prints the reason on standard error if it is not 0.
int judge(const measure::PointResult& point) {
  std::uint64_t corrupt = 0;
  for (const measure::NodePart& node : point.nodes) corrupt += node.tally.corrupt;
  if (corrupt > 0) {
    fmt::print(stderr, "loch bench: {} GETs returned a value that nobody wrote\n", corrupt);
    return exit_failed;
  }
  const auto own = point.protocol_counters.find(std::string(kv::violations_counter));
  if (own != point.protocol_counters.end() && own->second > 0) {
    fmt::print(stderr, "loch bench: {}'s own check failed {} times\n", point.protocol, own->second);
    return exit_failed;
  }
  if (const std::string fault = clock_fault(point.history); !fault.empty()) {
    fmt::print(stderr, "loch bench: {}\n", fault);
    return exit_failed;
  }
  if (point.run_end != "finished") {
    fmt::print(stderr, "loch bench: the run ended in a {}\n", point.run_end);
    return exit_failed;
  }
  return 0;
}

Result<> write_histogram(const std::string& path, const measure::PointResult& point) {
  measure::Histogram all;
  for (const measure::NodePart& node : point.nodes) {
    for (const measure::KindTally& kind : node.tally.kinds) all.merge(kind.latency_ns);
  }
  return write_output(path, all.percentile_text(1000));
}

// Serialises a document. Bytes that are not UTF-8, as in a file's name, are replaced, because an exception
// here would lose a finished run's result.
std::string text_of(const nlohmann::ordered_json& document) {
  return document.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// What stands beside simulated percentiles wherever a person reads them (reports and figures say the same).
constexpr std::string_view tail_warning =
    "simulated percentiles above the median say little: of what delays a thread now and then, only the "
    "kernel's scheduler is modelled";

// The summaries of all points, on standard output.
void print_summaries(const BenchOptions& o, const std::vector<measure::PointResult>& points) {
  for (const measure::PointResult& point : points)
    fmt::print("{}", measure::summary(measure::to_json(point)));
  if (o.fabric == "sim") fmt::print("  {}\n", tail_warning);
}

// Writes the result files that the flags ask for, after all results are complete.
int deliver(const BenchOptions& o, const std::vector<measure::PointResult>& points) {
  nlohmann::ordered_json document;
  if (points.size() == 1) {
    document = measure::to_json(points.front());
  } else {
    for (const measure::PointResult& point : points) document.push_back(measure::to_json(point));
  }
  if (!o.histogram.empty()) {
    if (auto ok = write_histogram(o.histogram, points.front()); !ok) return complain(ok.error());
    if (o.fabric == "sim") fmt::print(stderr, "note: {}: {}\n", o.histogram, tail_warning);
  }
  for (const auto* said : {&points.back().caveats, &points.back().notes}) {
    for (const std::string& note : *said) fmt::print(stderr, "note: {}\n", note);
  }
  const bool is_read = isatty(STDOUT_FILENO) == 1;
  if (o.json.empty() && is_read) {
    print_summaries(o, points);
    fmt::print("  the whole result: --json FILE, or --json - for standard output\n");
  } else if (o.json.empty()) {
    fmt::print("{}", text_of(document));
  } else {
    if (auto ok = write_output(o.json, text_of(document)); !ok) return complain(ok.error());
    if (o.json != "-") print_summaries(o, points);
  }
  int status = 0;
  for (const measure::PointResult& point : points) status = std::max(status, judge(point));
  return status;
}

Result<RunResult> search_point(const BenchOptions& o, const kv::Module& module, const Place& place) {
  if (place.ranks > 1) return fail(ErrorCode::unsupported, "--search: in one process only");
  LOCH_ASSIGN(const Goal goal, parse_goal(o.search));
  LOCH_ASSIGN(Found found, search_rate(goal, [&](double rate) -> Result<measure::PointResult> {
                BenchOptions step = o;
                step.load.rate = rate;
                LOCH_ASSIGN(RunResult result, run_point(step, module, 0, place));
                return std::move(result.point);
              }));
  nlohmann::ordered_json tried = nlohmann::ordered_json::array();
  double best = 0;
  for (const auto& [rate, is_met] : found.tried) {
    tried.push_back({{"rate", rate}, {"met", is_met}});
    if (is_met) best = std::max(best, rate);
  }
  found.point.search = {
      {"goal", o.search}, {"met", found.is_met}, {"rate", best}, {"tried", std::move(tried)}};
  if (!found.is_met)
    found.point.notes.push_back(fmt::format("--search {}: no rate that was tried meets it", o.search));
  if (o.fabric == "sim" && goal.percentile > 50)
    found.point.notes.push_back(fmt::format("--search {}: {}", o.search, tail_warning));
  return RunResult{.is_joint = true, .point = std::move(found.point)};
}

int run_here(const BenchOptions& o, const kv::Module& module, const Place& place) {
  std::vector<measure::PointResult> points;
  bool delivers = place.rank == 0;
  for (std::uint32_t repeat = 0; repeat < o.repeats; ++repeat) {
    auto run = o.search.empty() ? run_point(o, module, repeat, place) : search_point(o, module, place);
    if (!run) return complain(run.error());
    measure::PointResult& point = run->point;
    if (point.run_end == "interrupted" || was_interrupted()) {
      if (place.rank == 0) fmt::print(stderr, "loch bench: interrupted; nothing was written\n");
      return exit_interrupted;
    }
    const bool is_last = repeat + 1 == o.repeats;
    // After the loss of a node, a further repeat would wait for the dead process and measure a smaller
    // cluster.
    const bool ends_early = place.ranks > 1 && !point.lost_nodes.empty() && !is_last;
    if (ends_early)
      point.notes.push_back(fmt::format("repeats {} to {} were not run: node {} was lost", repeat + 2,
                                        o.repeats, fmt::join(point.lost_nodes, ", ")));
    delivers = run->is_joint;
    points.push_back(std::move(point));
    if (ends_early) break;
  }
  return delivers ? deliver(o, points) : 0;
}

// Runs one process of a multi-process job. The work is done in a child process, so that its death does not
// end the job. Processes on verbs and ofi may be on several machines and coordinate over PMIx; processes on
// shm coordinate in shared memory.
int run_as_rank([[maybe_unused]] const BenchOptions& o, const kv::Module& module, const Place& place) {
  if (o.fabric == "verbs" || o.fabric == "ofi") {
    const auto env = cluster::launch_env();
    if (!env) return complain(env.error());
    const auto config = cluster::rank_config();
    if (!config) return complain(config.error());
    return cluster::run_as_rank(*env, *config, [&](cluster::Control& control) {
      Place here = place;
      here.control = &control;
      return with_output_checked("bench", [&] { return run_here(o, module, here); });
    });
  }
  cluster::SuperviseConfig config;
  config.label = fmt::format("node {}", place.rank);
  config.on_killed = [&](pid_t, int) { fabric::shm::mark_lost(place.job, place.rank); };
  return cluster::supervise(
      [&] { return with_output_checked("bench", [&] { return run_here(o, module, place); }); }, config);
}

Result<std::unique_ptr<check::HistoryWriter>> open_history(const BenchOptions& o, const Place& place) {
  if (o.history.empty()) return nullptr;
  LOCH_ASSIGN(const OutputPlace whole, output_place(o.history));
  if (place.ranks > 1 && !whole.is_file) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("--history {}: expected a regular file: that of several processes is put together "
                    "from one of each",
                    o.history));
  }
  // Only a durable history has a file before it is complete.
  if (place.ranks > 1) heed_interrupts();
  return check::HistoryWriter::create(history_part(o.history, place),
                                      {.durable = place.ranks > 1,
                                       // Without synchronisation, a crash of the machine loses what only the
                                       // kernel's page cache holds.
                                       .is_synced = o.history_sync && place.ranks > 1,
                                       .format = history_format(o),
                                       .ring_chunks = ring_chunks(o, place)});
}

}  // namespace

namespace {

// Collects, from all living processes, how each placed its workers and memory (the result's `placement`).
// Every process has to call it; the one that reports the result gets the entries. Null on sim.
Result<nlohmann::ordered_json> gather_placement(const BenchOptions& o, const Place& place, OpenFabric& open,
                                                Nanos within) {
  if (!open.placing) return nullptr;
  const nlohmann::ordered_json mine = to_json(*open.placing, o, place.rank, open.fabric->report().counters);
  if (place.ranks == 1) return nlohmann::ordered_json::array({mine});
  LOCH_ASSIGN(const std::vector<std::string> texts, open.fabric->gather(mine.dump(), within));
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const std::string& text : texts) {
    // The placement text of a process that died is empty, or cut off if the process died while writing it.
    auto entry = nlohmann::ordered_json::parse(text, nullptr, false);
    if (!entry.is_discarded()) all.push_back(std::move(entry));
  }
  return all;
}

}  // namespace

Result<std::unique_ptr<PointRun>> open_point(const BenchOptions& o, const kv::Module& module,
                                             std::uint32_t repeat, const Place& place) {
  auto run = std::make_unique<PointRun>();
  run->repeat = repeat;
  const std::uint64_t seed = o.load.seed + repeat;
  LOCH_ASSIGN(run->open, open_fabric(o, seed, place));
  LOCH_ASSIGN(run->history, open_history(o, place));
  run->plan = plan_of(o, module, seed, place, run->open.pinning);
  LOCH_ASSIGN(run->plan.load.failures, planned_failures(o, module));
  run->plan.logs = workloads::file_logs(run->history.get());
  return run;
}

Result<> set_up_point(PointRun& run) {
  LOCH_ASSIGN(run.deployed, workloads::set_up(*run.open.fabric, run.plan));
  return {};
}

Result<> change_load(const BenchOptions& o, const kv::Module& module, const Place& place, PointRun& run) {
  run.plan = plan_of(o, module, o.load.seed + run.repeat, place, run.open.pinning);
  return workloads::change_load(*run.open.fabric, run.plan, *run.deployed);
}

Result<RunResult> finish_point(const BenchOptions& o, const kv::Module& module, const Place& place,
                               PointRun& run) {
  OpenFabric& open = run.open;
  std::unique_ptr<check::HistoryWriter>& history = run.history;
  workloads::RunPlan& plan = run.plan;
  std::unique_ptr<OwnDeath> death;
  std::unique_ptr<Progress> progress;
  plan.on_start = [&](const workloads::Driver& driver) {
    for (const ProcessKill& kill : open.kills) {
      if (place.ranks > 1 && kill.node == place.rank) death = std::make_unique<OwnDeath>(kill.at);
    }
    if (place.rank != 0) return;
    progress = std::make_unique<Progress>([&driver, &o] {
      return fmt::format("{} {} on {}  {:3.0f} %  {} operations", bar(driver.progress()), o.protocol,
                         o.fabric, 100 * driver.progress(), driver.operations_so_far());
    });
  };
  plan.on_end = [&](const workloads::Driver&) { progress.reset(); };
  const InterruptScope guard(open.fabric.get());
  auto outcome = run.deployed == nullptr ? workloads::run_load(*open.fabric, plan)
                                         : workloads::run_deployed(*open.fabric, plan, *run.deployed);
  if (!run.keeps_store) run.deployed.reset();
  progress.reset();
  if (!outcome && !was_interrupted()) return std::unexpected(std::move(outcome.error()));
  if (!outcome || outcome->end == fabric::RunEnd::interrupted || was_interrupted()) {
    // Destroying a durable history's writer does not remove its file, so an interrupted run removes it here.
    history.reset();
    if (!o.history.empty()) check::remove_unfinished(history_part(o.history, place));
    RunResult stopped;
    stopped.point.run_end = "interrupted";
    return stopped;
  }
  check::HistoryStatistics recorded;
  const HistoryClocks clocks = history_clocks(outcome->clocks, place.ranks);
  if (history != nullptr) {
    LOCH_TRY(history->close());
    recorded = history->statistics();
    if (place.ranks > 1) {
      LOCH_TRY(open.fabric->barrier("history written", plan.control_timeout));
      if (outcome->is_joint) {
        LOCH_ASSIGN(recorded, check::join_histories(o.history, history_parts(o.history, place.ranks),
                                                    history_format(o), clocks.maps));
      }
    }
  }
  if (open.trace != nullptr) LOCH_TRY(open.trace->close());
  LOCH_ASSIGN(nlohmann::ordered_json placed, gather_placement(o, place, open, plan.control_timeout));
  run.is_fit_for_more = run.keeps_store && outcome->is_fit_for_more;
  RunResult result{.is_joint = outcome->is_joint, .point = {}};
  const Nanos counters_late = outcome->counters_late;
  result.point = to_point(o, module, *open.fabric, std::move(*outcome), o.load.seed + run.repeat);
  result.point.background_workers = background_json(o, open.background_cores, result.point);
  if (result.point.network && result.point.network->is_sick) run.is_fit_for_more = false;
  result.point.placement = std::move(placed);
  result.point.repeat = run.repeat;
  if (!run.note.empty()) result.point.notes.push_back(run.note);
  result.point.hardware = open.hardware;
  if (!open.caveat.empty()) result.point.caveats.insert(result.point.caveats.begin(), open.caveat);
  for (const ProcessKill& kill : open.kills) result.point.planned_losses.push_back(kill.node);
  if (history != nullptr) say_history(o, recorded, clocks, result.point);
  if (open.alongside != nullptr) {
    // The wall clock is read when the counters are reset, which on a busy machine is late.
    if (const std::optional<Nanos> reset = open.alongside->counters_reset())
      result.point.window_began_unix_ns = *reset - counters_late;
  }
  return result;
}

Result<RunResult> run_point(const BenchOptions& o, const kv::Module& module, std::uint32_t repeat,
                            const Place& place) {
  LOCH_ASSIGN(const std::unique_ptr<PointRun> run, open_point(o, module, repeat, place));
  return finish_point(o, module, place, *run);
}

Result<BenchOptions> judge_flags(const std::vector<std::string>& arguments, const kv::Registry& registry) {
  LOCH_ASSIGN(BenchOptions options, parse_bench(arguments, registry));
  LOCH_ASSIGN(const kv::Module* const module, find_protocol(registry, options.protocol));
  LOCH_TRY(validate(options, *module));
  return options;
}

Result<> judge_files(const BenchOptions& o, const kv::Module& module) {
  LOCH_TRY(check_files(o));
  LOCH_TRY(planned_failures(o, module));
  return {};
}

Result<Place> place_of_this_process() {
  Place place;
  LOCH_ASSIGN(const cluster::LaunchEnv env, cluster::launch_env());
  place = {env.rank, env.ranks, env.rank_here, env.ranks_here, env.job};
  return place;
}

int deliver_point(const BenchOptions& o, const kv::Module& module, const Place& place, PointRun& run) {
  Result<RunResult> result = finish_point(o, module, place, run);
  if (!result) return complain(result.error());
  if (result->point.run_end == "interrupted" || was_interrupted()) {
    if (place.rank == 0) fmt::print(stderr, "loch bench: interrupted; nothing was written\n");
    return exit_interrupted;
  }
  if (!result->is_joint) return 0;
  std::vector<measure::PointResult> points;
  points.push_back(std::move(result->point));
  return deliver(o, points);
}

int run_bench(const std::vector<std::string>& arguments, const kv::Registry& registry) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] != "--help" && arguments[i] != "-h") continue;
    if (i + 1 < arguments.size() && !arguments[i + 1].starts_with("-")) {
      const auto text = protocol_help(registry, arguments[i + 1]);
      if (!text) return complain(text.error());
      fmt::print("{}", *text);
    } else {
      fmt::print("{}", settings::help(bench_command()));
    }
    return 0;
  }
  const auto options = judge_flags(arguments, registry);
  if (!options) return complain(options.error());
  const auto module = find_protocol(registry, options->protocol);
  if (!module) return complain(module.error());
  if (options->dry_run) {
    const auto files = judge_files(*options, **module);
    return files ? 0 : complain(files.error());
  }
  const auto place = place_of_this_process();
  if (!place) return complain(place.error());
  return place->ranks > 1 ? run_as_rank(*options, **module, *place) : run_here(*options, **module, *place);
}

}  // namespace loch::cli
