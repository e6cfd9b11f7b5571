// Replay files: what stands in one, and what it may name.
#include "common/fuzz/replay.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "common/base/version.h"
#include "common/cli/registry.h"
#include "common/fuzz/failures.h"
#include "common/fuzz/scenario_fields.h"
#include "common/measure/file.h"

namespace loch::fuzz {
namespace {

constexpr std::string_view replay_format = "loch-replay";
constexpr std::uint64_t replay_bytes_max = std::uint64_t{1} << 26;
constexpr std::array<std::string_view, 9> verdicts = {"holds",    "violated", "corrupt",   "stuck", "unsound",
                                                      "deadlock", "overtime", "undecided", "error"};

std::unexpected<Error> wrong(const std::string& file, std::string_view text) {
  return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", file, text));
}

// Hashes are written in hexadecimal digits, as the fuzzer prints them.
template <typename A>
void hash(A& a, const char* key, std::uint64_t& value) {
  std::string text = fmt::format("{:016x}", value);
  a.text(key, text);
  if constexpr (A::is_reading) {
    value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (text.size() == 16 && read.ec == std::errc{} && read.ptr == text.data() + text.size()) return;
    a.refuse(key, "16 hexadecimal digits");
  }
}

template <typename A>
void replay_fields(A& a, std::string& format, std::int64_t& version, Replay& r) {
  a.text("format", format);
  a.whole("version", version, 0, 1'000'000);
  a.text("protocol", r.protocol);
  a.text("mutant", r.mutant);
  a.text("hardware", r.hardware);
  a.dictionary("settings", r.settings);
  a.object("shows", [&](A& one) {
    one.choice("verdict", r.verdict, verdicts);
    one.text("reason", r.reason);
    one.text("cause", r.cause);
    one.seed("seed", r.seed);
    one.text("commit", r.commit);
    hash(one, "trace_hash", r.trace_hash);
    hash(one, "history_hash", r.history_hash);
  });
  a.object("scenario", [&](A& one) { fields(one, r.scenario); });
}

// Options that name files or programs come from the command line alone.
std::string why_not_from_a_file(const kv::Module& module, const std::string& key) {
  for (const kv::OptionSpec& spec : module.options()) {
    if (spec.key == key && spec.type == kv::OptionType::text) return "is given on the command line only";
  }
  return {};
}

Result<> set_options(Replay& r, const kv::Module& module, const std::string& file) {
  kv::Options& options = r.scenario.plan.options = kv::Options(module.options());
  const auto set = [&](const char* where, const auto& all) -> Result<> {
    for (const auto& [key, value] : all) {
      if (const std::string why = why_not_from_a_file(module, key); !why.empty())
        return wrong(file, fmt::format("{}.{}: {}", where, key, why));
      if (auto done = options.set(key, value); !done)
        return wrong(file, fmt::format("{}: {}", where, done.error().message));
    }
    return {};
  };
  LOCH_TRY(set("settings", r.settings));
  return set("scenario.knobs", r.scenario.knobs);
}

}  // namespace

std::uint64_t history_hash(std::span<const check::Operation> history) {
  std::uint64_t hash = history.size();
  for (const check::Operation& operation : history)
    hash = sub_seed(hash, check::to_line(check::view(operation)));
  return hash;
}

Replay make_replay(const FuzzFinding& finding, const FuzzOptions& options) {
  Replay r;
  r.protocol = options.protocol;
  r.mutant = options.mutant;
  r.hardware = options.hardware;
  r.scenario = *finding.ran;
  for (const auto& [key, value] : options.settings) {
    if (why_not_from_a_file(*r.scenario.plan.module, key).empty()) r.settings[key] = value;
  }
  r.seed = finding.seed;
  r.commit = fmt::format("{}{}", build_commit(), build_is_dirty() ? " (dirty)" : "");
  r.cause = finding.cause;
  r.verdict = finding.verdict;
  r.reason = finding.reason;
  r.trace_hash = finding.trace_hash;
  r.history_hash = history_hash(finding.history);
  return r;
}

std::string to_text(const Replay& replay) {
  Replay copy = replay;
  std::string format(replay_format);
  std::int64_t version = replay_version;
  nlohmann::ordered_json out;
  FieldWriter writer(out);
  replay_fields(writer, format, version, copy);
  return out.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Result<Replay> parse_replay(std::string_view text, const std::string& file) {
  LOCH_ASSIGN(const nlohmann::json document, parse_document(text, file));
  // Another version may have other fields: that is said first.
  if (!document.is_object() || document.value("format", nlohmann::json()) != replay_format)
    return wrong(file, fmt::format("format: expected \"{}\"", replay_format));
  if (document.value("version", nlohmann::json()) != replay_version)
    return wrong(file, fmt::format("version: expected {}, which this program reads", replay_version));
  Replay replay;
  std::string error, format;
  std::int64_t version = 0;
  {
    FieldReader reader(document, "", error);
    replay_fields(reader, format, version, replay);
  }
  if (!error.empty()) return wrong(file, error);
  if (auto fits = check_scenario(replay.scenario); !fits)
    return wrong(file, "scenario." + fits.error().message);
  return replay;
}

Result<Replay> read_replay(const std::string& path) {
  LOCH_ASSIGN(const std::string text, measure::read_whole(path, replay_bytes_max));
  return parse_replay(text, path);
}

Result<> make_runnable(Replay& r, const kv::Registry& registry, const std::string& file) {
  const auto module = cli::find_protocol(registry, r.protocol);
  if (!module) return wrong(file, "protocol: " + module.error().message);
  if (!r.mutant.empty() && !(*module)->mutants().contains(r.mutant))
    return wrong(file, fmt::format("mutant: {} has no mutant \"{}\"", r.protocol, r.mutant));
  const auto profiles = fabric::sim::list_hardware();
  if (std::ranges::find(profiles, r.hardware) == profiles.end())
    return wrong(file, fmt::format("hardware: \"{}\" is no profile of this program", r.hardware));
  LOCH_TRY(set_options(r, **module, file));
  workloads::RunPlan& plan = r.scenario.plan;
  plan.module = *module;
  plan.mutant = r.mutant;
  if ((*module)->default_servers() > 0 && plan.deploy.server_workers == 0)
    return wrong(file, fmt::format("scenario.cluster.server_workers: {} needs at least 1", r.protocol));
  if (auto store = (*module)->deploy(plan.deploy, plan.options, plan.mutant); !store)
    return wrong(file, fmt::format("{} cannot run the scenario: {}", r.protocol, store.error().message));
  plan_repairs(r.scenario);
  return {};
}

FuzzOptions options_of(const Replay& r) {
  FuzzOptions options;
  options.protocol = r.protocol;
  options.mutant = r.mutant;
  options.hardware = r.hardware;
  options.first_seed = r.seed;
  options.settings.assign(r.settings.begin(), r.settings.end());
  return options;
}

}  // namespace loch::fuzz
