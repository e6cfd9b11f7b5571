// A trace that is replayed: the operations of a published trace (trace_format.h), its keys as record numbers.
//
// The file is read once, line by line, before the run, so that every fault of it is found then. What is kept:
// 16 bytes an operation, 8 a key (nothing where all have one size), and 4 an operation in the process whose
// client issues it; while reading, about 60 bytes a key more. At most most_operations of them.
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

// Which keys are there before the first operation.
enum class TracePreload : std::uint8_t {
  found,  // those whose first operation reads, changes or removes what is there
  all,
  none,
};
// In the order of the enumeration.
[[nodiscard]] const std::vector<std::string>& trace_preload_names();

struct TraceRequest {
  std::string file;
  TraceFormat format = TraceFormat::twitter;
  TracePreload preload = TracePreload::found;
  // Bytes; a line above is refused. None: the trace's own largest.
  std::optional<std::uint32_t> key_most, value_most;
  std::uint32_t unknown_value = 1024;  // bytes of a preloaded value of which no line tells the size
  bool is_one_size = false;            // every key of *key_most and every value of *value_most bytes
  std::uint64_t operations = 0;        // the first so many; 0: all
  bool has_insert_if_absent = false;   // whether INSERTs can be issued
};

// One GET, PUT, DELETE or INSERT.
struct TraceEvent {
  Nanos at = 0;  // from the trace's first
  std::uint32_t record : 29 = 0;
  std::uint32_t kind_bits : 3 = 0;
  std::uint32_t value_bytes = 0;  // of a PUT or INSERT
  [[nodiscard]] OpKind kind() const { return static_cast<OpKind>(kind_bits); }
};
static_assert(sizeof(TraceEvent) == 16 && op_kinds <= 8);

// How long each record's key and its preloaded value are, where they differ; empty: all of them alike.
struct RecordTable {
  std::vector<std::uint32_t> key_bytes, value_bytes;  // by record
  std::uint32_t value_least = 0, value_most = 0;      // of any value, written later or not
};

// What of a file became what.
struct TraceCounts {
  std::uint64_t lines = 0;
  std::map<std::string, std::uint64_t> skipped;     // operations, by the trace's name
  std::map<std::string, std::uint64_t> simplified;  // replayed without their condition or lease
  std::uint64_t short_keys = 0;                     // under 8 bytes, where sizes differ: taken as 8
  std::uint64_t empty_values = 0;                   // PUTs of 0 bytes: taken as 1
  std::uint64_t unknown_values = 0;                 // preloaded keys whose value's size no line tells
  bool is_cut = false;                              // more followed than TraceRequest::operations
};

// Immutable; shared by all threads.
class Trace {
 public:
  static constexpr std::uint64_t most_operations = std::uint64_t{1} << 26;  // and so as many keys
  static constexpr std::uint64_t most_bytes = (std::uint64_t{1} << 30) - 1;

  [[nodiscard]] const std::vector<TraceEvent>& events() const { return events_; }
  [[nodiscard]] std::uint64_t keys() const { return keys_; }
  [[nodiscard]] std::uint64_t preloaded() const { return preloaded_; }  // records 0 … preloaded()-1
  [[nodiscard]] std::uint32_t key_most() const { return key_most_; }
  [[nodiscard]] std::uint32_t value_most() const { return sizes_->value_most; }
  [[nodiscard]] const std::shared_ptr<const RecordTable>& sizes() const { return sizes_; }
  [[nodiscard]] const TraceCounts& counts() const { return counts_; }
  [[nodiscard]] bool has_times() const { return has_times_; }
  // From the first operation to the end of the last one's second.
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

// Makes a Trace of lines.
//
// Keys are told apart by a 64-bit hash of their bytes: of 2^26 keys two are taken for one with a probability
// of 2^-13. Operations whose lines have the same second are spread evenly over it, in the order of the lines.
class TraceBuilder {
 public:
  explicit TraceBuilder(TraceRequest request);
  // The next line, without its end. The error names file and line.
  [[nodiscard]] Result<> add(std::string_view line);
  // No more lines are wanted.
  [[nodiscard]] bool is_full() const { return is_full_; }
  [[nodiscard]] Result<std::shared_ptr<const Trace>> finish();

 private:
  struct Key {
    std::uint32_t key_bytes = 0;
    std::uint32_t first_value = 0;  // 0: no line has told yet
    std::uint32_t value = 0;        // of the latest PUT; 0: none yet
    bool is_found = false;          // the first operation expects it there
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
  std::size_t second_begins_ = 0;  // the event that is the first of this second
  bool is_full_ = false;
};

// Reads the file. Errors are one line that names it.
[[nodiscard]] Result<std::shared_ptr<const Trace>> read_trace(const TraceRequest& request);

}  // namespace loch::workloads
