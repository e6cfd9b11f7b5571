// The counts of one worker that drives load, which are merged over workers, nodes and processes: operations
// by kind and outcome, their latencies, work requests and bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "common/base/operation.h"
#include "common/base/result.h"
#include "common/fabric/fabric.h"
#include "common/measure/histogram.h"

namespace loch::measure {

// A distribution of counts, such as the number of work requests of an operation.
class CountDistribution {
 public:
  void record(std::uint64_t value, std::uint64_t times = 1) { count_of(value) += times; }
  void merge(const CountDistribution& other);
  // Number of operations for each count, in ascending order of the counts.
  [[nodiscard]] std::map<std::uint64_t, std::uint64_t> counts() const;
  void add(std::uint64_t value, std::uint64_t times) { count_of(value) += times; }

 private:
  struct Count {
    std::uint64_t value = 0, times = 0;
  };
  [[nodiscard]] std::uint64_t& count_of(std::uint64_t value) {
    if (value < small_.size()) return small_[value];
    const auto at = std::ranges::lower_bound(large_, value, {}, &Count::value);
    if (at != large_.end() && at->value == value) return at->times;
    return large_.insert(at, {value, 0})->times;
  }

  std::array<std::uint64_t, 32> small_{};
  // the counts from 32 on, each with its number of operations, in ascending order; the operations of a
  // protocol have few distinct counts
  std::vector<Count> large_;
};

// Work requests and bytes, summed over many operations of one kind.
struct RequestTotals {
  std::uint64_t read = 0, write = 0, cas = 0, faa = 0, send = 0, recv = 0;
  std::uint64_t payload_bytes = 0, wire_bytes = 0;
  std::uint64_t index_read = 0, index_cas = 0, cache_hits = 0, local_accesses = 0;
  CountDistribution requests;  // number of READs, WRITEs, CASes, FAAs and SENDs of one operation
  CountDistribution reads, index_reads, swaps;
  CountDistribution payload;  // payload bytes of one operation

  // Records `times` operations, each of which used the work requests in `stats`.
  void record(const fabric::OpStats& stats, std::uint64_t times = 1);
  void merge(const RequestTotals& other);
};

struct KindTally {
  Histogram latency_ns;  // latency of the operations that completed
  std::array<std::uint64_t, op_statuses> by_status{};
  RequestTotals requests;  // work requests and bytes of all counted operations, completed or not
  [[nodiscard]] std::uint64_t total() const;
  [[nodiscard]] std::uint64_t completed() const;  // number of operations that ended ok, not_found or exists
};

// Sizes of keys and values inside the measurement window, if sizes differ: keys of all operations; values of
// GETs, PUTs and INSERTs that ended ok.
struct SizeTally {
  Histogram key_bytes, value_bytes;
};

// Multi-gets (sets of GETs issued together) inside the measurement window. The latency of a multi-get is the
// time from its start, or from its arrival time in an open loop, until its last GET ended.
struct BatchTally {
  std::uint64_t total = 0;
  Histogram latency_ns;  // latency of the multi-gets whose GETs all ended ok or not_found
};

struct Tally {
  std::array<KindTally, op_kinds> kinds;
  std::uint64_t retries = 0;
  std::uint64_t verified = 0;    // GETs whose value was checked and found right
  std::uint64_t corrupt = 0;     // GETs whose value was checked and found wrong
  std::uint64_t unmeasured = 0;  // operations that ended outside the measurement window
  // times of the first and the last completion in the measurement window
  std::int64_t first_ns = INT64_MAX, last_ns = 0;
  Histogram lag_ns;    // trace replay: ns by which operations began after their arrival times
  BatchTally batches;  // counts of multi-gets; empty if GETs are issued one by one
  SizeTally sizes;     // empty if all records have one size
  // completed operations that ended in the first half of the measurement window
  std::uint64_t first_half = 0;

  [[nodiscard]] const KindTally& of(OpKind kind) const { return kinds[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] KindTally& of(OpKind kind) { return kinds[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] std::uint64_t total() const;
  [[nodiscard]] std::uint64_t completed() const;
  void merge(const Tally& other);
};

// The counts as JSON, to be collected from other processes.
[[nodiscard]] nlohmann::json to_json(const Tally& tally);
[[nodiscard]] Result<Tally> tally_from_json(const nlohmann::json& json);

}  // namespace loch::measure
