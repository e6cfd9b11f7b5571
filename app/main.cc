// The program loch-bench with the subcommands that are written in C++; the script ./loch adds those written
// in Python.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "app/cli/background_command.h"
#include "app/cli/bench.h"
#include "app/cli/bench_flags.h"
#include "app/cli/check_command.h"
#include "app/cli/check_flags.h"
#include "app/cli/crash_report.h"
#include "app/cli/describe.h"
#include "app/cli/devices_command.h"
#include "app/cli/explore_command.h"
#include "app/cli/explore_flags.h"
#include "app/cli/list.h"
#include "app/cli/litmus_command.h"
#include "app/cli/ping_command.h"
#include "app/cli/points_command.h"
#include "app/cli/processor_command.h"
#include "app/cli/registry.h"
#include "app/cli/standard_streams.h"
#include "app/fuzz/fuzz.h"
#include "app/fuzz/fuzz_flags.h"
#include "common/base/die_with_parent.h"
#include "common/base/nearest.h"
#include "common/fabric/sim/calibrate.h"

namespace {

using Arguments = std::vector<std::string>;
using loch::kv::Registry;
using loch::settings::Command;

struct Entry {
  Command table;
  std::function<int(const Arguments&, const Registry&)> run;
};

template <typename Flags>
Command described(Command (*table)(Flags&)) {
  Flags flags{};
  return loch::settings::without_places(table(flags));
}

// All subcommands, in the order of docs/settings.md.
const std::vector<Entry>& commands();

int run_describe(const Arguments& arguments, const Registry& registry) {
  std::vector<Command> tables;
  for (const Entry& each : commands()) tables.push_back(each.table);
  return loch::cli::run_describe(arguments, registry, tables);
}

const std::vector<Entry>& commands() {
  using namespace loch;
  static const std::vector<Entry> all = {
      {cli::bench_command(), cli::run_bench},
      {described(cli::check_command),
       [](const Arguments& a, const Registry&) { return cli::run_check_command(a); }},
      {described(fuzz::fuzz_command), fuzz::run_fuzz},
      {described(cli::explore_command), cli::run_explore},
      {described(cli::background_command),
       [](const Arguments& a, const Registry&) { return cli::run_background_command(a); }},
      {described(fabric::sim::calibrate_command),
       [](const Arguments& a, const Registry&) { return fabric::sim::run_calibrate(a); }},
      {described(cli::list_command), cli::run_list},
      {described(cli::devices_command),
       [](const Arguments& a, const Registry&) { return cli::run_devices_command(a); }},
      {described(cli::ping_command),
       [](const Arguments& a, const Registry&) { return cli::run_ping_command(a); }},
      {described(cli::litmus_command),
       [](const Arguments& a, const Registry&) { return cli::run_litmus_command(a); }},
      {described(cli::processor_command),
       [](const Arguments& a, const Registry&) { return cli::run_processor_command(a); }},
      {described(cli::points_command), cli::run_points_command},
      {described(cli::describe_command), run_describe},
  };
  return all;
}

int run(Arguments arguments) {
  std::vector<std::string> names;
  for (const Entry& each : commands()) names.push_back(each.table.name);
  std::ranges::sort(names);
  if (arguments.empty() || arguments.front() == "--help") {
    fmt::print(arguments.empty() ? stderr : stdout, "Usage: loch-bench {} …\n", fmt::join(names, "|"));
    return arguments.empty() ? 2 : 0;
  }
  const std::string name = arguments.front();
  arguments.erase(arguments.begin());
  const auto command = std::ranges::find_if(commands(), [&](const Entry& e) { return e.table.name == name; });
  if (command == commands().end()) {
    const std::string near = loch::nearest(name, names);
    fmt::print(stderr, "loch: {}: no such command{}\n", name,
               near.empty() ? fmt::format("; expected one of {}", fmt::join(names, ", "))
                            : fmt::format("; did you mean {}?", near));
    return 2;
  }
  const Registry registry = loch::cli::make_registry();
  return command->run(arguments, registry);
}

}  // namespace

int main(int argc, char** argv) {
  loch::cli::prepare_standard_streams();
  loch::cli::report_crashes();
  if (!loch::die_with_named_parent()) {
    fmt::print(stderr, "loch: the process that {} names does not run\n", loch::parent_variable);
    return 1;
  }
  const Arguments arguments(argv + 1, argv + argc);
  const std::string name = arguments.empty() ? "" : arguments.front().substr(0, 40);
  return loch::cli::with_output_checked(name, [&] { return run(arguments); });
}
