// `loch check`: parses its flags and judges recorded histories.
#include "app/cli/check_command.h"

#include <fmt/format.h>

#include <iostream>

#include "common/base/nearest.h"
#include "common/check/linearizable.h"
#include "common/kv/options.h"

namespace loch::cli {
namespace {

constexpr const char* usage =
    "Usage: loch check [--model linearizable|lossy-cache|none] [--initial any|absent|present] "
    "[--tombstone-deletes] "
    "HISTORY…\n"
    "  --model M            what the store claims (linearizable, per key)\n"
    "  --initial I          what keys hold when the history begins, where it does not say (any)\n"
    "  --tombstone-deletes  a DELETE may say ok for a key that was absent\n"
    "Exit status 0: holds; 1: violated; 2: it cannot be read, or not be decided.\n"
    "Example: loch bench --history run.jsonl && loch check run.jsonl\n";

struct Given {
  check::CheckOptions options;
  std::vector<std::string> files;
};

Result<check::Initial> parse_initial(const std::string& text) {
  if (text == "any") return check::Initial::any;
  if (text == "absent") return check::Initial::absent;
  if (text == "present") return check::Initial::present;
  return fail(ErrorCode::invalid_argument,
              fmt::format("--initial: \"{}\" is not one of any, absent, present", text));
}

Result<Given> parse(const std::vector<std::string>& arguments) {
  Given given;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string flag = arguments[i], value;
    if (!flag.starts_with("--")) {
      given.files.push_back(flag);
      continue;
    }
    if (flag == "--tombstone-deletes") {
      given.options.delete_ok_removes = false;
      continue;
    }
    const auto equals = flag.find('=');
    if (equals != std::string::npos) {
      value = flag.substr(equals + 1);
      flag.resize(equals);
    }
    if (flag != "--model" && flag != "--initial") {
      const std::string near = nearest(flag, {"--model", "--initial", "--tombstone-deletes", "--help"});
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{}: no such flag{}", flag,
                              near.empty() ? "" : fmt::format("; did you mean {}?", near)));
    }
    if (equals == std::string::npos) {
      if (++i == arguments.size()) return fail(ErrorCode::invalid_argument, flag + ": expected a value");
      value = arguments[i];
    }
    if (flag == "--model") {
      LOCH_ASSIGN(given.options.model, check::parse_model(value));
    } else {
      LOCH_ASSIGN(given.options.initial, parse_initial(value));
    }
  }
  if (given.files.empty()) return fail(ErrorCode::invalid_argument, "expected at least one history file");
  return given;
}

}  // namespace

int run_check_command(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--help") {
      fmt::print("{}", usage);
      return 0;
    }
  }
  const auto given = parse(arguments);
  if (!given) {
    fmt::print(stderr, "loch check: {}\n", given.error().message);
    return 2;
  }
  return check::run_check(given->files, given->options, std::cout, std::cerr);
}

}  // namespace loch::cli
