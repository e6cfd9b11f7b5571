// A replay file: one scenario and its finding, to be run again anywhere (docs/formats.md). It contains data
// only: names of a protocol, a known-bad variant, options and a hardware profile. Options that name a file or
// a program are refused.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "app/fuzz/fuzz.h"

namespace loch::fuzz {

constexpr std::int64_t replay_version = 1;

struct Replay {
  std::string protocol, mutant, hardware;
  std::map<std::string, std::string> settings;  // options that the user had fixed
  FuzzScenario scenario;                        // has no module and no options before make_runnable()
  // The finding: its seed, cause, verdict and reason, the program's commit, and hashes of the run.
  std::uint64_t seed = 0;     // seed from which the scenario was drawn
  std::string commit, cause;  // commit of the program; the protocol's fault that the finding shows
  FuzzVerdict verdict = FuzzVerdict::holds;
  std::string reason;
  std::uint64_t trace_hash = 0, history_hash = 0;
};

// A hash of all operations of a history, in order.
[[nodiscard]] std::uint64_t history_hash(std::span<const check::Operation> history);

// Makes the replay file of a run, with or without a finding. `finding.ran` has to be set.
[[nodiscard]] Replay make_replay(const FuzzFinding& finding, const FuzzOptions& options);

[[nodiscard]] std::string to_text(const Replay& replay);
// Parses a replay file strictly. An error is one line that names the file, the key and what was expected. The
// result is consistent: every node, worker and record that it names exists.
[[nodiscard]] Result<Replay> parse_replay(std::string_view text, const std::string& file);
[[nodiscard]] Result<Replay> read_replay(const std::string& path);

// Sets the scenario's module and options. Fails if this program has no such protocol, mutant, option or
// hardware profile, if a file may not set the option, or if the protocol refuses the scenario.
[[nodiscard]] Result<> make_runnable(Replay& replay, const kv::Registry& registry, const std::string& file);

// The fuzz options under which the scenario was found.
[[nodiscard]] FuzzOptions options_of(const Replay& replay);

}  // namespace loch::fuzz
