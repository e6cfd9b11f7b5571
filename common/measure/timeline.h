// Operations over time. A run's measurement window is cut into bins of equal width; each bin counts the
// operations that ended in it, with their latencies. Workers record into arrays of 32-bit words, one row of
// words for each bin; the arrays may lie in memory that outlives the worker's process. Processes merge their
// timelines bin by bin; times count from the start of the measurement window.
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
// Latency buckets: 1 ns wide below 64 ns, then 32 buckets for each power of two, so that a bucket's middle is
// within 1.6 % of its values. The last bucket also counts every latency from 2^36 ns (69 s) on.
constexpr std::uint32_t timeline_buckets = 1024;
// Each bin has a row of words: one counts the failed operations, the others count the completed operations by
// latency bucket.
constexpr std::size_t timeline_row_words = 1 + timeline_buckets;

struct TimelineShape {
  std::int64_t width_ns = 0;     // width of a bin; the last bin may be narrower
  std::int64_t duration_ns = 0;  // length of the measurement window
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

// Makes the shape (bins) of a timeline. A width that is not above 0, or that makes more than
// timeline_bins_max bins, is an error.
[[nodiscard]] Result<TimelineShape> timeline_shape(std::int64_t width_ns, std::int64_t duration_ns);

[[nodiscard]] constexpr std::uint32_t timeline_bucket(std::int64_t ns) {
  const auto value = static_cast<std::uint64_t>(std::clamp<std::int64_t>(ns, 0, (std::int64_t{1} << 36) - 1));
  if (value < 64) return static_cast<std::uint32_t>(value);
  const auto octave = static_cast<std::uint32_t>(std::bit_width(value)) - 6;
  return 64 + (octave - 1) * 32 + static_cast<std::uint32_t>(value >> octave) - 32;
}
static_assert(timeline_bucket((std::int64_t{1} << 36) - 1) == timeline_buckets - 1);
// The middle of a latency bucket, in nanoseconds.
[[nodiscard]] double timeline_middle(std::uint32_t bucket);

// Records one worker's operations: this object keeps the counts of the current bin, and adds them to the
// bin's row when the next bin begins. Allocates nothing and takes no lock. Workers of several threads may
// share the rows.
class TimelineRecorder {
 public:
  TimelineRecorder() = default;  // a recorder that ignores every operation
  // `rows` has shape.words() words, initially zero, and has to outlive the recorder's use.
  TimelineRecorder(const TimelineShape& shape, std::span<std::uint32_t> rows) : shape_(shape), rows_(rows) {}

  // Counts an operation that ended `since_ns` after the start of the measurement window. `since_ns` must not
  // decrease from call to call.
  void record(std::int64_t since_ns, std::int64_t latency_ns, bool is_completed) {
    if (rows_.empty()) return;
    if (since_ns >= end_ns_) [[unlikely]]
      move_to(since_ns);
    ++row_[is_completed ? 1 + timeline_bucket(latency_ns) : 0];
  }
  // Adds the counts of the current bin to the bin's row of counters.
  void flush();

 private:
  void move_to(std::int64_t since_ns);

  TimelineShape shape_;
  std::span<std::uint32_t> rows_;
  std::int64_t end_ns_ = 0;
  std::uint32_t bin_ = 0;
  std::array<std::uint32_t, timeline_row_words> row_{};
};

// A failure of a node or worker, or a recovery step after one, during the measurement window.
struct TimelineEvent {
  std::int64_t at_ns = 0;  // ns from the start of the measurement window
  std::string what;        // "kill", "crash", "restart", "fence", "scrub", "declare", "rejoin", …
  std::uint32_t node = 0;
  friend bool operator==(const TimelineEvent&, const TimelineEvent&) = default;
};

class Timeline {
 public:
  struct Bin {
    std::uint64_t failed = 0;  // operations that ended in conflict, timeout, table full or error
    // (latency bucket, number of completed operations in it), in ascending order of buckets
    std::vector<std::pair<std::uint32_t, std::uint64_t>> latencies;
    // keys that the prober (a client that PUTs some keys in every bin, --probe-keys) could not write in this
    // bin; nullopt without a prober
    std::optional<std::uint32_t> unwritable;
    [[nodiscard]] std::uint64_t completed() const;
    // The latency in nanoseconds that at least `percent` of the completed operations do not exceed, as the
    // middle of its bucket; nullopt if no operation completed.
    [[nodiscard]] std::optional<double> percentile(double percent) const;
  };

  explicit Timeline(const TimelineShape& shape) : shape_(shape), bins_(shape.bins()) {}
  [[nodiscard]] const TimelineShape& shape() const { return shape_; }
  [[nodiscard]] const std::vector<Bin>& bins() const { return bins_; }
  [[nodiscard]] const std::vector<TimelineEvent>& events() const { return events_; }

  // Adds the counts that workers recorded in `rows`, which have this timeline's shape. Workers may still be
  // recording into them.
  void add(std::span<std::uint32_t> rows);
  // Adds the bins and events of another process's timeline of the same shape.
  void merge(const Timeline& other);
  void set_unwritable(const std::vector<std::uint32_t>& by_bin);
  void add_event(TimelineEvent event) { events_.push_back(std::move(event)); }

 private:
  friend Result<Timeline> timeline_from_json(const nlohmann::json& json);
  TimelineShape shape_;
  std::vector<Bin> bins_;
  std::vector<TimelineEvent> events_;
};

// JSON for gathering timelines from other processes. timeline_from_json refuses a document that is not in the
// format of to_json, and needs bounded memory for any document.
[[nodiscard]] nlohmann::json to_json(const Timeline& timeline);
[[nodiscard]] Result<Timeline> timeline_from_json(const nlohmann::json& json);
// JSON for the result document: [{t_s, ops_s, p50_us, p99_us, failed_s, unwritable_keys}, …] for the bins,
// and [{t_s, event, node}, …] for the events.
[[nodiscard]] nlohmann::ordered_json bins_json(const Timeline& timeline);
[[nodiscard]] nlohmann::ordered_json events_json(const Timeline& timeline);

}  // namespace loch::measure
