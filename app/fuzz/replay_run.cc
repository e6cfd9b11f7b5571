// Makes replay files from runs, and checks what a replay file may set before its scenario is run.
#include <fmt/format.h>

#include <algorithm>

#include "app/cli/registry.h"
#include "app/fuzz/failures.h"
#include "app/fuzz/replay.h"
#include "common/base/file.h"
#include "common/base/version.h"

namespace loch::fuzz {
namespace {

constexpr std::uint64_t replay_bytes_max = std::uint64_t{1} << 26;

std::unexpected<Error> wrong(const std::string& file, std::string_view text) {
  return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", file, text));
}

// Why a replay file may not set the option `key`: because it names a file or a program; empty if it may.
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

Result<Replay> read_replay(const std::string& path) {
  LOCH_ASSIGN(const std::string text, read_whole(path, replay_bytes_max));
  return parse_replay(text, path);
}

namespace {

bool has_inserts(const workloads::LoadConfig& load) {
  const auto is_insert = [](const workloads::ScriptedOperation& o) {
    return o.kind == OpKind::insert_if_absent;
  };
  return load.mix.insert_if_absent > 0 ||
         (load.script && std::ranges::any_of(*load.script, [&](const auto& client) {
            return std::ranges::any_of(client.operations, is_insert);
          }));
}

}  // namespace

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
  if (has_inserts(plan.load) && !(*module)->data(plan.options).insert_if_absent.is_there)
    return wrong(file,
                 fmt::format("scenario.load: expected no insert_if_absent, which {} does not have with these "
                             "options",
                             r.protocol));
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
