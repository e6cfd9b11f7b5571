// Parses a command's arguments by its table, and writes its --help.
#include "common/settings/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "common/base/check.h"
#include "common/base/nearest.h"

namespace loch::settings {
namespace {

std::unexpected<Error> bad(std::string message) {
  return fail(ErrorCode::invalid_argument, std::move(message));
}

std::string did_you_mean(const std::string& near) {
  return near.empty() ? "" : fmt::format("; did you mean {}?", near);
}

// Reads the words of a command line one after the other, and checks them against the command's table.
class Reader {
 public:
  Reader(const Command& command, const std::vector<std::string>& arguments)
      : command_(command), arguments_(arguments) {}

  Result<Given> read() {
    for (; at_ < arguments_.size(); ++at_) {
      const std::string& word = arguments_[at_];
      if (word == "--" && !command_.rest.empty()) {
        LOCH_TRY(take_rest());
        break;
      }
      if (word.size() > 1 && word.starts_with('-'))
        LOCH_TRY(take_flag(word));
      else
        LOCH_TRY(take_operand(word));
    }
    LOCH_TRY(check_together());
    return std::move(given_);
  }

 private:
  Result<> take_rest() {
    given_.rest.assign(arguments_.begin() + static_cast<std::ptrdiff_t>(at_) + 1, arguments_.end());
    if (given_.rest.empty()) return bad(fmt::format("--: expected {} after it", command_.rest));
    return {};
  }

  Result<> take_flag(const std::string& word) {
    const bool is_long = word.starts_with("--");
    const auto equals = is_long ? word.find('=') : std::string::npos;
    const std::string name = word.substr(0, equals);
    const Flag* flag = is_long ? find_flag(command_, name.substr(2)) : of_letter(word[1]);
    if (flag == nullptr) return bad(unknown_flag(command_, name));
    std::optional<std::string> text;
    if (equals != std::string::npos) text = word.substr(equals + 1);
    if (!is_long && word.size() > 2) text = word.substr(2);
    if (!text) text = next_value(*flag);
    if (!text && flag->setting.type == Type::boolean) text = "true";
    std::vector<std::string>& texts = given_.texts[flag->setting.key];
    if (!text) return flag->is_value_optional ? Result<>() : bad(fmt::format("{}: expected a value", name));
    auto value = parse(flag->setting, *text);
    if (!value) return bad("--" + value.error().message);
    store(flag->place, *value);
    texts.push_back(*std::move(text));
    return {};
  }

  [[nodiscard]] const Flag* of_letter(char letter) const {
    const auto found = std::ranges::find(command_.flags, letter, &Flag::letter);
    return found == command_.flags.end() ? nullptr : &*found;
  }

  // Takes the next word of the command line if it can be this flag's value: a value that is required must not
  // begin with two dashes, one that may be left out must not begin with any dash. If the command has
  // operands, the word behind a boolean flag is never its value.
  std::optional<std::string> next_value(const Flag& flag) {
    const bool is_boolean = flag.setting.type == Type::boolean;
    if (is_boolean && !command_.operands.empty()) return std::nullopt;
    const bool must_have_one = !is_boolean && !flag.is_value_optional;
    const bool is_there =
        at_ + 1 < arguments_.size() && !arguments_[at_ + 1].starts_with(must_have_one ? "--" : "-");
    return is_there ? std::optional(arguments_[++at_]) : std::nullopt;
  }

  Result<> take_operand(const std::string& word) {
    const std::vector<Operand>& all = command_.operands;
    const std::size_t place = given_.words.size();
    const bool has_place = place < all.size() || (!all.empty() && all.back().is_repeated);
    if (!has_place) return bad(fmt::format("\"{}\": {}", word, why_no_operand()));
    const Setting& setting = all[std::min(place, all.size() - 1)].setting;
    LOCH_TRY(parse(setting, word));
    given_.words.push_back(word);
    return {};
  }

  [[nodiscard]] std::string why_no_operand() const {
    if (!command_.operands.empty()) {
      std::vector<std::string> names;
      for (const Operand& each : command_.operands) names.push_back(each.setting.key);
      return fmt::format("one word too many; expected {}", fmt::join(names, " "));
    }
    if (!command_.rest.empty()) return fmt::format("belongs to no flag; {} comes after --", command_.rest);
    return fmt::format("belongs to no flag; {} {} --help lists the flags", command_.program, command_.name);
  }

  Result<> check_together() {
    for (std::size_t i = given_.words.size(); i < command_.operands.size(); ++i) {
      const Setting& setting = command_.operands[i].setting;
      if (!command_.operands[i].is_required) continue;
      return bad(fmt::format("expected {}: {}", setting.key,
                             setting.choices.empty() ? setting.help : expected(setting)));
    }
    for (const Flag& flag : command_.flags) {
      const bool is_alone =
          given_.has(flag.setting.key) && !flag.goes_with.empty() &&
          std::ranges::none_of(flag.goes_with, [&](const std::string& key) { return given_.has(key); });
      if (is_alone)
        return bad(fmt::format("--{}: goes with {}", flag.setting.key, list_of_flags(flag.goes_with)));
    }
    return {};
  }

