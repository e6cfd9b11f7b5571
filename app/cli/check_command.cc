// The command `loch check`: judges recorded histories.
#include "app/cli/check_command.h"

#include <fmt/format.h>

#include <iostream>

#include "app/cli/check_flags.h"

namespace loch::cli {

int run_check_command(const std::vector<std::string>& arguments) {
  CheckFlags flags;
  const settings::Command command = check_command(flags);
  if (settings::asks_for_help(arguments)) {
    fmt::print("{}", settings::help(command));
    return 0;
  }
  const auto given = settings::parse(command, arguments);
  if (!given) return settings::refuse(command, given.error().message);
  if (flags.prints) {
    const auto printed = check::print_history(given->words, std::cout);
    if (printed) return 0;
    std::cerr << printed.error().message << '\n';
    return 2;
  }
  return check::run_check(given->words, check_options(flags), std::cout, std::cerr);
}

}  // namespace loch::cli
