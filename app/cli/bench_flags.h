// The flags of `loch bench`, one table entry each. The parser, --help, error messages, the configuration in a
// result, `loch-bench describe` and, through describe, the YAML keys of experiments, the JSON Schema and
// docs/settings.md are made from this table.
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

// The BenchOptions member into which a flag's value is stored. monostate: the flag has no member of its own;
// its value goes to BenchOptions::others or, if `is_derived`, is handled by separate code.
using FlagPlace = settings::Place;

struct BenchFlag {
  settings::Setting setting;
  FlagPlace (*place)(BenchOptions&) = nullptr;
  // true: handled by separate code: for example, --get and --delete together make the mix
  bool is_derived = false;
  bool is_list = false;     // whether the flag may be given more than once
  bool is_recorded = true;  // recorded under its name in a result's configuration
  // true: the flag is not read before the load begins, so that runs which differ only in such flags can begin
  // with copies of one preloaded cluster
  bool is_of_load = false;
  // The flag's YAML key in experiments. Empty: the flag's name with _ for -. "-": the flag exists on the
  // command line only.
  std::string experiment_key = {};
  char letter = '\0';  // one-letter short form; '\0': none
};

[[nodiscard]] const std::vector<BenchFlag>& bench_flags();

// The command `loch bench` for the parser, --help and `loch-bench describe`, without the protocols' options.
[[nodiscard]] settings::Command bench_command();

// The flag with this name or alias; nullptr if there is none.
[[nodiscard]] const BenchFlag* find_bench_flag(std::string_view name);

// The flag's key in an experiment's YAML; empty: only the command line has the flag.
[[nodiscard]] std::string experiment_key(const BenchFlag& flag);

// Stores a flag's value into its member of `options`.
void store(const BenchFlag& flag, const settings::Value& value, BenchOptions& options);
// Reads a flag's value from its member of `options`, which is not changed; nullopt: not given, and without a
// default.
[[nodiscard]] std::optional<settings::Value> stored(const BenchFlag& flag, BenchOptions& options);

}  // namespace loch::cli
