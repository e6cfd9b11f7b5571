// loch-bench: one binary with the subcommands that are compiled; ./loch adds the runner's.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "app/cli/background_command.h"
#include "app/cli/bench.h"
#include "app/cli/check_command.h"
#include "app/cli/describe.h"
#include "app/cli/explore_command.h"
#include "app/cli/list.h"
#include "app/cli/registry.h"
#include "app/cli/standard_streams.h"
#include "app/fuzz/fuzz.h"
#include "common/base/nearest.h"
#include "common/fabric/sim/calibrate.h"

namespace {

using Arguments = std::vector<std::string>;
using Command = std::function<int(const Arguments&, const loch::kv::Registry&)>;

const std::map<std::string, Command>& commands() {
  static const std::map<std::string, Command> all = {
      {"bench", loch::cli::run_bench},
      {"check",
       [](const Arguments& a, const loch::kv::Registry&) { return loch::cli::run_check_command(a); }},
      {"describe", loch::cli::run_describe},
      {"explore", loch::cli::run_explore},
      {"fuzz", loch::fuzz::run_fuzz},
      {"calibrate",
       [](const Arguments& a, const loch::kv::Registry&) { return loch::fabric::sim::run_calibrate(a); }},
      {"list", loch::cli::run_list},
      {"hog",
       [](const Arguments& a, const loch::kv::Registry&) { return loch::cli::run_background_command(a); }},
  };
  return all;
}

int run(Arguments arguments) {
  std::vector<std::string> names;
  for (const auto& each : commands()) names.push_back(each.first);
  if (arguments.empty() || arguments.front() == "--help") {
    fmt::print(arguments.empty() ? stderr : stdout, "Usage: loch-bench {} …\n", fmt::join(names, "|"));
    return arguments.empty() ? 2 : 0;
  }
  const std::string name = arguments.front();
  arguments.erase(arguments.begin());
  const auto command = commands().find(name);
  if (command == commands().end()) {
    const std::string near = loch::nearest(name, names);
    fmt::print(stderr, "loch: {}: no such command{}\n", name,
               near.empty() ? fmt::format("; expected one of {}", fmt::join(names, ", "))
                            : fmt::format("; did you mean {}?", near));
    return 2;
  }
  const loch::kv::Registry registry = loch::cli::make_registry();
  return command->second(arguments, registry);
}

}  // namespace

int main(int argc, char** argv) {
  loch::cli::prepare_standard_streams();
  const Arguments arguments(argv + 1, argv + argc);
  const std::string name = arguments.empty() ? "" : arguments.front().substr(0, 40);
  return loch::cli::with_output_checked(name, [&] { return run(arguments); });
}