  const Command& command_;
  const std::vector<std::string>& arguments_;
  std::size_t at_ = 0;
  Given given_;
};

// ---- The text of --help -----------------------------------------------------------------------

constexpr std::size_t line_width = 100, widest_head = 34;

// Number of terminal columns: the continuation bytes of a UTF-8 character take none.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// Breaks text into lines that begin at `column`; `used` columns of the first line are occupied already.
std::string wrapped(std::string_view text, std::size_t column, std::size_t used) {
  std::string out;
  std::size_t at = used;
  bool is_first = true;
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    const std::size_t width = width_of(word);
    if (!is_first && at + 1 + width > line_width) {
      out += "\n" + std::string(column, ' ');
      at = column;
      is_first = true;
    }
    out += is_first ? "" : " ";
    out += word;
    at += width + (is_first ? 0 : 1);
    is_first = false;
  }
  return out;
}

std::string value_shown(const Flag& flag) {
  if (flag.setting.type == Type::boolean) return "";
  const std::string shown = placeholder(flag.setting);
  return flag.is_value_optional ? fmt::format(" [{}]", shown) : " " + shown;
}

std::string head_of(const Flag& flag) {
  std::string out = "  ";
  if (flag.letter != '\0') out += fmt::format("-{}, ", flag.letter);
  out += fmt::format("--{}{}", flag.setting.key, value_shown(flag));
  for (const std::string& alias : flag.setting.aliases)
    out += fmt::format(", --{}{}", alias, value_shown(flag));
  return out;
}

// The range in brackets, such as " [1…8 cores]"; empty if the setting has no bounds, or if its placeholder
// lists the choices.
std::string bracketed(const Setting& setting) {
  std::string range = range_text(setting);
  if (const auto gap = range.find(" … "); gap != std::string::npos) range.replace(gap, 5, "…");
  const bool is_plain = setting.minimum <= 0 && setting.maximum > 1e18 && setting.type != Type::choice;
  if (range.empty() || is_plain || (setting.type == Type::choice && setting.placeholder.empty())) return "";
  return fmt::format(" [{}{}{}]", range, setting.unit.empty() ? "" : " ", setting.unit);
}

// Help text with range and default: "how many seeds [≥ 1] (1000)".
std::string explained(const Flag& flag) {
  const Setting& setting = flag.setting;
  std::string out = meaning(setting);
  if (!flag.goes_with.empty()) out += "; goes with " + list_of_flags(flag.goes_with);
  out += bracketed(setting);
  if (!setting.initial.empty() && setting.type != Type::boolean) out += fmt::format(" ({})", setting.initial);
  return out;
}

// The entry of one flag in --help: its name and the text that explains it, continued on further lines at
// `column`.
std::string help_line(const std::string& head, const std::string& text, std::size_t column) {
  const std::size_t width = width_of(head);
  const std::string gap =
      width + 1 > column ? "\n" + std::string(column, ' ') : std::string(column - width, ' ');
  return head + gap + wrapped(text, column, column) + "\n";
}

}  // namespace

std::string meaning(const Setting& setting) {
  return setting.named_by.empty() ? setting.help
                                  : fmt::format("{}: loch list {}", setting.help, setting.named_by);
}

const Flag* find_flag(const Command& command, std::string_view key) {
  const auto found = std::ranges::find_if(command.flags, [&](const Flag& flag) {
    return flag.setting.key == key ||
           std::ranges::find(flag.setting.aliases, key) != flag.setting.aliases.end();
  });
  return found == command.flags.end() ? nullptr : &*found;
}

std::string unknown_flag(const Command& command, const std::string& word) {
  std::vector<std::string> names = {"--help"};
  for (const Flag& flag : command.flags) {
    names.push_back("--" + flag.setting.key);
    for (const std::string& alias : flag.setting.aliases) names.push_back("--" + alias);
  }
  return fmt::format("{}: no such flag{}", word, did_you_mean(nearest(word, names)));
}

std::string list_of_flags(const std::vector<std::string>& keys) {
  std::string out;
  for (std::size_t i = 0; i < keys.size(); ++i)
    out += (i == 0 ? "--" : i + 1 == keys.size() ? " or --" : ", --") + keys[i];
  return out;
}

Result<Given> parse(const Command& command, const std::vector<std::string>& arguments) {
  for (const Flag& flag : command.flags) {
    if (flag.setting.initial.empty()) continue;
    const auto value = parse(flag.setting, flag.setting.initial);
    LOCH_CHECK(value.has_value(), "the default of {}", value.error().message);
    store(flag.place, *value);
  }
  return Reader(command, arguments).read();
}

Command without_places(Command command) {
  for (Flag& flag : command.flags) flag.place = {};
  return command;
}

bool asks_for_help(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--") return false;
    if (argument == "--help" || argument == "-h") return true;
  }
  return false;
}

std::string help(const Command& command) {
  std::string out;
  for (const std::string& form : command.usage)
    out += fmt::format("{}{} {}{}{}\n", out.empty() ? "Usage: " : "       ", command.program, command.name,
                       form.empty() ? "" : " ", form);
  out += "\n" + wrapped(command.about, 0, 0) + "\n\n";
  std::vector<std::pair<std::string, std::string>> lines;
  for (const Operand& each : command.operands) {
    Setting setting = each.setting;
    setting.placeholder = setting.key;
    lines.emplace_back("  " + setting.key, explained({.setting = setting}));
  }
  for (const Flag& flag : command.flags) lines.emplace_back(head_of(flag), explained(flag));
  std::size_t column = 0;
  for (const auto& [head, text] : lines) column = std::max(column, width_of(head) + 2);
  for (const auto& [head, text] : lines) out += help_line(head, text, std::min(column, widest_head));
  if (!command.notes.empty()) out += "\n" + wrapped(command.notes, 0, 0) + "\n";
  std::vector<std::string> statuses;
  for (const auto& [status, when] : command.statuses) statuses.push_back(fmt::format("{}: {}", status, when));
  out += "\n" + wrapped(fmt::format("Exit status {}.", fmt::join(statuses, "; ")), 0, 0) + "\n";
  return out + fmt::format("Example: {} {}\n", command.program, command.example);
}

int refuse(const Command& command, const std::string& message) {
  fmt::print(stderr, "loch {}: {}\n", command.name, message);
  return 2;
}

}  // namespace loch::settings
