// A replay file: one scenario and what it showed, so that it can be run again anywhere (docs/formats.md). It
// is data: it names a protocol, a known-bad variant, options and a hardware profile of this program, and
// nothing else; no option that names a file or a program is taken from it.
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
  std::map<std::string, std::string> settings;  // options that were fixed, not drawn
  FuzzScenario scenario;                        // without module and options until make_runnable() gives them
  // The finding: the verdict and its cause.
  std::uint64_t seed = 0;     // seed from which the scenario was drawn
  std::string commit, cause;  // of the program; the hole that it comes from
  FuzzVerdict verdict = FuzzVerdict::holds;
  std::string reason;
  std::uint64_t trace_hash = 0, history_hash = 0;
};

// A digest of all operations of a history, in order.
[[nodiscard]] std::uint64_t history_hash(std::span<const check::Operation> history);

// Of a finding (or a run without one) whose scenario is known.
[[nodiscard]] Replay make_replay(const FuzzFinding& finding, const FuzzOptions& options);

[[nodiscard]] std::string to_text(const Replay& replay);
// Strict; the error is one line that names the file, the key and what was expected. What it returns fits
// together: every node, worker and record that it names is there.
[[nodiscard]] Result<Replay> parse_replay(std::string_view text, const std::string& file);
[[nodiscard]] Result<Replay> read_replay(const std::string& path);

// Gives the scenario its module and options. Fails on a protocol, mutant, option or profile that this program
// does not have, on an option that a file may not set, and where the protocol refuses the scenario.
[[nodiscard]] Result<> make_runnable(Replay& replay, const kv::Registry& registry, const std::string& file);

// The options under which it was found.
[[nodiscard]] FuzzOptions options_of(const Replay& replay);

}  // namespace loch::fuzz
