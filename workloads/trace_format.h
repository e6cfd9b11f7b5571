// The published formats of key-value traces, line by line: Twitter's cache traces, CacheLib's kvcache traces
// and the log that YCSB's binding `basic` prints. docs/traces.md lists the columns with their units, where
// published, and how each operation is replayed.
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
// Names of the TraceFormat values, in the order of the enumeration.
[[nodiscard]] const std::vector<std::string>& trace_format_names();

// How an operation of a trace is replayed.
enum class TraceAction : std::uint8_t {
  get,
  put,
  insert_if_absent,  // replayed as a PUT, and counted as simplified, if the protocol has no INSERT
  remove,
  read_modify_write,  // replayed as a GET and then a PUT
  skip,               // not replayed: the operation has no counterpart among GET, PUT, DELETE and INSERT
};

[[nodiscard]] constexpr bool brings_value(TraceAction action) {
  return action == TraceAction::put || action == TraceAction::insert_if_absent;
}

// An operation name of a trace format, with properties that hold for every line with that name.
struct TraceOperation {
  std::string_view name;
  TraceAction action = TraceAction::skip;
  // Whether the replay leaves out a condition or lease that the operation has in the trace.
  bool is_simplified = false;
  // Whether the operation reads, changes or removes a value, so that its key is taken to be present before
  // it.
  bool finds_key = false;
  // Whether the operation writes only a part of the value.
  bool is_partial = false;
};
[[nodiscard]] std::span<const TraceOperation> trace_operations(TraceFormat format);

// A parsed line that contains an operation. Its string views point into the line.
struct TraceLine {
  const TraceOperation* operation = nullptr;
  std::string_view key;  // the key's text in the trace
  std::uint64_t key_bytes = 0;
  // Size in bytes of the value that was written or found; nullopt if the line does not tell.
  std::optional<std::uint64_t> value_bytes;
  // Arrival time in seconds, with an arbitrary origin; nullopt: the trace has no times.
  std::optional<std::uint64_t> second;
  std::uint64_t times = 1;  // number of equal operations at this time
};

// Reads the lines of one file in order.
class TraceParser {
 public:
  explicit TraceParser(TraceFormat format) : format_(format) {}
  // Parses one line without its line end. nullopt: a header, or a line without an operation. An error says
  // what was expected; the caller adds file and line.
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
  std::array<std::size_t, columns> place_{};  // position of each CacheLib column in a line
  std::size_t width_ = 0;                     // number of columns in a line of a CacheLib trace
};

}  // namespace loch::workloads
