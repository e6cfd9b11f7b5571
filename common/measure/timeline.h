// Operations over time: a run's measurement window cut into bins of one width, each with what ended in it and
// how long that had taken. Workers record into rows of plain words, which may lie in memory that outlives
// their process; processes merge their Timelines, bin by bin, counted from the start of the window.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace loch::measure {

constexpr std::uint32_t timeline_bins_max = 10'000;
// Latencies are kept in 32 buckets an octave, whose middle is within 1.6 % of every value: below 64 ns one
// each, and all from 2^36 ns (69 s) on in the last.
constexpr std::uint32_t timeline_buckets = 1024;
// A bin's row: operations that failed, then completed ones by bucket.
constexpr std::size_t timeline_row_words = 1 + timeline_buckets;

struct TimelineShape {
  std::int64_t width_ns = 0;     // of a bin; the last one may be shorter
  std::int64_t duration_ns = 0;  // of the window
  [[nodiscard]] std::uint32_t bins() const {
    return static_cast<std::uint32_t>((duration_ns + width_ns - 1) / width_ns);
  }
  [[nodiscard]] std::uint32_t bin_of(std::int64_t since_ns) const {
    const std::int64_t bin = std::max<std::int64_t>(since_ns, 0) / width_ns;
    return static_cast<std::uint32_t>(std::min<std::int64_t>(bin, bins() - 1));
  }
  [[nodiscard]] std::size_t words() const { return bins() * timeline_row_words; }
  friend bool operator==(const TimelineShape&, const TimelineShape&) = default;
};

// Refuses a width that is not above 0, or that cuts the window into too many bins.
[[nodiscard]] Result<TimelineShape> timeline_shape(std::int64_t width_ns, std::int64_t duration_ns);

[[nodiscard]] constexpr std::uint32_t timeline_bucket(std::int64_t ns) {
  const auto value = static_cast<std::uint64_t>(std::clamp<std::int64_t>(ns, 0, (std::int64_t{1} << 36) - 1));
  if (value < 64) return static_cast<std::uint32_t>(value);
  const auto octave = static_cast<std::uint32_t>(std::bit_width(value)) - 6;
  return 64 + (octave - 1) * 32 + static_cast<std::uint32_t>(value >> octave) - 32;
}
static_assert(timeline_bucket((std::int64_t{1} << 36) - 1) == timeline_buckets - 1);
// The middle of a bucket, in nanoseconds.
[[nodiscard]] double timeline_middle(std::uint32_t bucket);

// One worker's counts of the bin that is under way; the bins before are in the rows already. Allocates
// nothing and locks nothing. Workers of several threads may share the rows.
class TimelineRecorder {
 public:
  TimelineRecorder() = default;  // records nothing
  // The rows hold shape.words() words, zeroed at first, and outlive the recorder's use.
  TimelineRecorder(const TimelineShape& shape, std::span<std::uint32_t> rows) : shape_(shape), rows_(rows) {}

  // An operation that ended so long after the start of the window. Calls come in the order of time.
  void record(std::int64_t since_ns, std::int64_t latency_ns, bool is_completed) {
    if (rows_.empty()) return;
    if (since_ns >= end_ns_) [[unlikely]]
      move_to(since_ns);
    ++row_[is_completed ? 1 + timeline_bucket(latency_ns) : 0];
  }
  // Adds the bin that is under way to its row.
  void flush();

 private:
  void move_to(std::int64_t since_ns);

  TimelineShape shape_;
  std::span<std::uint32_t> rows_;
  std::int64_t end_ns_ = 0;
  std::uint32_t bin_ = 0;
  std::array<std::uint32_t, timeline_row_words> row_{};
};

// What happened to the cluster and was done about it.
struct TimelineEvent {
  std::int64_t at_ns = 0;  // from the start of the window
  std::string what;        // "kill", "crash", "restart", "fence", "scrub", "declare", "rejoin", …
  std::uint32_t node = 0;
  friend bool operator==(const TimelineEvent&, const TimelineEvent&) = default;
};

class Timeline {
 public:
  struct Bin {
    std::uint64_t failed = 0;  // operations that ended in conflict, timeout, table full or error
    std::vector<std::pair<std::uint32_t, std::uint64_t>> latencies;  // (bucket, operations), ascending
    std::optional<std::uint32_t> unwritable;                         // keys of the prober's sample
    [[nodiscard]] std::uint64_t completed() const;
    // The latency that at least `percent` of the completed operations do not exceed, as the middle of its
    // bucket, in nanoseconds; nothing where none completed.
    [[nodiscard]] std::optional<double> percentile(double percent) const;
  };

  explicit Timeline(const TimelineShape& shape) : shape_(shape), bins_(shape.bins()) {}
  [[nodiscard]] const TimelineShape& shape() const { return shape_; }
  [[nodiscard]] const std::vector<Bin>& bins() const { return bins_; }
  [[nodiscard]] const std::vector<TimelineEvent>& events() const { return events_; }

  // Adds what workers recorded: rows of this shape, which others may still be writing to.
  void add(std::span<std::uint32_t> rows);
  // Adds another process's. Its shape is this one's.
  void merge(const Timeline& other);
  void set_unwritable(const std::vector<std::uint32_t>& by_bin);
  void add_event(TimelineEvent event) { events_.push_back(std::move(event)); }

 private:
  friend Result<Timeline> timeline_from_json(const nlohmann::json& json);
  TimelineShape shape_;
  std::vector<Bin> bins_;
  std::vector<TimelineEvent> events_;
};

// For gathering from other processes: strict, and of bounded size whatever the document says.
[[nodiscard]] nlohmann::json to_json(const Timeline& timeline);
[[nodiscard]] Result<Timeline> timeline_from_json(const nlohmann::json& json);
// For the result: [{t_s, ops_s, p50_us, p99_us, failed_s, unwritable_keys}, …], and [{t_s, event, node}, …].
[[nodiscard]] nlohmann::ordered_json bins_json(const Timeline& timeline);
[[nodiscard]] nlohmann::ordered_json events_json(const Timeline& timeline);

}  // namespace loch::measure
