// Parses Java property files as YCSB does.
#include "workloads/properties.h"

#include <fmt/format.h>

#include <vector>

namespace loch::workloads {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\f'; }

struct LogicalLine {
  std::string text;  // the line's text, escapes not yet replaced
  int line = 0;
};

// Joins continued lines and drops comments and blank lines. A line that ends in an odd number of backslashes
// continues on the next line, whose leading blanks are dropped.
std::vector<LogicalLine> logical_lines(std::string_view text) {
  std::vector<LogicalLine> lines;
  LogicalLine current;
  bool is_continued = false;
  int number = 0;
  while (!text.empty()) {
    ++number;
    const auto end = text.find_first_of("\r\n");
    std::string_view natural = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end);
    if (text.starts_with("\r\n"))
      text.remove_prefix(2);
    else if (!text.empty())
      text.remove_prefix(1);

    while (!natural.empty() && is_blank(natural.front())) natural.remove_prefix(1);
    if (!is_continued) {
      if (natural.empty() || natural.front() == '#' || natural.front() == '!') continue;
      current = {"", number};
    }
    std::size_t backslashes = 0;
    while (backslashes < natural.size() && natural[natural.size() - 1 - backslashes] == '\\') ++backslashes;
    is_continued = backslashes % 2 == 1;
    if (is_continued) natural.remove_suffix(1);
    current.text += natural;
    if (!is_continued) lines.push_back(std::move(current));
  }
  if (is_continued) lines.push_back(std::move(current));
  return lines;
}

void append_utf8(unsigned code, std::string& out) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xE0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Replaces \t \n \r \f \uXXXX; any other escaped character stands for itself. Returns false on a bad \u
// escape.
bool unescape(std::string_view raw, std::string& out) {
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\') {
      out += raw[i];
      continue;
    }
    if (++i == raw.size()) break;
    switch (raw[i]) {
      case 't':
        out += '\t';
        break;
      case 'n':
        out += '\n';
        break;
      case 'r':
        out += '\r';
        break;
      case 'f':
        out += '\f';
        break;
      case 'u': {
        if (raw.size() - i < 5) return false;
        unsigned code = 0;
        for (std::size_t digit = 1; digit <= 4; ++digit) {
          const int value = hex_digit(raw[i + digit]);
          if (value < 0) return false;
          code = code << 4 | static_cast<unsigned>(value);
        }
        append_utf8(code, out);
        i += 4;
        break;
      }
      default:
        out += raw[i];
    }
  }
  return true;
}

}  // namespace

Result<> parse_properties(std::string_view text, std::string_view file, Properties& into) {
  for (const LogicalLine& logical : logical_lines(text)) {
    const std::string_view line = logical.text;
    std::size_t key_end = 0;
    while (key_end < line.size() && !is_blank(line[key_end]) && line[key_end] != '=' &&
           line[key_end] != ':') {
      key_end += line[key_end] == '\\' && key_end + 1 < line.size() ? 2 : 1;
    }
    std::size_t value_at = key_end;
    while (value_at < line.size() && is_blank(line[value_at])) ++value_at;
    if (value_at < line.size() && (line[value_at] == '=' || line[value_at] == ':')) {
      ++value_at;
      while (value_at < line.size() && is_blank(line[value_at])) ++value_at;
    }
    std::string key, value;
    if (!unescape(line.substr(0, key_end), key) || !unescape(line.substr(value_at), value)) {
      return fail(
          ErrorCode::invalid_argument,
          fmt::format("{}:{}: malformed \\u escape; expected four hexadecimal digits", file, logical.line));
    }
    into[key] = {std::move(value), std::string(file), logical.line};
  }
  return {};
}

}  // namespace loch::workloads
