// Parses one line of a trace in one of the published formats.
#include "workloads/trace_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "common/base/split.h"

namespace loch::workloads {
namespace {

using enum TraceAction;

constexpr std::array twitter_operations = {
    TraceOperation{.name = "get", .action = get, .finds_key = true},
    TraceOperation{.name = "gets", .action = get, .is_simplified = true, .finds_key = true},
    TraceOperation{.name = "set", .action = put},
    TraceOperation{.name = "add", .action = insert_if_absent},
    TraceOperation{.name = "replace", .action = put, .is_simplified = true, .finds_key = true},
    TraceOperation{.name = "cas", .action = put, .is_simplified = true, .finds_key = true},
    TraceOperation{.name = "delete", .action = remove, .finds_key = true},
    TraceOperation{.name = "append"},
    TraceOperation{.name = "prepend"},
    TraceOperation{.name = "incr"},
    TraceOperation{.name = "decr"},
};

constexpr std::array cachelib_operations = {
    TraceOperation{.name = "GET", .action = get, .finds_key = true},
    TraceOperation{.name = "GET_LEASE", .action = get, .is_simplified = true, .finds_key = true},
    TraceOperation{.name = "SET", .action = put},
    TraceOperation{.name = "SET_LEASE", .action = put, .is_simplified = true},
    TraceOperation{.name = "DELETE", .action = remove, .finds_key = true},
};

constexpr std::array ycsb_operations = {
    TraceOperation{.name = "READ", .action = get, .finds_key = true},
    TraceOperation{.name = "INSERT", .action = put},
    TraceOperation{.name = "UPDATE", .action = put, .finds_key = true, .is_partial = true},
    TraceOperation{.name = "DELETE", .action = remove, .finds_key = true},
    TraceOperation{
        .name = "READMODIFYWRITE", .action = read_modify_write, .finds_key = true, .is_partial = true},
    TraceOperation{.name = "SCAN"},
};

std::unexpected<Error> expected(std::string what) {
  return fail(ErrorCode::invalid_argument, fmt::format("expected {}", what));
}

const TraceOperation* find_operation(TraceFormat format, std::string_view name) {
  const auto all = trace_operations(format);
  const auto found = std::ranges::find(all, name, &TraceOperation::name);
  return found == all.end() ? nullptr : &*found;
}

std::string names_of(TraceFormat format) {
  std::vector<std::string_view> names;
  for (const TraceOperation& each : trace_operations(format)) names.push_back(each.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

bool number(std::string_view text, std::uint64_t& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc{} && end == text.data() + text.size();
}

// Sum of the value sizes in "field0=… field1=…". YCSB does not escape values, which may contain any printable
// character: only the next field's name, number and '=' show where a value ends.
std::uint64_t bytes_of_fields(std::string_view text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const std::size_t name_end = text.find('=');
  if (name_end == std::string_view::npos) return 0;
  std::string_view prefix = text.substr(0, name_end);
  while (!prefix.empty() && is_digit(prefix.back())) prefix.remove_suffix(1);
  const std::string separator = " " + std::string(prefix);
  // Position of the next field's value, or npos; sets `value_end` to the end of the current value.
  const auto next_value = [&](std::size_t from, std::size_t& value_end) {
    while ((value_end = text.find(separator, from)) != std::string_view::npos) {
      std::size_t at = value_end + separator.size();
      const std::size_t digits = at;
      while (at < text.size() && is_digit(text[at])) ++at;
      if (at > digits && at < text.size() && text[at] == '=') return at + 1;
      from = value_end + 1;
    }
    return std::string_view::npos;
  };
  std::uint64_t sum = 0;
  std::size_t value = name_end + 1;
  while (true) {
    std::size_t value_end = 0;
    const std::size_t next = next_value(value, value_end);
    if (next == std::string_view::npos) return sum + (text.size() - value);
    sum += value_end - value;
    value = next;
  }
}

}  // namespace

const std::vector<std::string>& trace_format_names() {
  static const std::vector<std::string> names = {"twitter", "cachelib", "ycsb"};
  return names;
}

std::span<const TraceOperation> trace_operations(TraceFormat format) {
  switch (format) {
    case TraceFormat::twitter:
      return twitter_operations;
    case TraceFormat::cachelib:
      return cachelib_operations;
    case TraceFormat::ycsb:
      return ycsb_operations;
  }
  return {};
}

Result<std::optional<TraceLine>> TraceParser::parse(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  switch (format_) {
    case TraceFormat::twitter:
      return twitter(line);
    case TraceFormat::cachelib:
      if (has_header_) return cachelib(line);
      LOCH_TRY(cachelib_header(line));
      return std::nullopt;
    case TraceFormat::ycsb:
      return ycsb(line);
  }
  return std::nullopt;
}

// Parses a line "timestamp,key,key size,value size,client id,operation,TTL". The key's text may contain
// commas.
Result<std::optional<TraceLine>> TraceParser::twitter(std::string_view line) const {
  constexpr std::size_t behind_key = 5;
  const std::vector<std::string_view> parts = split(line, ',');
  if (parts.size() < 2 + behind_key)
    return expected("timestamp,key,key size,value size,client id,operation,TTL");
  const auto* const end = parts.data() + parts.size();
  TraceLine out;
  std::uint64_t second = 0, value = 0, ttl = 0;
  if (!number(parts[0], second)) return expected("a timestamp in whole seconds in column 1");
  const std::string_view first = parts[1], last = *(end - behind_key - 1);
  out.key = {first.data(), static_cast<std::size_t>(last.data() + last.size() - first.data())};
  if (out.key.empty()) return expected("a key in column 2");
  if (!number(*(end - 5), out.key_bytes)) return expected("the key's size in bytes in column 3");
  if (!number(*(end - 4), value)) return expected("the value's size in bytes in column 4");
  out.operation = find_operation(format_, *(end - 2));
  if (out.operation == nullptr)
    return expected(fmt::format("an operation in column 6: {}", names_of(format_)));
  if (!number(*(end - 1), ttl)) return expected("a time to live in whole seconds in column 7");
  out.second = second;
  if (value > 0 || brings_value(out.operation->action)) out.value_bytes = value;
  return out;
}

Result<> TraceParser::cachelib_header(std::string_view line) {
  constexpr std::array<std::string_view, columns> names = {"key",      "op",       "size",
                                                           "op_count", "key_size", "op_time"};
  const std::vector<std::string_view> parts = split(line, ',');
  width_ = parts.size();
  for (std::size_t i = 0; i < columns; ++i) {
    const auto found = std::ranges::find(parts, names[i]);
    place_[i] = found == parts.end() ? no_column : static_cast<std::size_t>(found - parts.begin());
    if (found == parts.end() && i <= size_column)
      return expected("a header of column names with key, op and size among them");
  }
  has_header_ = true;
  return {};
}

Result<std::optional<TraceLine>> TraceParser::cachelib(std::string_view line) const {
  const std::vector<std::string_view> parts = split(line, ',');
  if (parts.size() < width_) return expected(fmt::format("{} columns, as the header has", width_));
  const auto text = [&](Column column) { return parts[place_[column]]; };
  const auto has = [&](Column column) { return place_[column] != no_column && !text(column).empty(); };
  TraceLine out;
  out.key = text(key_column);
  if (out.key.empty()) return expected("a key");
  out.operation = find_operation(format_, text(op_column));
  if (out.operation == nullptr) return expected(fmt::format("an op: {}", names_of(format_)));
  std::uint64_t value = 0, second = 0;
  if (!number(text(size_column), value)) return expected("a size in bytes");
  if (value > 0 || brings_value(out.operation->action)) out.value_bytes = value;
  if (has(count_column) && (!number(text(count_column), out.times) || out.times == 0))
    return expected("an op_count of 1 or more");
  out.key_bytes = out.key.size();
  if (has(key_size_column) && !number(text(key_size_column), out.key_bytes))
    return expected("a key_size in bytes");
  if (place_[time_column] == no_column) return out;
  if (!number(text(time_column), second)) return expected("an op_time in whole seconds");
  out.second = second;
  return out;
}

// Parses "OPERATION table key [ fields ]", "DELETE table key" or "SCAN table key count [ fields ]". YCSB's
// binding also prints its properties, between rows of stars, and results, which begin with '[': those lines
// are skipped.
Result<std::optional<TraceLine>> TraceParser::ycsb(std::string_view line) const {
  if (line.empty() || line.front() == '*' || line.front() == '"' || line.front() == '[') return std::nullopt;
  const auto word = [&] {
    const std::size_t end = std::min(line.find(' '), line.size());
    const std::string_view first = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    return first;
  };
  TraceLine out;
  out.operation = find_operation(format_, word());
  if (out.operation == nullptr)
    return expected(fmt::format("an operation, a table and a key: {}", names_of(format_)));
  const std::string_view table = word();
  out.key = word();
  out.key_bytes = out.key.size();
  if (table.empty() || out.key.empty()) return expected("a table and a key behind the operation");
  if (out.operation->action == skip) return out;
  if (out.operation->action == remove) {
    if (!line.empty()) return expected("nothing behind the key of a DELETE");
    return out;
  }
  if (line.size() < 3 || !line.starts_with("[ ") || line.back() != ']')
    return expected("fields between \"[ \" and \"]\" behind the key");
  std::string_view fields = line.substr(2, line.size() - 3);
  // Removes the blank that follows each field.
  if (!fields.empty() && fields.back() == ' ') fields.remove_suffix(1);
  if (out.operation->action != get) out.value_bytes = bytes_of_fields(fields);
  return out;
}

}  // namespace loch::workloads
