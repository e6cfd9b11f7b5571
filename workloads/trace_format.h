// The published formats of key-value traces, line by line: Twitter's cache traces, CacheLib's kvcache traces
// and the log that YCSB's binding `basic` prints. docs/traces.md has their columns and units, where these are
// published, and what becomes of each operation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace loch::workloads {

enum class TraceFormat : std::uint8_t { twitter, cachelib, ycsb };
// In the order of the enumeration.
[[nodiscard]] const std::vector<std::string>& trace_format_names();

// What an operation of a trace becomes.
enum class TraceAction : std::uint8_t {
  get,
  put,
  insert_if_absent,  // a PUT, counted as simplified, where the replay's protocol has no INSERT
  remove,
  read_modify_write,  // a GET and then a PUT
  skip,               // nothing: a store of GET, PUT and DELETE has no such operation
};

[[nodiscard]] constexpr bool brings_value(TraceAction action) {
  return action == TraceAction::put || action == TraceAction::insert_if_absent;
}

// An operation of a format. What is said of it holds of every line that names it.
struct TraceOperation {
  std::string_view name;
  TraceAction action = TraceAction::skip;
  // Something of it is lost: that it depends on a condition, or takes a lease.
  bool is_simplified = false;
  // The trace's store had the key: the operation reads, changes or removes what is there.
  bool finds_key = false;
  // It writes a part of the value and leaves the rest.
  bool is_partial = false;
};
[[nodiscard]] std::span<const TraceOperation> trace_operations(TraceFormat format);

// One line that asks for something. Views into the line.
struct TraceLine {
  const TraceOperation* operation = nullptr;
  std::string_view key;  // as the trace writes it
  std::uint64_t key_bytes = 0;
  // Bytes of the value that was written or found; none where the line does not tell.
  std::optional<std::uint64_t> value_bytes;
  std::optional<std::uint64_t> second;  // when it arrived, in seconds from some start; none: no times
  std::uint64_t times = 1;              // so often, at the same time
};

// Reads the lines of one file in order.
class TraceParser {
 public:
  explicit TraceParser(TraceFormat format) : format_(format) {}
  // nullopt: a header, or a line that asks for nothing. The error says what was expected; file and line are
  // the caller's. The line has no end of line.
  [[nodiscard]] Result<std::optional<TraceLine>> parse(std::string_view line);

 private:
  enum Column : std::uint8_t {
    key_column,
    op_column,
    size_column,
    count_column,
    key_size_column,
    time_column
  };
  static constexpr std::size_t columns = 6;
  static constexpr std::size_t no_column = ~std::size_t{0};

  [[nodiscard]] Result<std::optional<TraceLine>> twitter(std::string_view line) const;
  [[nodiscard]] Result<std::optional<TraceLine>> cachelib(std::string_view line) const;
  [[nodiscard]] Result<> cachelib_header(std::string_view line);
  [[nodiscard]] Result<std::optional<TraceLine>> ycsb(std::string_view line) const;

  TraceFormat format_;
  bool has_header_ = false;
  std::array<std::size_t, columns> place_{};  // of CacheLib's columns, by Column
  std::size_t width_ = 0;                     // columns of a line
};

}  // namespace loch::workloads
