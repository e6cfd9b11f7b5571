// A command's flags and operands as one table, from which its parser, --help, error messages, `loch-bench
// describe`, docs/settings.md and shell completion are made.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/settings/place.h"
#include "common/settings/setting.h"

namespace loch::settings {

struct Flag {
  Setting setting;  // `key` is the flag's name without --; `aliases` are further names
  Place place = {};
  bool is_list = false;  // true: every value that is given counts, in order; false: only the last one
  // true: the flag may be given without a value (--suite, --suite FILE), and its variable then stays as it is
  bool is_value_optional = false;
  // Keys of flags of which at least one has to be given as well; empty: none.
  std::vector<std::string> goes_with = {};
  char letter = '\0';  // the short form, such as 'j' of -j; '\0': none
};

// An argument that belongs to no flag. The usage line names it by its setting's key ("PROTOCOL").
struct Operand {
  Setting setting;
  bool is_required = true;
  bool is_repeated = false;  // true, allowed for the last operand only: it takes all remaining arguments
};

struct Command {
  std::string name;                // the command's name, such as "fuzz"
  std::vector<std::string> usage;  // the forms of the command line, each without "loch fuzz "
  std::string about;               // what the command does, in whole sentences; --help breaks its lines
  std::vector<Operand> operands = {};
  std::vector<Flag> flags = {};
  // name of the arguments behind a bare --, such as "COMMAND"; empty: the command takes none
  std::string rest = {};
  std::string notes = {};  // paragraph that --help prints after the flags
  std::vector<std::pair<std::string, std::string>> statuses = {};  // exit status, and when it is returned
  std::string example = {};                                        // an example command line without "loch "
  // the program's name in --help and in hints: "loch-bench" for commands that ./loch does not offer
  std::string program = "loch";
};

// The arguments that a command line gave.
struct Given {
  // values by the flag's key, in the order given; an empty list: the flag was given without a value
  std::map<std::string, std::vector<std::string>> texts;
  std::vector<std::string> words;
  std::vector<std::string> rest;  // the arguments behind a bare --
  [[nodiscard]] bool has(const std::string& key) const { return texts.contains(key); }
};

// The command's flag with this key or alias; nullptr if there is none.
[[nodiscard]] const Flag* find_flag(const Command& command, std::string_view key);
// The error for an unknown flag `word` (dashes included): "--sed: no such flag; did you mean --seeds?".
[[nodiscard]] std::string unknown_flag(const Command& command, const std::string& word);

// Stores every default in its variable, and then the given values. Takes --key VALUE and --key=VALUE; for
// booleans --key and --key=BOOL, and --key BOOL where the command has no operands. The error is one line that
// names the flag and what was expected.
[[nodiscard]] Result<Given> parse(const Command& command, const std::vector<std::string>& arguments);

// A copy of the command's table in which no flag points to a variable, because the variables may not exist
// any more.
[[nodiscard]] Command without_places(Command command);

// Whether the arguments before a bare -- include --help or -h.
[[nodiscard]] bool asks_for_help(const std::vector<std::string>& arguments);

// The text of --help: usage, flags with ranges and defaults, exit statuses, an example.
[[nodiscard]] std::string help(const Command& command);

// Prints what is wrong as "loch fuzz: …" to standard error. Returns 2, the exit status of bad input.
[[nodiscard]] int refuse(const Command& command, const std::string& message);

// Joins names of flags for a message: "--a, --b or --c".
[[nodiscard]] std::string list_of_flags(const std::vector<std::string>& keys);
// A setting's help text, with the `loch list` command that names its values, if there is one.
[[nodiscard]] std::string meaning(const Setting& setting);

}  // namespace loch::settings
