// The flags of `loch bench`: one entry each, from which the parser, --help, error messages, the configuration
// in a result, `loch-bench describe` and thereby experiments (YAML), the JSON Schema and docs/settings.md
// come.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "app/cli/bench_options.h"
#include "common/settings/command.h"
#include "common/settings/place.h"
#include "common/settings/setting.h"

namespace loch::cli {

// Where a flag's value goes. monostate: BenchOptions::others, or code of its own where `is_derived`.
using FlagPlace = settings::Place;

struct BenchFlag {
  settings::Setting setting;
  FlagPlace (*place)(BenchOptions&) = nullptr;
  bool is_derived = false;  // parsed with others: --get and --delete make the mix
  bool is_list = false;     // may be repeated
  bool is_recorded = true;  // recorded in a result's configuration under its name
  // A key of experiments; empty: the flag's name with _ for -. "-": of the command line alone.
  std::string experiment_key = {};
  char letter = '\0';  // a short form
};

[[nodiscard]] const std::vector<BenchFlag>& bench_flags();

// `loch bench` as --help, `loch-bench describe` and the parser have it, without the protocols' options.
[[nodiscard]] settings::Command bench_command();

// The flag of this name or former name, or nullptr.
[[nodiscard]] const BenchFlag* find_bench_flag(std::string_view name);

// The flag's key in an experiment's YAML; empty: only the command line has the flag.
[[nodiscard]] std::string experiment_key(const BenchFlag& flag);

// Writes the value to where the flag says, or reads it from there.
void store(const BenchFlag& flag, const settings::Value& value, BenchOptions& options);
// nullopt: not given, and without a default. Changes nothing.
[[nodiscard]] std::optional<settings::Value> stored(const BenchFlag& flag, BenchOptions& options);

}  // namespace loch::cli
