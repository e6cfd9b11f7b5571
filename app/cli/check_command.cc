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
  return check::run_check(given->words, check_options(flags), std::cout, std::cerr);
}

}  // namespace loch::cli
