// The operations of a published trace (trace_format.h) for replay, with its keys as record numbers.
//
// The file is read once, line by line, before the run, so that all its errors are found then. Memory: 16
// bytes per operation, 8 per key (0 if all keys have one size), 4 more per operation in the process whose
// client issues it; while reading, about 60 more bytes per key. At most most_operations operations.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/operation.h"
#include "common/base/result.h"
#include "common/base/units.h"
#include "workloads/trace_format.h"

namespace loch::workloads {

// Which keys the run writes before the trace's first operation.
enum class TracePreload : std::uint8_t {
  found,  // keys whose first operation in the trace needs a stored value, which it reads, changes or removes
  all,
  none,
};
// Names of the TracePreload values, in the order of the enumeration.
[[nodiscard]] const std::vector<std::string>& trace_preload_names();

struct TraceRequest {
  std::string file;
  TraceFormat format = TraceFormat::twitter;
  TracePreload preload = TracePreload::found;
  // Largest key and value in bytes; a line above them is refused. nullopt: the largest of the trace.
  std::optional<std::uint32_t> key_most, value_most;
  std::uint32_t unknown_value = 1024;  // bytes of a preloaded value whose size no line of the trace tells
  bool is_one_size = false;            // whether every key has *key_most bytes and every value *value_most
  std::uint64_t operations = 0;        // replay only the first `operations` operations; 0: all
  bool has_insert_if_absent = false;   // whether the protocol has INSERT; if not, a trace's `add` is a PUT
};

// One operation of the trace: a GET, PUT, DELETE or INSERT.
struct TraceEvent {
  Nanos at = 0;  // ns since the trace's first operation
  std::uint32_t record : 29 = 0;
  std::uint32_t kind_bits : 3 = 0;
  std::uint32_t value_bytes = 0;  // bytes of the value that a PUT or INSERT writes
  [[nodiscard]] OpKind kind() const { return static_cast<OpKind>(kind_bits); }
};
static_assert(sizeof(TraceEvent) == 16 && op_kinds <= 8);

// Sizes of each record's key and preloaded value; a vector is empty if all records have the same size.
struct RecordTable {
  std::vector<std::uint32_t> key_bytes, value_bytes;  // indexed by record
  std::uint32_t value_least = 0, value_most = 0;      // bounds of all values, preloaded or written later
};

// How the trace's lines were converted, for the report.
struct TraceCounts {
  std::uint64_t lines = 0;
  // Number of operations not replayed, by their name in the trace.
  std::map<std::string, std::uint64_t> skipped;
  // Number of operations replayed without their condition or lease, by their name in the trace.
  std::map<std::string, std::uint64_t> simplified;
  std::uint64_t short_keys = 0;      // keys under 8 bytes, which are lengthened to 8
  std::uint64_t empty_values = 0;    // PUTs of 0 bytes, which write 1 byte
  std::uint64_t unknown_values = 0;  // preloaded keys whose value's size no line tells
  bool is_cut = false;               // whether the trace has more operations than TraceRequest::operations
};

// A trace in memory: immutable, shared by all threads.
class Trace {
 public:
  static constexpr std::uint64_t most_operations = std::uint64_t{1} << 26;  // also bounds the number of keys
  static constexpr std::uint64_t most_bytes = (std::uint64_t{1} << 30) - 1;

  [[nodiscard]] const std::vector<TraceEvent>& events() const { return events_; }
  [[nodiscard]] std::uint64_t keys() const { return keys_; }
  // Records 0 … preloaded()-1 are preloaded.
  [[nodiscard]] std::uint64_t preloaded() const { return preloaded_; }
  [[nodiscard]] std::uint32_t key_most() const { return key_most_; }
  [[nodiscard]] std::uint32_t value_most() const { return sizes_->value_most; }
  [[nodiscard]] const std::shared_ptr<const RecordTable>& sizes() const { return sizes_; }
  [[nodiscard]] const TraceCounts& counts() const { return counts_; }
  [[nodiscard]] bool has_times() const { return has_times_; }
  // Time in ns from the first operation to the end of the one-second interval in which the last operation
  // arrived.
  [[nodiscard]] Nanos span() const { return span_; }

 private:
  friend class TraceBuilder;
  std::vector<TraceEvent> events_;
  std::uint64_t keys_ = 0, preloaded_ = 0;
  std::uint32_t key_most_ = 0;
  std::shared_ptr<const RecordTable> sizes_;
  TraceCounts counts_;
  bool has_times_ = false;
  Nanos span_ = 0;
};

// Builds a Trace from lines.
//
// Keys are told apart by a 64-bit hash of their bytes: among 2^26 keys, a collision has a probability of
// 2^-13. Operations that arrived in the same second are spread evenly over it, in the order of the lines.
class TraceBuilder {
 public:
  explicit TraceBuilder(TraceRequest request);
  // Adds one line, without its line end. An error names file and line.
  [[nodiscard]] Result<> add(std::string_view line);
  // Whether the requested number of operations is reached, so that no further line need be added.
  [[nodiscard]] bool is_full() const { return is_full_; }
  [[nodiscard]] Result<std::shared_ptr<const Trace>> finish();

 private:
  struct Key {
    std::uint32_t key_bytes = 0;
    // Value size in bytes in the key's first operation that states a size; 0: none has so far.
    std::uint32_t first_value = 0;
    std::uint32_t value = 0;  // value size of the key's latest PUT; 0: no PUT so far
    bool is_found = false;    // whether the key's first operation finds it present
  };
  [[nodiscard]] std::unexpected<Error> bad(std::string_view what) const;
  [[nodiscard]] Result<> note_time(const TraceLine& line);
  [[nodiscard]] Result<> check_sizes(const TraceLine& line) const;
  [[nodiscard]] std::uint32_t record_of(const TraceLine& line);
  [[nodiscard]] std::uint32_t size_of_put(const TraceLine& line, Key& key);
  [[nodiscard]] Result<> issue(OpKind kind, std::uint32_t record, std::uint32_t value_bytes);
  void spread_second();
  [[nodiscard]] std::vector<std::uint32_t> number_records();
  void set_sizes(const std::vector<std::uint32_t>& number);

  TraceRequest request_;
  TraceParser parser_;
  std::shared_ptr<Trace> trace_;
  std::unordered_map<std::uint64_t, std::uint32_t> by_hash_;
  std::vector<Key> keys_;
  std::uint64_t second_ = 0, first_second_ = 0;
  std::size_t second_begins_ = 0;  // index of the first event of the current one-second interval
  bool is_full_ = false;
};

// Reads the trace file. An error is one line that names the file.
[[nodiscard]] Result<std::shared_ptr<const Trace>> read_trace(const TraceRequest& request);

}  // namespace loch::workloads
