// A command's flags and operands as one table: its parser, --help, error messages, `loch-bench describe`,
// docs/settings.md and the completion of bash come from it.
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
  Setting setting;  // `key` is the name without --; `aliases` are taken as well
  Place place = {};
  bool is_list = false;            // each time that it is given counts; else the last one does
  bool is_value_optional = false;  // --suite or --suite FILE; without a value its place is left alone
  // It means something beside one of these flags alone.
  std::vector<std::string> goes_with = {};
  char letter = '\0';  // a short form
};

// A word that belongs to no flag. Its setting's key stands for it in the usage ("PROTOCOL").
struct Operand {
  Setting setting;
  bool is_required = true;
  bool is_repeated = false;  // the last one: takes all that follow as well
};

struct Command {
  std::string name;                // "fuzz"
  std::vector<std::string> usage;  // what follows "loch fuzz ", one form a line
  std::string about;               // what it does, in whole sentences; --help breaks its lines
  std::vector<Operand> operands = {};
  std::vector<Flag> flags = {};
  std::string rest = {};   // what stands behind --: "COMMAND"; empty: nothing does
  std::string notes = {};  // said behind the flags
  std::vector<std::pair<std::string, std::string>> statuses = {};  // exit status, when
  std::string example = {};                                        // after "loch "
  std::string program = "loch";                                    // "loch-bench" where ./loch has it not
};

// What was on the command line.
struct Given {
  std::map<std::string, std::vector<std::string>> texts;  // by key, in their order; empty: without a value
  std::vector<std::string> words;
  std::vector<std::string> rest;  // behind --
  [[nodiscard]] bool has(const std::string& key) const { return texts.contains(key); }
};

// The flag of this key or alias, or nullptr.
[[nodiscard]] const Flag* find_flag(const Command& command, std::string_view key);
// "--sed: no such flag; did you mean --seeds?"; `word` with its dashes.
[[nodiscard]] std::string unknown_flag(const Command& command, const std::string& word);

// Stores every default in its place, and then what the arguments say. Takes --key VALUE and --key=VALUE; of
// booleans --key and --key=BOOL, and --key BOOL where the command has no operands. The error is one line that
// names the flag and what was expected.
[[nodiscard]] Result<Given> parse(const Command& command, const std::vector<std::string>& arguments);

// The table without the places of its flags, which may be gone.
[[nodiscard]] Command without_places(Command command);

// Do they hold --help or -h, before --?
[[nodiscard]] bool asks_for_help(const std::vector<std::string>& arguments);

// Usage, flags with ranges and defaults, exit statuses, an example.
[[nodiscard]] std::string help(const Command& command);

// Prints what is wrong as "loch fuzz: …" to standard error. Returns 2, the exit status of bad input.
[[nodiscard]] int refuse(const Command& command, const std::string& message);

// "--a, --b or --c".
[[nodiscard]] std::string list_of_flags(const std::vector<std::string>& keys);
// A setting's help as a page or a line of --help has it: with where its values are listed.
[[nodiscard]] std::string meaning(const Setting& setting);

}  // namespace loch::settings
